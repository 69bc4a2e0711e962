"""Kinds of edits."""
