"""The README as a package index shows it: without links into the repository, and plots; a hook of hatchling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_HERE = r"\((?!https?:)[^)]*\)"
"""The target of a link that leads somewhere in the repository."""


class LongDescription(MetadataHookInterface):
    """Adds the long description to the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the key ``readme``."""
        text = described((Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def described(readme: str) -> str:
    """Return the README without comments, and of images and links within the repository only the words of links."""
    text = re.sub(r"^<!--.*?-->\n", "", readme, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(rf"^!\[[^]]*\]{_HERE}\n", "", text, flags=re.MULTILINE)
    text = re.sub(rf"\[([^]]+)\]{_HERE}", r"\1", text)
    return re.sub(r"\n{3,}", "\n\n", text)
