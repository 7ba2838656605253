"""Results of runs: their files, statistics and pictures."""
