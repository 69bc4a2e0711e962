"""A patch of one's own: drafted from a diff, and tried on trees."""
