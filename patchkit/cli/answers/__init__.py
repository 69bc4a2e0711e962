"""What ``--json`` answers: one file a command has its structs, and makes them of what the command came to.

The JSON is these structs', and so are the JSON Schemas in ``docs/schemas``. A key may come; none goes or changes its
meaning without a line in the changelog. A key with a default is left out where it has nothing to say, one that may be
unset where its option was not given.
"""
