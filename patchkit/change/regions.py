"""Write conflict markers as git does: the tree's text, the expected text and the wanted text of one region."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.change import tokens
from patchkit.change.comments import blank_lines_above
from patchkit.change.outline import dedented

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from patchkit.change.outline import Item

    Blocks = Mapping[Item, Sequence["Block | None"]]
    """The conflicts in each item: that of its header, if there is one, and those among its parts, in order."""


@dataclass(frozen=True)
class Region:
    """The extent of a conflict: parts ``start`` to ``end`` of an item, or its header if ``end`` is None."""

    inside: Item
    start: int = 0
    end: int | None = None

    @classmethod
    def of(cls, item: Item) -> Region:
        """Return the region of an item that is in another."""
        assert item.parent is not None  # Nothing contains a file.
        return cls(item.parent, item.position, item.position + 1)

    @property
    def line(self) -> int:
        """The line of its first statement, or of the last one before it at the end of a block."""
        parts = () if self.end is None else self.inside.children
        return parts[min(self.start, len(parts) - 1)].line if parts else self.inside.line

    @property
    def text(self) -> str:
        """The tree's text of the region, without indentation."""
        if self.end is None:
            return self.inside.head_dedented
        return dedented(self.inside.children[self.start : self.end])

    def lines(self) -> tuple[int, int]:
        """Return the first line of the region in the text of a file's items, and the line after it."""
        parts = self.inside.children[self.start : self.end] if self.end is not None else ()
        if parts:
            first, text = parts[0].line, parts[0].own + "".join(part.text for part in parts[1:])
        elif self.end is None or not self.start:
            first, text = self.inside.line, self.inside.head
        else:
            first, text = self.inside.children[self.start - 1].line, self.inside.children[self.start - 1].own
        end = first + text.count("\n")
        return (first, end) if parts or self.end is None else (end, end)


@dataclass(frozen=True)
class Block:
    """A conflict, with the numbers of its edits; for a header, ``start`` and ``end`` are not parts."""

    name: str
    numbers: tuple[int, ...]
    start: int
    end: int
    expected: tuple[str, ...]
    wanted: tuple[str, ...]

    def around(self, marked: str, indent: str) -> str:
        """Return the tree's text between markers; blank lines above it stay above the markers."""
        expected, wanted = _joined(self.expected), _joined(self.wanted)
        blank = ""
        if marked.strip():
            whole = marked
            marked, expected, wanted = (blank_lines_above(text)[1] for text in (marked, expected, wanted))
            blank = whole.removesuffix(marked)
        label = f"{self.name} edit-{self.numbers[0]}"
        return "".join(
            (
                blank,
                f"<<<<<<< found (patchkit {label})\n",
                _ended(marked),
                f"||||||| expected\n{tokens.shifted(expected, '', indent)}",
                f"=======\n{tokens.shifted(wanted, '', indent)}",
                f">>>>>>> wanted (patchkit {label}, port)\n",
            )
        )


def blocks_of(name: str, conflicts: Iterable[tuple[Region, int, str, str]]) -> Blocks:
    """Return the blocks of conflicts, each its region, its edit's number, what was expected and what is wanted.

    Conflicts of which one encloses a part of another are one block.
    """
    marked: dict[Item, list[Block | None]] = {}
    ordered = sorted(conflicts, key=lambda given: (given[0].start, -(given[0].end or 0), given[1]))
    for region, number, expected, wanted in ordered:
        blocks = marked.setdefault(region.inside, [None])
        block = Block(name, (number,), region.start, region.end or 0, (expected,), (wanted,))
        header, *others = blocks
        if region.end is None:
            blocks[0] = block if header is None else _united(header, block)
        # What is missing twice at one place is two conflicts.
        elif others and (last := others[-1]) is not None and block.start < last.end:
            blocks[-1] = _united(last, block)
        else:
            blocks.append(block)
    return marked


def marked_numbers(text: str, blocks: Blocks) -> frozenset[int]:
    """Return the numbers of the edits whose conflicts are marked in a text."""
    present = (block for row in blocks.values() for block in row if block is not None)
    return frozenset(
        number
        for block in present
        if f"<<<<<<< found (patchkit {block.name} edit-{block.numbers[0]})\n" in text
        for number in block.numbers
    )


def _united(one: Block, other: Block) -> Block:
    return replace(
        one,
        numbers=(*one.numbers, *other.numbers),
        end=max(one.end, other.end),
        expected=(*one.expected, *other.expected),
        wanted=(*one.wanted, *other.wanted),
    )


def _joined(texts: Iterable[str]) -> str:
    return "".join(map(_ended, dict.fromkeys(texts)))


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"
