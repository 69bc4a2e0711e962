"""Draft a patch from a diff."""
