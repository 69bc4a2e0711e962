"""Make a change in another tree: merge three versions of each of its files by structure, and follow what moved."""
