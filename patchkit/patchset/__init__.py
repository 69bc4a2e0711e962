"""Patches are data: their schema, their loading and their choice."""
