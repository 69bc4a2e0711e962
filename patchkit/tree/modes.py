"""git's modes of what a tree has at a path."""

PLAIN = "100644"
PROGRAM = "100755"
LINK = "120000"
SUBMODULE = "160000"
FOLDER = "040000"
NO_FILE = "000000"

FILES = frozenset({PLAIN, PROGRAM})
