"""A tree's own server settings, executed in a child process without GPU, network or heavy packages."""
