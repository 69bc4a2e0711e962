"""A patch of one's own is drafted from a diff."""
