"""Models with fewer channels, and which channels a client keeps."""
