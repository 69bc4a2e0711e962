"""The text of a file after the edits of its items."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from patchkit.change import tokens
from patchkit.change.comments import stripped_lines
from patchkit.lines import lines_with_ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.change.outline import Item
    from patchkit.change.regions import Blocks


@dataclass
class Output:
    """The new texts of items, of their parts, and of what is inserted between these."""

    _texts: dict[Item, str] = field(default_factory=dict)
    _heads: dict[Item, str] = field(default_factory=dict)
    _leads: dict[Item, str] = field(default_factory=dict)
    _tails: dict[Item, str] = field(default_factory=dict)
    _insertions: dict[tuple[Item, int], list[str]] = field(default_factory=dict)

    def render(self, item: Item, blocks: Blocks = MappingProxyType({})) -> str:
        """Return the text of an item after the edits; ``blocks`` are the conflicts that are marked in it."""
        if item in self._texts:
            return self._texts[item]
        header, *inside = blocks.get(item) or [None]
        head = self._heads.get(item, item.head)
        lines = [
            self.lead(item),
            head if header is None else header.around(head, item.indent),
        ]
        end = 0
        for position in range(len(item.children) + 1):
            for text in self._insertions.get((item, position), ()) if position >= end else ():
                lines += ["\n"] if lines[-1] and not lines[-1].endswith("\n") else []
                lines.append(text)
            for block in (block for block in inside if block is not None and block.start == position):
                end = max(end, block.end)
                text = "".join(self._run(item, block.start, block.end))
                lines += ["\n"] if lines[-1] and not lines[-1].endswith("\n") else []
                lines.append(block.around(text, item.inner_indent))
            if end <= position < len(item.children):
                lines.append(self.render(item.children[position], blocks))
        return "".join(lines) + self._tails.get(item, item.tail)

    def _run(self, item: Item, start: int, end: int) -> Iterator[str]:
        """Yield the texts of a run of parts after the edits, with what is inserted between them."""
        for position in range(start, end):
            yield from self._insertions.get((item, position), ()) if position > start else ()
            yield self.render(item.children[position])

    def first(self, item: Item) -> Item | None:
        """Return the first part that stays of an item; None if something is inserted above it."""
        for position, child in enumerate(item.children):
            if (item, position) in self._insertions:
                return None
            if self._texts.get(child) != "":
                return child
        return None

    def lead(self, item: Item) -> str:
        """Return the comments above an item after the edits."""
        return self._leads.get(item, item.lead)

    def delete(self, item: Item, left: str = "") -> None:
        """Leave an item out; ``left`` is what stays of the comments and blank lines above it."""
        self._texts[item] = left

    def write(self, item: Item, own: str) -> None:
        """Set an item's own text, given without indentation; the comments above it stay."""
        if item.own.endswith("\n") and not own.endswith("\n"):  # It was the last line of its file.
            own = f"{own}\n"
        self._texts[item] = self.lead(item) + tokens.shifted(own, "", item.indent)

    def write_head(self, item: Item, head: str) -> None:
        """Set an item's header, given without indentation."""
        self._heads[item] = tokens.shifted(head, "", item.indent)

    def write_lead(self, item: Item, lead: str) -> None:
        """Set the comments above an item, before its text is."""
        self._leads[item] = lead

    def write_tail(self, item: Item, tail: str) -> None:
        """Set the comments at the end of a file."""
        self._tails[item] = tail

    def insert(self, container: Item, index: int, text: str) -> None:
        """Insert lines before a part of an item, after what was inserted there before."""
        self._insertions.setdefault((container, index), []).append(
            text if text.endswith("\n") else f"{text}\n"
        )

    def insert_below(self, module: Item, import_item: Item) -> None:
        """Append an item to a file that contains only comments, without those of its own that are there."""
        tail = self._tails.get(module, module.tail)
        lines = stripped_lines(tail)
        lead = [line for line in lines_with_ends(import_item.lead) if line.strip() not in lines]
        self._tails[module] = ""
        self._insertions.setdefault((module, 0), []).append(f"{tail}{''.join(lead)}{import_item.own}")
