"""Find the lines that patches wrote: by comparison with the original contents, or by a patch's comment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.plan.comments import COMMENT_PREFIX
from patchkit.tree.nodes import statements
from patchkit.tree.source import first_line
from patchkit.tree.text import new_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.tree.index import Module
    from patchkit.verify.subject import Subject

_SIGN = COMMENT_PREFIX.encode()


def written_lines(subject: Subject, module: Module) -> tuple[int, ...]:
    """Return the sorted numbers of the lines in a file that patches wrote, counted from 1."""
    before = subject.originals.get(module.file, module.text)
    if before is None:
        return tuple(range(1, len(module.lines) + 1))
    if before == module.text:
        return tuple(sorted(set(_lines_below_comments(module))))
    return tuple(new_lines(before, module.text))


def _lines_below_comments(module: Module) -> Iterator[int]:
    """Yield the lines of each statement below a patch's comment."""
    lines = module.text.splitlines()
    below = set()
    for index, line in enumerate(lines):
        if line.lstrip().startswith(_SIGN):
            below.add(
                next((n for n in range(index, len(lines)) if not lines[n].lstrip().startswith(b"#")), index)
                + 1
            )
    for node in statements(module.tree) if below else ():
        start = first_line(node) + 1
        if start in below:
            yield from range(start, (node.end_lineno or start) + 1)
