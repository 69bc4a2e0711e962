"""The README as the first page of the site, with links that lead to the site's pages; a hook of mkdocs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

REPOSITORY = Path(__file__).parents[1]
BESIDE = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "skills/patchkit/SKILL.md")
"""Pages outside ``docs/`` to which others link."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README and what it links to."""
    pages = {"index.md": "README.md"} | dict(zip(BESIDE, BESIDE, strict=True))
    for name, source in pages.items():
        text = (REPOSITORY / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to pages of the site; where there is none, as of the licence, only the words stay."""
    markdown = re.sub(r"\]\(((?:\.\./)*)docs/(?!schemas)", r"](\1", markdown)
    return re.sub(
        r"\[([^]]+)\]\(((?!https?:)[^)]*(?:LICENSE|\.json|schemas|examples/\w+|tests/[^)]*))\)",
        r"\1",
        markdown,
    )
