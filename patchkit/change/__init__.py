"""Merge three versions of a file by structure: the change between two of them is made in the third."""
