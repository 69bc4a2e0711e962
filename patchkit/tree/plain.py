"""Represent files that are not Python as modules that contain only text."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst


@dataclass(frozen=True)
class PlainText(cst.Module):
    """The text of a file that is not Python; a missing file if ``content`` is None."""

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
    """Return a text, or a missing file (None), as a module without statements."""
    return PlainText(body=(), content=content)


def is_no_file(module: cst.Module | None) -> bool:
    """Return whether a module represents a missing file."""
    return isinstance(module, PlainText) and module.content is None
