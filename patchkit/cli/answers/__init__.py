"""The structs of the ``--json`` answers, one file for each command, and their construction from a command's result.

The JSON Schemas in ``docs/schemas`` are generated from these structs. Keys may be added; none is removed or changes its
meaning without a line in the changelog. A key is omitted if it has its default value, or if it is unset because its
option was not given.
"""
