"""Checks of a patched tree. Each check is a pure function of the tree, its patches and the record."""
