"""A fork's own copy of the lengths to the host: a person finishes what 26128 leaves there, once for all branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.releases import REFERENCE, Releases, answer, fingerprints, run, states_in, without_ledger

if TYPE_CHECKING:
    from pathlib import Path

FILE = "srt/speculative/eagle_info_v2.py"
COPY = "batch.seq_lens_cpu = batch.seq_lens.cpu()"
FORK = "batch.seq_lens_cpu = self.lengths_of(batch)"
DONE = "batch.seq_lens_cpu = batch.seq_lens.cpu() if batch.needs_cpu_seq_lens else None"


def branch(root: Path) -> Path:
    """Write a tree's copy of the lengths as a fork has it, and return the file."""
    (path,) = root.rglob(FILE)
    text = path.read_text()
    assert text.count(COPY) == 1
    path.write_text(text.replace(COPY, FORK))
    return path


def test_a_conflict_is_finished_on_one_branch_and_taken_on_the_next(
    releases: Releases, tmp_path: Path
) -> None:
    one, other = (releases.copy(REFERENCE, tmp_path / name).root for name in ("one", "other"))
    path = branch(one)
    before = fingerprints(one)
    done = answer("apply", one, "26128", "--only", "--markers", code=1)
    assert [(left["edit"], left["file"]) for left in done["markers"]] == [("decode-copy", FILE)]
    assert len(done["changed_files"]) > 1, "what is certain is made"
    assert states_in(answer("status", one))["26128"] == "conflict"
    lines = path.read_text().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.startswith("<<<<<<<"))
    last = next(n for n, line in enumerate(lines) if line.startswith(">>>>>>>"))
    assert lines[first + 1].strip() == FORK
    indent = lines[first + 1].removesuffix(lines[first + 1].lstrip())
    path.write_text("".join([*lines[:first], f"{indent}{DONE}\n", *lines[last + 1 :]]))
    assert answer("resolve", one, "26128", "decode-copy")["remembered"]
    assert states_in(answer("status", one))["26128"] == "applied"

    branch(other)
    assert "--resolved writes the same here" in run("apply", other, "26128", "--only", code=3).stderr
    answer("apply", other, "26128", "--only", "--resolved")
    assert states_in(answer("status", other))["26128"] == "applied"
    for root in (one, other):
        run("revert", root)
    assert without_ledger(fingerprints(one)) == without_ledger(before)
