"""The checks, one a module, each with its rules."""
