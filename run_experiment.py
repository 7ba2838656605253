"""Trains a model federatedly: `python run_experiment.py --task=imdb --algo=embracing`."""

from tff_partial.cli import command_line

if __name__ == "__main__":
    command_line.start("run")
