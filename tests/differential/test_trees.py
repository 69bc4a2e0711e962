"""The trees that the whole suite asks: each its own, no answer of one request in the next, no failure unsaid."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.driven.trees import DrivenTree, Nursery, ProbeError, WorkerDiedError

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_only_trees_with_the_change_have_workers_that_name_their_backends(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    trees = (unpatched, patched, upstream)
    assert [tree.ask("trials.declares_backends") for tree in trees] == [False, True, True]


def test_each_tree_imports_its_own_package(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    places = {Path(tree.ask("trials.place")) for tree in (unpatched, patched, upstream)}
    assert len(places) == 3
    assert all((place / "srt").is_dir() for place in places)


def test_a_probes_exception_comes_back_with_its_traceback(unpatched: DrivenTree) -> None:
    with pytest.raises(ProbeError, match="LookupError: no such thing") as caught:
        unpatched.ask("trials.fail", "no such thing")
    assert (caught.value.kind, caught.value.message) == ("LookupError", "no such thing")
    assert "in fail" in caught.value.trace


def test_an_unknown_probe_is_an_error_of_its_name(unpatched: DrivenTree) -> None:
    with pytest.raises(ProbeError, match="no_such_probe"):
        unpatched.ask("trials.no_such_probe")


def test_a_probes_death_is_reported_with_its_last_output_and_the_next_probe_is_answered(
    unpatched: DrivenTree,
) -> None:
    with pytest.raises(WorkerDiedError, match=r"(?s)trials\.die in the \S+ tree.* 7;.*last words"):
        unpatched.ask("trials.die", 7)
    assert unpatched.ask("trials.declares_backends") is False


def test_the_death_of_a_trees_process_is_reported_and_the_next_probe_starts_another(
    unpatched: DrivenTree,
) -> None:
    with pytest.raises(WorkerDiedError, match="the process ended with -9"):
        unpatched.ask("trials.kill_worker")
    assert unpatched.ask("trials.declares_backends") is False


@pytest.fixture(scope="module")
def siblings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Path, DrivenTree]]]:
    """Two small trees that are forks of one process, each with its root."""
    nursery = Nursery()
    trees = []
    for name in ("one", "other"):
        root = tmp_path_factory.mktemp("siblings") / name
        module = root / "sglang" / "srt" / "speculative" / "base_spec_worker.py"
        module.parent.mkdir(parents=True)
        module.write_text("class BaseSpecWorker: ...\n")
        (root / "sglang" / "__init__.py").touch()
        trees.append((root, DrivenTree(root.name, partial(Path, root), nursery)))
    yield trees
    for _, tree in trees:
        tree.stop()
    nursery.stop()


def test_forks_of_one_process_have_a_tree_each(siblings: list[tuple[Path, DrivenTree]]) -> None:
    assert [tree.ask("trials.place") for _, tree in siblings] == [
        str(root / "sglang") for root, _ in siblings
    ]


def test_the_death_of_one_fork_is_reported_and_leaves_the_others(
    siblings: list[tuple[Path, DrivenTree]],
) -> None:
    (_, one), (_, other) = siblings
    assert other.ask("trials.leave", 1) == [1]
    with pytest.raises(WorkerDiedError, match=r"trials\.kill_worker in the one tree: the process ended"):
        one.ask("trials.kill_worker")
    assert other.ask("trials.leave", 2) == [2]
    assert one.ask("trials.declares_backends") is False


def test_an_answer_that_is_not_plain_python_is_an_error(unpatched: DrivenTree) -> None:
    with pytest.raises(ProbeError, match="plain Python, not with Tensor"):
        unpatched.ask("trials.answer_with_a_tensor")


def test_nothing_of_one_request_reaches_the_next(unpatched: DrivenTree) -> None:
    assert unpatched.ask("trials.leave", 1) == [1]
    assert unpatched.ask("trials.leave", 2) == [2]


def test_one_process_answers_consecutive_requests_for_a_repeatable_probe_and_a_new_one_is_compared_once(
    unpatched: DrivenTree, tmp_path: Path
) -> None:
    file = tmp_path / "signed"
    for _ in range(4):
        unpatched.ask("trials.sign", str(file))
    first, *others = file.read_text().split()
    assert others.count(first) == 3
    assert len({*others}) == 2
    unpatched.ask("trials.declares_backends")
    unpatched.ask("trials.sign", str(file))
    assert file.read_text().split()[-1] not in {first, *others}


def test_a_repeatable_probe_that_leaves_something_is_an_error(
    siblings: list[tuple[Path, DrivenTree]],
) -> None:
    (_, tree), _ = siblings
    assert tree.ask("trials.claim", 1) == [1]
    with pytest.raises(ProbeError, match="claim is not repeatable"):
        tree.ask("trials.claim", 2)


def test_what_a_repeatable_probe_sets_in_the_environment_is_gone_at_its_next_request(
    siblings: list[tuple[Path, DrivenTree]],
) -> None:
    (_, tree), _ = siblings
    assert tree.ask("trials.environment", PATCHKIT_TRIED="1", PATH="") == {"PATCHKIT_TRIED": "1", "PATH": ""}
    assert tree.ask("trials.environment") == {"PATCHKIT_TRIED": None, "PATH": os.environ["PATH"]}


def test_reads_of_device_tensors_are_written_down_and_computations_are_not(unpatched: DrivenTree) -> None:
    reads = unpatched.ask("trials.reads_of", [3, 1, 2])
    assert reads == {
        "item": ["item"],
        "tolist": ["tolist"],
        "cpu": ["cpu"],
        "max": ["__bool__"],
        "empty": ["empty"],
        "condition": ["__bool__"],
        "compute": [],
    }


def test_copies_to_the_device_record_whether_the_host_waits(unpatched: DrivenTree) -> None:
    assert unpatched.ask("trials.copies_of", [3, 1]) == [(False, False), (False, True), (True, True)]
