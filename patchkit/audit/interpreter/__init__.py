"""Functions are interpreted over what their values can be."""
