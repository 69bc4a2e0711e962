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
    said = run("resolve", one, "26128", "decode-copy", code=3).stderr
    assert "lengths_of was found there and is not in what you wrote" in said
    assert answer("resolve", one, "26128", "decode-copy", "--accept")["remembered"]
    assert states_in(answer("status", one))["26128"] == "applied"

    branch(other)
    assert "--resolved writes the same here" in run("apply", other, "26128", "--only", code=3).stderr
    answer("apply", other, "26128", "--only", "--resolved")
    assert states_in(answer("status", other))["26128"] == "applied"
    for root in (one, other):
        run("revert", root)
    assert without_ledger(fingerprints(one)) == without_ledger(before)


RUNNER = "srt/speculative/eagle_draft_cuda_graph_runner.py"
TOPK = "forward_batch.spec_info.topk_p"
FOUND = f"draft is not in place: expected `$batch.spec_info.topk_p`, found `{TOPK}.clamp(0, 1)`"
LAUNCH = """\
        patchkit_api.copy_together(
            [
                (buffers.seq_lens[:raw_bs], forward_batch.seq_lens),
                (buffers.out_cache_loc[: raw_num_token * self.speculative_num_steps], forward_batch.out_cache_loc),
                (buffers.positions[:raw_num_token], forward_batch.positions),
                (buffers.topk_p[:raw_bs], {topk}),
                (buffers.topk_index[:raw_bs], forward_batch.spec_info.topk_index),
                (buffers.req_pool_indices[:raw_bs], forward_batch.req_pool_indices),
            ]
        )
"""


def test_the_copies_of_a_fork_that_clamps_one_are_enclosed_and_its_own_launch_is_accepted(
    releases: Releases, tmp_path: Path
) -> None:
    root = releases.copy(REFERENCE, tmp_path / "fork").root
    (path,) = root.rglob(RUNNER)
    usual, own = f"copy_({TOPK})", f"copy_({TOPK}.clamp(0, 1))"
    path.write_text(path.read_text().replace(usual, own))
    before = fingerprints(root)
    told = run("apply", root, "28465", "--markers", code=1).stdout
    assert f"(line 7 of 11); the nearest line is `buffers.topk_p[:raw_bs].{own}`" in told
    head, _, rest = path.read_text().partition("<<<<<<<")
    found, _, tail = rest.partition("\n")[2].partition("|||||||")
    tail = tail.partition(">>>>>>>")[2].partition("\n")[2]
    lines = found.splitlines(keepends=True)
    assert lines[0].strip() == "buffers.seq_lens[:raw_bs].copy_(forward_batch.seq_lens)"
    assert lines[-1].strip() == "buffers.req_pool_indices[:raw_bs].copy_(forward_batch.req_pool_indices)"
    between = "".join(lines[lines.index("        maybe_detect_nan(\n") : -1])
    left = "".join(line for line in between.splitlines(keepends=True) if "buffers.topk" not in line)
    for topk, missing in ((TOPK, "clamp was found there"), (f"{TOPK}.clamp(0, 1)", FOUND)):
        path.write_text(head + LAUNCH.format(topk=topk) + left + tail)
        assert missing in run("resolve", root, "28465", "draft", code=3).stderr
    assert answer("resolve", root, "28465", "draft", "--accept")["accepted"]
    assert states_in(answer("status", root))["28465"] == "applied"
    run("revert", root)
    assert without_ledger(fingerprints(root)) == without_ledger(before)
