"""How similar clients' models are: figures 1 and 3 of EmbracingFL."""
