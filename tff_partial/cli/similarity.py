"""Measures how similar clients' local models become."""

from tff_partial.similarity.study import main

__all__ = ["main"]
