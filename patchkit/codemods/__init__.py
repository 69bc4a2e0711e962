"""Codemods: kinds of edit on Python code, independent of sglang."""
