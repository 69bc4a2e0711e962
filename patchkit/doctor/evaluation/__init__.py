"""Evaluate code of a tree from its sources, with the values that are known of a server; nothing is imported."""
