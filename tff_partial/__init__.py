"""Federated learning where clients train a part of the model, on TensorFlow Federated."""

__version__ = "0.1.0"
