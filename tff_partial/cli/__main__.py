"""Runs `python -m tff_partial.cli`, the same as the console script `tff-partial`."""

from tff_partial.cli import main

if __name__ == "__main__":
    main.main()
