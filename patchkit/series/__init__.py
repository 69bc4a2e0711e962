"""A plan as commits: one a patch, on the current branch or in files for ``git am``."""
