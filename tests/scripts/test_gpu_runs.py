"""What runs on GPUs prove of a patch and show of a release: made-up results in the form of ``bench_decode.py``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import UsageError
from patchkit.patchset import load, runs
from patchkit.plan.status import name_of

REPOSITORY = Path(__file__).parents[2]
sys.path.append(str(REPOSITORY / "scripts"))

import generate_docs  # noqa: E402
import gpu_runs  # noqa: E402

TREES: tuple[dict[str, Any], ...] = (
    {"name": "plain", "version": "0.5.14", "control": False, "patches": [], "opt_in": []},
    {"name": "ours", "version": "0.5.14", "control": False, "patches": ["26128", "27998"], "opt_in": []},
)
OLDER: tuple[dict[str, Any], ...] = (
    {"name": "unpatched", "version": "0.5.13", "control": False},
    {"name": "patched", "version": "0.5.13", "control": False},
)
PARTS = {name_of(patch, part): patch for patch in load.patches() for part in patch.all_parts}
IDS = tuple(PARTS)
NEW_STYLE = {"family": "DeepSeek MLA", "backend": "triton", "algorithm": "EAGLE", "reached": ["26128"]}


def a_result(tree: str, **keys: Any) -> dict[str, Any]:
    """Return a result of a tree that gave the first one's tokens, in a scenario."""
    result = {
        "scenario": "mla", "batch": None, "layers": 8, "tree": tree, "control": False, "started": True, "error": None,
        "identical": True, "difference": None, "runs": 2, "reproducible": True,
    }  # fmt: skip
    return result | keys


def ours(**keys: Any) -> dict[str, Any]:
    return a_result("ours", **{**NEW_STYLE, **keys})


def plain(**keys: Any) -> dict[str, Any]:
    return a_result("plain", **{**NEW_STYLE, "reached": [], **keys})


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the measurements."""
    monkeypatch.setattr(generate_docs, "BENCHMARKS", tmp_path)
    return tmp_path


def save(
    folder: Path,
    *results: dict[str, Any],
    trees: tuple[dict[str, Any], ...] = TREES,
    day: int = 23,
    **keys: Any,
) -> Path:
    """Save a file of results, measured on a day of November."""
    content = {
        "command": "python3 scripts/bench_decode.py --out o",
        "date": f"2026-11-{day}T12:00:00+00:00",
        "machine": {"gpu": "NVIDIA H200", "cores": 16},
        "trees": list(trees),
        "results": list(results),
    }
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(content | keys), encoding="utf-8")
    return path


def known(folder: Path) -> runs.KnownRuns:
    return gpu_runs.known(gpu_runs.outcomes(folder), IDS)


def latest(folder: Path) -> dict[gpu_runs.Place, dict[gpu_runs.Scenario, gpu_runs.Outcome]]:
    return gpu_runs.latest(gpu_runs.outcomes(folder))


def section() -> tuple[list[list[str]], list[str]]:
    """Return the cells of the first release's table on the page, without its head, and the list below."""
    lines = generate_docs.ran_by_release().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return rows[2:], [line for line in lines if line.lstrip().startswith("- ")]


def test_a_run_with_an_opt_in_patch_is_apart_from_runs_of_the_default_patches(benchmarks: Path) -> None:
    trees = (TREES[0], TREES[1] | {"patches": [*TREES[1]["patches"], "gone"], "opt_in": ["gone"]})
    save(benchmarks, plain(), ours())
    save(benchmarks, plain(), ours(identical=False), trees=trees)
    assert [(run.backend, run.identical) for run in known(benchmarks).runs] == [
        ("triton", True),
        ("triton with opt-in patches", False),
    ]


@pytest.mark.parametrize("key", ["patches", "opt_in"])
def test_a_tree_that_does_not_say_which_of_its_patches_are_opt_in_is_refused(
    benchmarks: Path, key: str
) -> None:
    save(benchmarks, plain(), ours(), trees=(TREES[0], {k: v for k, v in TREES[1].items() if k != key}))
    with pytest.raises(UsageError, match="the tree ours has only one of `patches` and `opt_in`"):
        known(benchmarks)


RUN_FILES = [
    (path.relative_to(REPOSITORY).as_posix(), run)
    for path in sorted((REPOSITORY / "docs" / "benchmarks").rglob("*.json"))
    if isinstance(run := json.loads(path.read_text()), dict) and "bench_decode.py" in str(run.get("command"))
]


def test_every_run_says_which_of_its_patches_are_opt_in() -> None:
    off = {patch.id for patch in load.patches() if not patch.default}
    for name, run in RUN_FILES:
        for tree in run["trees"]:
            patches, opt_in = set(tree.get("patches", ())), set(tree.get("opt_in", ()))
            assert opt_in <= patches, (name, tree["name"])
            assert patches & off <= opt_in, (name, tree["name"])


def test_a_run_proves_the_patches_whose_statements_it_executed_and_no_other(benchmarks: Path) -> None:
    save(benchmarks, plain(), ours())
    (run,) = known(benchmarks).runs
    assert run == runs.Run(
        "0.5.14", "DeepSeek MLA", "EAGLE", "triton", "NVIDIA H200", "2026-11-23", True, ("26128",)
    )
    assert known(benchmarks).ran("26128", "0.5.14") is True
    assert known(benchmarks).ran("27998", "0.5.14") is False


@pytest.mark.parametrize(
    ("keys", "cell", "note"),
    [
        (
            {"identical": False, "difference": {"requests": 3, "of": 24}},
            "tokens differ",
            "`mla`: tokens differ: 3 of 24 requests",
        ),
        (
            {"identical": None, "started": False, "error": "start: no\n attribute: x"},
            "did not start",
            "`mla`: did not start: `no attribute: x`",
        ),
        ({"error": "mla: The engine ended."}, "failed", "`mla`: failed: `The engine ended.`"),
        ({"identical": None}, "not compared", "`mla`: not compared: the unpatched release gave no tokens"),
    ],
)
def test_what_did_not_give_the_tokens_is_shown_and_proves_nothing(
    benchmarks: Path, keys: dict[str, Any], cell: str, note: str
) -> None:
    save(benchmarks, plain(), ours(**keys))
    assert known(benchmarks).ran("26128", "0.5.14") is False
    rows, notes = section()
    assert rows == [["DeepSeek MLA, EAGLE", "triton", cell, "2026-11-23, H200"]]
    assert notes == ["- DeepSeek MLA, EAGLE, triton:", f"  - {note}"]


def test_tokens_that_differ_are_where_a_patch_ran_until_an_engine_gives_them(benchmarks: Path) -> None:
    save(benchmarks, plain(), ours(identical=False), day=24)
    assert [run.identical for run in known(benchmarks).where("26128") or ()] == [False]
    save(benchmarks, plain(), ours(), day=23)
    assert [run.identical for run in known(benchmarks).where("26128") or ()] == [True]


def test_requests_that_only_the_patched_tree_served_are_a_run_without_a_comparison(benchmarks: Path) -> None:
    failing = {"identical": None, "error": "mla: The engine ended."}
    save(benchmarks, plain(**failing), ours(identical=None))
    assert [run.identical for run in known(benchmarks).where("26128") or ()] == [None]
    assert known(benchmarks).ran("26128", "0.5.14") is True


@pytest.mark.parametrize("tokens", [True, False])
def test_an_earlier_comparison_counts_more_than_a_run_without_one(benchmarks: Path, tokens: bool) -> None:
    failing = {"identical": None, "error": "mla: The engine ended."}
    save(benchmarks, plain(**failing), ours(identical=None), day=23)
    save(benchmarks, plain(), ours(identical=tokens), day=22)
    assert [run.identical for run in known(benchmarks).where("26128") or ()] == [tokens]


def test_an_error_of_many_words_is_shown_as_code_and_cut(benchmarks: Path) -> None:
    save(benchmarks, plain(), ours(error="mla: `<lambda>` failed " + "again and " * 100))
    _, (_, note) = section()
    assert "failed: `'<lambda>' failed again" in note
    assert note.endswith(" …`")
    assert len(note) < 2 * gpu_runs.LONGEST


def test_what_fails_unpatched_as_well_is_marked(benchmarks: Path) -> None:
    failing = {"identical": None, "started": False, "error": "start: out of memory"}
    save(benchmarks, plain(**failing), ours(**failing))
    _, (_, note) = section()
    assert note.endswith("did not start: `out of memory` (the unpatched release fails too)")


@pytest.mark.parametrize(
    "trees",
    [
        (TREES[0], TREES[1] | {"control": True}),
        (TREES[0], TREES[1] | {"version": None}),
        (TREES[0], TREES[1] | {"version": "0.5.15"}),
        (TREES[0] | {"patches": ["26128"]}, TREES[1]),
        (TREES[0], TREES[1] | {"patches": []}),
    ],
    ids=["a control", "no version", "another release", "a patched first tree", "no patch"],
)
def test_what_is_no_patched_tree_beside_its_own_unpatched_release_does_not_count(
    benchmarks: Path, trees: tuple[dict[str, Any], ...]
) -> None:
    save(benchmarks, plain(), ours(), trees=trees)
    assert known(benchmarks).runs == ()
    assert section() == ([], [])


def test_in_a_run_of_several_releases_each_is_compared_with_its_own_first_tree(benchmarks: Path) -> None:
    trees = [
        tree | {"name": f"{version}/{tree['name']}", "version": version}
        for version in ("0.5.14", "0.5.15")
        for tree in TREES
    ]
    failing = {"identical": None, "error": "start: no", "started": False}
    results = [
        a_result("0.5.14/plain", **NEW_STYLE),
        a_result("0.5.14/ours", **NEW_STYLE),
        a_result("0.5.15/plain", **NEW_STYLE, **failing),
        a_result("0.5.15/ours", **NEW_STYLE, **failing),
    ]
    save(benchmarks, *results, trees=tuple(trees))
    assert [(run.release, run.patches) for run in known(benchmarks).runs] == [("0.5.14", ("26128",))]
    _, (_, note) = section()
    assert note.endswith("did not start: `no` (the unpatched release fails too)")


def test_older_results_count_for_their_release_and_prove_nothing_of_a_patch(benchmarks: Path) -> None:
    names = ("default-straight", "fa3-prefill", "fa3-no-graph", "trtllm-mha", "standalone", "no-speculation")
    save(
        benchmarks,
        *(a_result(tree, scenario=name) for name in names for tree in ("unpatched", "patched")),
        trees=OLDER,
    )
    places = gpu_runs.latest(gpu_runs.outcomes(benchmarks))
    assert {(place.release, place.family) for place in places} == {("0.5.13", "Llama")}
    assert sorted((place.algorithm, place.backend) for place in places) == [
        ("EAGLE3", "fa3"),
        ("EAGLE3", "fa3+triton"),
        ("EAGLE3", "triton"),
        ("EAGLE3", "triton+trtllm_mha"),
        ("STANDALONE", "triton"),
        ("none", "triton"),
    ]
    assert known(benchmarks).runs == ()


def test_the_latest_run_counts(benchmarks: Path) -> None:
    save(benchmarks, plain(), ours(), day=25)
    save(benchmarks, plain(), ours(), day=24)
    (run,) = known(benchmarks).where("26128") or ()
    assert run.date == "2026-11-25"
    assert section() == ([["DeepSeek MLA, EAGLE", "triton", "tokens identical", "2026-11-25, H200"]], [])


def test_a_patch_whose_runs_all_gave_other_tokens_is_listed_with_them(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(benchmarks, plain(), ours(identical=False))
    monkeypatch.setattr(gpu_runs, "constructed", lambda: {"0.5.14": frozenset({"26128", "27998"})})
    rows = generate_docs.ran_by_patch().splitlines()
    assert "| 26128 | - | 0.5.14 | - |" in rows
    assert "| 27998 | - | - | 0.5.14 |" in rows


def test_patches_that_no_run_executed_are_listed_by_whether_they_are_on_by_default(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default, opted, *_ = (
        next(name for name, patch in PARTS.items() if patch.default is wanted) for wanted in (True, False)
    )
    others = [patch for patch in IDS if patch not in (default, opted)]
    save(benchmarks, plain(), ours(reached=others))
    monkeypatch.setattr(gpu_runs, "constructed", lambda: {"0.5.14": frozenset({opted, *others})})
    assert generate_docs.never_run() == (
        f"No recorded run on a GPU executed code of the default patches {default}, or of the opt-in patches {opted}. "
        f"The patched objects of {opted} were constructed on a CPU."
    )


def test_of_two_patched_trees_of_one_run_the_one_with_more_patches_is_the_cell(benchmarks: Path) -> None:
    more = TREES[1] | {"name": "more", "patches": ["26128", "27998", "31364"]}
    results = (plain(), a_result("more", **NEW_STYLE), ours(identical=False))
    save(benchmarks, *results, trees=(TREES[0], more, TREES[1]))
    ((_, _, *cells),), notes = section()
    assert (cells, notes) == (["tokens identical", "2026-11-23, H200"], [])


def test_some_scenarios_of_a_place_may_have_gone_otherwise(benchmarks: Path) -> None:
    for name, tokens in (("mla", True), ("mla-late", True), ("mla-eager", False), ("mla-edges", False)):
        save(benchmarks, plain(scenario=name), ours(scenario=name, identical=tokens))
    ((_, _, cell, _),), notes = section()
    assert cell == "tokens identical in 2 of 4"
    assert notes == ["- DeepSeek MLA, EAGLE, triton:", "  - `mla-eager`, `mla-edges`: tokens differ"]


def test_every_release_and_every_patch_is_on_the_page_without_any_run(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(benchmarks.iterdir()) == []
    monkeypatch.setattr(gpu_runs, "constructed", dict)
    assert generate_docs.ran_by_release() == f"Never run: {', '.join(gpu_runs.RELEASES)}."
    monkeypatch.setattr(gpu_runs, "constructed", lambda: {"0.5.20": frozenset({"27998"})})
    assert generate_docs.ran_by_release().startswith(
        "Constructed on a CPU and never run: 0.5.20.\n\nNever run: "
    )
    rows = generate_docs.ran_by_patch().splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == list(IDS)
    assert [row for row in rows if not row.endswith("| - | - | - |")] == ["| 27998 | - | - | 0.5.20 |"]


def test_what_a_start_on_a_cpu_makes_of_every_release_is_on_the_page(benchmarks: Path) -> None:
    assert list(benchmarks.iterdir()) == []
    page = generate_docs.ran_by_release()
    assert page == f"Constructed on a CPU and never run: {', '.join(gpu_runs.RELEASES)}."
    (row,) = (
        row for row in generate_docs.ran_by_patch().splitlines() if row.startswith("| 25925/plan-stream ")
    )
    assert row == f"| 25925/plan-stream | - | - | {gpu_runs.RELEASES[0]} to {gpu_runs.RELEASES[-1]} |"


def test_a_patch_that_ran_is_not_merely_constructed(
    benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(benchmarks, plain(), ours())
    built = dict.fromkeys(("0.5.11", "0.5.12", "0.5.14"), frozenset({"26128", "27998"}))
    monkeypatch.setattr(gpu_runs, "constructed", lambda: built)
    rows = generate_docs.ran_by_patch().splitlines()
    assert "| 26128 | 0.5.14 | - | 0.5.11 to 0.5.12 |" in rows
    assert "| 27998 | - | - | 0.5.11 to 0.5.12, 0.5.14 |" in rows


def test_what_is_written_is_what_commands_read(
    benchmarks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(benchmarks, plain(), ours(batch=1))
    save(benchmarks, plain(), ours(backend="fa3", reached=["27998", "26128"]))
    known_runs = known(benchmarks)
    assert len(known_runs.runs) == 2
    monkeypatch.setattr(load, "BUILT_IN", tmp_path / "patches")
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches" / runs.NAME).write_text(gpu_runs.written(known_runs), encoding="utf-8")
    assert runs.read() == known_runs


def test_the_published_file_is_what_the_published_results_come_to() -> None:
    file = REPOSITORY / "patches" / runs.NAME
    assert file.read_text(encoding="utf-8") == generate_docs.data()[file], (
        "type python scripts/generate_docs.py"
    )
    assert set(runs.read().patches) == set(IDS)


def test_files_of_other_scripts_are_left_alone(benchmarks: Path) -> None:
    (benchmarks / "faults.json").write_text("[]")
    (benchmarks / "matrix.json").write_text('{"command": "bench_matrix.py", "runs": []}')
    assert gpu_runs.outcomes(benchmarks) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("", "Expecting value"),
        ('{"command": "scripts/bench_decode.py"}', "missing required field `date`"),
        (None, "`trees` has no 'ours', which `results` names"),
    ],
)
def test_a_broken_file_is_one_sentence(
    benchmarks: Path, capsys: pytest.CaptureFixture[str], text: str | None, reason: str
) -> None:
    path = save(benchmarks, plain(), ours(), trees=TREES[:1])
    if text is not None:
        path.write_text(text)
    assert generate_docs.main(["--check"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"Error: {path}: ")
    assert reason in captured.err
    assert captured.err.count("\n") == 1


def test_a_file_of_which_no_engine_started_has_no_gpu_and_is_whole(benchmarks: Path) -> None:
    failing = {"identical": None, "started": False, "error": "start: no such option"}
    save(benchmarks, plain(**failing), ours(**{**failing, "reached": None}), machine={"cores": 16})
    ((_, _, *cells),), _ = section()
    assert cells == ["did not start", "2026-11-23, unknown GPU"]
    assert known(benchmarks).runs == ()
