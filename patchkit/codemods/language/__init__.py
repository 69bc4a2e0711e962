"""Patterns, templates and code layout, which the kinds of edit are built from."""
