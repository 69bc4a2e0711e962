"""A file that is no Python stands for a module that has nothing but its text."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst


@dataclass(frozen=True)
class PlainText(cst.Module):
    """A text that nothing reads as Python; without ``content`` it is a file that is not there."""

    content: str | None = None

    @property
    def bytes(self) -> bytes:
        """The file's bytes."""
        return self.code.encode()

    @property
    def code(self) -> str:
        """The file's text."""
        return self.content or ""


def plain(content: str | None) -> PlainText:
    """Return a text, or a file that is not there, as a module without statements."""
    return PlainText(body=(), content=content)


def is_no_file(module: cst.Module | None) -> bool:
    """Tell whether a module stands for a file that is not there."""
    return isinstance(module, PlainText) and module.content is None
