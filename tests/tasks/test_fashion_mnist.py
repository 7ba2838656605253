"""Fashion-MNIST."""

from tests.tasks import declared


class TestTask(declared.Images):
    name, shape = "fashion_mnist", (28, 28, 1)
