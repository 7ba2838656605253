"""EMNIST."""

from tests.tasks import declared


class TestTask(declared.Images):
    name, shape = "emnist", (28, 28, 1)
