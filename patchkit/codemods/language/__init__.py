"""Patterns, templates and how code is laid out: what every kind of edit is made of."""
