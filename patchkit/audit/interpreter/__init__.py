"""Abstract interpretation of functions over the possible values of their variables."""
