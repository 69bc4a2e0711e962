"""What each command does, one use case a file: it returns values, raises PatchkitError, and prints nothing."""
