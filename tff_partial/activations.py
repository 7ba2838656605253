"""Runs `python -m tff_partial.activations`."""

from tff_partial.cli import command_line

if __name__ == "__main__":
    command_line.start("activations")
