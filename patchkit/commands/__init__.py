"""The use cases behind the commands, one for each file. They return values, raise PatchkitError, and print nothing."""
