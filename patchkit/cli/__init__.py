"""The command line: one file a command; each answers on stdout and talks on stderr."""

from patchkit.cli.main import main

__all__ = ["main"]
