"""CIFAR-10."""

from tests.tasks import declared


class TestTask(declared.Images):
    name, shape = "cifar10", (32, 32, 3)
