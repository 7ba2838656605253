"""From settings to a run and its results."""
