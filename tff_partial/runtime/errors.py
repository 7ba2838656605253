"""Errors of the runtimes."""


class WorkersLostError(RuntimeError):
    """No worker is left that could run the computation."""
