"""MNIST."""

from tests.tasks import declared


class TestTask(declared.Images):
    name, shape = "mnist", (28, 28, 1)
