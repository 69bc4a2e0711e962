"""Read sglang trees: files, versions, git objects, and the index of definitions."""
