"""What the measurement of merges counts: picks in conflict, clean files, and those that equal the people's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

import bench_driver  # noqa: E402

BASE = "import os\n\nKIND = 1\n"
MERGED = BASE.replace("import os\n", "import os\nimport re\nimport ast\n")


def git(folder: Path, *words: str, code: int = 0) -> None:
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(("git", *name, *words), cwd=folder, capture_output=True, check=False)
    assert done.returncode == code, done


def merged(folder: Path, people: str) -> None:
    """Make a repository whose last commit merges two imports as ``people`` did."""
    git(folder, "init", "-q", "-b", "main")
    for branch, text in (("main", BASE), ("other", "import ast\n"), ("main", "import re\n")):
        if text != BASE:
            git(folder, "checkout", "-q", *(["-b"] if branch == "other" else []), branch)
        (folder / "a.py").write_text(
            text if text == BASE else BASE.replace("import os\n", f"import os\n{text}")
        )
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", branch)
    git(folder, "merge", "-q", "other", code=1)
    (folder / "a.py").write_text(people)
    git(folder, "commit", "-q", "-a", "-m", "merged")


def measured(folder: Path, people: str) -> bench_driver.Figures:
    merged(folder, people)
    return bench_driver.measure(folder, bench_driver.Drawn((), 1, 5), folder / "judge")


def test_a_merge_that_people_made_as_the_driver_does(tmp_path: Path) -> None:
    figures = measured(tmp_path, MERGED)
    assert (figures.picks, figures.python, figures.picks_clean, figures.files) == (1, 1, 1, 1)
    assert (figures.clean, figures.equal + figures.order, len(figures.outcomes)) == (1, 1, 1)


def test_a_merge_that_people_made_in_another_way_is_kept_for_a_judge(tmp_path: Path) -> None:
    figures = measured(tmp_path, MERGED.replace("import re\n", ""))
    assert (figures.clean, figures.equal, figures.order, *figures.outcomes.values()) == (1, 0, 0, "different")
    (folder,) = (tmp_path / "judge" / "different").iterdir()
    assert {path.name for path in folder.iterdir()} == {"base", "ours", "theirs", "people", "driver", "git"}


def test_the_content_of_a_file_and_not_of_a_folder(tmp_path: Path) -> None:
    merged(tmp_path, MERGED)
    assert bench_driver.blob(tmp_path, "HEAD:a.py") == MERGED.encode()
    assert [bench_driver.blob(tmp_path, name) for name in ("HEAD:", "HEAD:b.py", "HEAD:\udc80.py")] == [
        None
    ] * 3
