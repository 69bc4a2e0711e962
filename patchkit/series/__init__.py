"""Write a plan as commits, one per patch, on the current branch or as files for ``git am``."""
