"""Files, locks, temporary folders and child processes."""
