"""CIFAR-100."""

from tests.tasks import declared


class TestTask(declared.Images):
    name, shape = "cifar100", (32, 32, 3)
