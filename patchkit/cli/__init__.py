"""The command line, one file for each command. Answers go to stdout; notes, progress and errors to stderr."""

from patchkit.cli.main import main

__all__ = ["main"]
