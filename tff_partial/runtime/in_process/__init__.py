"""Runs TFF computations in this process, with the installed TensorFlow."""
