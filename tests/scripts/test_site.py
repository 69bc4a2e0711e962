"""The pages make a site without a broken link."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_site_is_built_from_the_readme_and_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    made = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "benchmarks" / "gains.svg").is_file()
    assert 'src="benchmarks/gains.svg"' in first
    inside = set(re.findall(r'href="((?!https?:|#|\.\.)[\w/-]+/)(?:#[^"]*)?"', first))
    assert len(inside) > 10
    assert [link for link in inside if not (tmp_path / link / "index.html").is_file()] == []
