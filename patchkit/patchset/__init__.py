"""Define, load, configure and select patches."""
