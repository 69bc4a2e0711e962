"""Complete the commands that a message suggests, so that they can be run as they are printed."""

from __future__ import annotations

import re

# A command that is followed by a path, or by a placeholder such as PATCH, is complete.
_COMMAND = re.compile(
    r"\bpatchkit (?P<name>apply|audit|diff|resolve|revert|status|verify)\b(?!(?: --[a-z-]+)* (?:[/~'\"]|TREE\b))"
)
_LIST = re.compile(r"\bpatchkit show\b(?! PATCH)")


def completed(text: str, arguments: str, folders: str = "") -> str:
    """Return ``text`` with ``arguments`` added to each command that takes a tree, and ``folders`` to ``show``.

    ``arguments`` select the tree and the patch folders that the running command was given; each of the two starts
    with a space if it is not empty.
    """

    def with_arguments(match: re.Match[str]) -> str:
        given = re.match(rf"(?: --[a-z-]+)*{re.escape(arguments)}(?!\S)", match.string[match.end() :])
        return match[0] if given else match[0] + arguments

    text = _COMMAND.sub(with_arguments, text)
    if arguments.endswith("."):  # A full stop after it would be of the path.
        text = re.sub(rf"(patchkit [a-z]+(?: --[a-z-]+)*{re.escape(arguments)})\.(?=\s|\Z)", r"\1", text)
    return _LIST.sub(lambda match: match[0] + folders, text)
