"""Patches and a tree make a plan; nothing is written."""
