"""Runs `python -m tff_partial.claims`."""

from tff_partial.cli import command_line

if __name__ == "__main__":
    command_line.start("claims")
