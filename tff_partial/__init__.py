"""Federated learning where clients train a part of the model, on TensorFlow Federated."""

import os

# TensorFlow uses oneDNN of its own accord only on some Intel processors; on others its
# convolutions are about half as fast without. Read when TensorFlow is imported.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

__version__ = "0.1.0"
