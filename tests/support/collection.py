"""Tests that share something expensive run in one worker, and those that need a release are marked `release`.

`pytest -n 2 --dist loadgroup` runs all tests of a group in one worker, which creates their common fixtures
once. Groups that need no release come first, while the worker is small: some of their tests fork it hundreds of
times. Of the others the longest are scheduled first, so that no worker ends with one alone.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

from patchkit import memory
from support.sweeps import one_of, release_of, representative

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

_TOGETHER = {
    "tests/differential/test_backdated.py": "the backdated trees",
    # These modules share the trees of `support.driven.fixtures`; a worker that made them for all would be the last.
    **dict.fromkeys(
        (f"tests/differential/test_{name}.py" for name in ("flashinfer", "sparse_attention", "verify_mask")),
        "the driven trees of later patches",
    ),
    "tests/differential/": "the driven trees",
    **dict.fromkeys(
        (f"tests/doctor/test_{name}.py" for name in ("decisions", "refusals")), "the servers of driven trees"
    ),
}
# The order in which groups that need a release are handed out: the longest, then the others, the shortest last.
_LONGEST = (
    "tests/differential/",
    *(f"tests/real/test_{name}.py" for name in ("releases", "drift", "start_up")),
    *("tests/audit/test_mutation.py", "tests/doctor/", "tests/real/", "tests/verify/", "tests/audit/"),
)

_EVERY_SHAPE = "tests/differential/test_default_servers.py"
"""The driven trees of which each function that default patches touch runs."""

_LONG = (
    # What is stopped at each step, or waited for by many processes.
    *(f"tests/transaction/test_{name}.py" for name in ("interruption", "meanwhile", "order")),
    # Kernels that are interpreted, environments that are made, and scripts whose work is long.
    *("tests/backends/", "tests/scripts/", "tests/test_collection.py", "tests/test_packaging.py"),
    "tests/runtime/test_api.py",
    # Every command over many trees or repositories, and branches that git merges.
    *(
        f"tests/cli/test_{name}.py"
        for name in (
            "configuration_vendored",
            *("answers", "configuration", "conflicts", "diff_patch", "half_characters", "hostile_repository"),
            *("labels", "layouts", "planted_programs", "port", "startup", "streams", "tree_around"),
            "unusable_checkouts",
        )
    ),
    *("tests/matrix/test_odd_refs.py", "tests/matrix/test_survey.py", "tests/tree/test_odd.py"),
    # Servers that are started one after the other, drafts that are tried, files of many lines.
    *("tests/bench/test_bench.py", "tests/drafting/test_drafting.py", "tests/tree/test_limits.py"),
    # Plots, which are drawn anew.
    *(
        f"tests/test_docs.py::test_{name}"
        for name in ("another_measurement_is_another_plot", "a_stale_plot", "a_plot_drawn_twice")
    ),
    *(
        f"tests/series/test_{name}.py"
        for name in (
            *("given_series", "hooks", "links_and_modes", "move", "ported", "rebase", "revert_commit"),
            *("saved", "series", "uncommitted_port", "worktree"),
        )
    ),
    *(
        f"tests/transaction/test_{name}.py"
        for name in (
            *("abort", "beside_the_package", "edited", "everywhere", "recorded", "resolving", "story"),
            "wording",
        )
    ),
    # Random programs and trees, a checkout for each setting of git.
    *("tests/change/test_sequence.py", "tests/change/test_exact.py::test_of_two_random_changes"),
    "tests/transaction/test_line_ends.py::test_committed_patch",
    "tests/transaction/test_new_files.py::test_making_and_taking_killed",
    *("tests/matrix/test_examinations.py", "tests/doctor/test_doctor.py"),
    # A survey, a commit or a check for each of many moments, damages or encodings.
    "tests/matrix/test_memory.py::test_a_damaged_memory",
    *("tests/plan/test_vendor.py", "tests/verify/test_loading.py"),
    "tests/test_ci.py::test_a_patch_that_is_not_applied",
    # Repositories with a history, several commits or clones: git is started hundreds of times.
    *(
        f"tests/cli/test_{name}.py"
        for name in (
            "full_disk",
            "hostile",
            "later",
            "ledger_format",
            "module",
            "new_files",
            "own_patch",
            "ways",
        )
    ),
    *(
        f"tests/cli/test_merge_driver.py::test_{name}"
        for name in (
            "a_file",
            "a_rebase",
            "an_interp",
            "cherry_pick",
            "git_merges",
            "it",
            "rerere",
            "stash_pop",
        )
    ),
    *(f"tests/cli/test_matrix.py::test_{name}" for name in ("each_ref", "refs_that_do_not_fit", "the_page")),
    *(f"tests/cli/test_groups.py::test_{name}" for name in ("a_series_is", "commits_are")),
    "tests/matrix/test_remembered.py",
    *(
        f"tests/transaction/test_{name}.py"
        for name in (
            "byte_code",
            "consistent_reads",
            "history",
            "no_locks",
            "older_version",
            "tidied",
            "uncommitted",
        )
    ),
    *(f"tests/series/test_verified_commit.py::test_{name}" for name in ("a_", "the_answer")),
    *(f"tests/test_ci.py::test_a_{name}" for name in ("branch_that_has", "labelled")),
    # Processes that import everything, code that nests or grows to a limit, and many random programs.
    "tests/runtime/test_switches.py::test_a_server_with_such_a_name_stops",
    "tests/runtime/test_verify_outputs.py::test_nothing_of_a_step_waits_for_the_garbage_collector",
    *("tests/bench/test_process.py::test_a_scheduler_in", "tests/test_memory.py::test_what_somebody_froze"),
    "tests/test_names.py::test_a_local_name_says",
    "tests/transaction/test_extract.py::test_a_hostile_tree",
    *(
        f"tests/tree/test_nesting.py::test_{name}"
        for name in ("a_command_refuses", "what_nests", "what_is_only")
    ),
    "tests/cli/test_audit.py::test_too_deep_nesting",
    "tests/cli/test_cli.py::test_module_runs_as_the_command",
    "tests/cli/test_width.py::test_long_lines_go_on",
    "tests/matrix/test_memory.py::test_patches_that_require_each_other_in_a_long_row",
    "tests/drafting/test_difference.py::test_a_diff_of_half_a_megabyte",
    *(f"tests/transaction/test_merge.py::test_{name}" for name in ("file_that_grew", "revert_never_loses")),
    *(
        f"tests/change/test_alignment.py::test_the_{name}"
        for name in ("merge_of_two_sides", "place_of_statements")
    ),
    "tests/change/test_exact.py::test_the_result_is_the_other_change_alone",
    *(
        f"tests/{name}_again"
        for name in (
            "change/test_land.py::test_a_change_that_landed_lands",
            "plan/test_landing.py::test_landing",
        )
    ),
    *(
        f"tests/change/test_sides.py::test_{name}"
        for name in ("each_side_adds_a_statement_at", "one_side_removes_what")
    ),
    "tests/change/test_statements.py::test_the_places_of_elements",
    *(
        f"tests/change/test_merge.py::test_{name}"
        for name in ("changes_of_both_sides", "what_comes_out_is_valid")
    ),
    "tests/codemods/kinds/test_comments_and_layout.py",
    "tests/codemods/language/test_forms.py::test_a_pattern_matches_its_own_form",
    "tests/codemods/language/test_precedence.py::test_meaning_is_that_of",
    "tests/tree/test_nodes.py::test_every_node_but_contexts",
    "tests/tree/test_piecewise.py::test_any_definitions",
    *(
        "tests/audit/test_report.py::test_the_order_of_hashes",
        "tests/bench/test_figures.py::test_an_interval",
    ),
    *(f"tests/doctor/test_fixes.py::test_a_fix_is_{name}" for name in ("named_if", "printed")),
    "tests/doctor/test_fixes.py::test_in_a_tree_the_printed_commands",
    "tests/doctor/test_files.py::test_files_are_answered_by_a_row",
)


def group_of(test: str) -> str:
    """Return the group of a test, given by its id: what its module shares with others, or its module."""
    return next(
        (group for place, group in _TOGETHER.items() if test.startswith(place)), test.split("::", 1)[0]
    )


class _Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Schedules groups; xdist's own `loadgroup` writes them to an attribute that pytest 9.2 no longer reads."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Reschedule the tests that a crashed worker had not run; return the test that it crashed in, which failed.

        xdist's own method would also reschedule the finished groups, and a worker whose first group is empty
        would get no other, so the run would not end.
        """
        left = {
            group: {test: False for test, done in tests.items() if not done}
            for group, tests in self.assigned_work.pop(node).items()
        }
        lost = next((test for tests in left.values() for test in tests), None)
        if lost:
            del left[group_of(lost)][lost]
        self.workqueue.update({group: tests for group, tests in left.items() if tests})
        for other in self.nodes:
            self._reschedule(other)
        return lost

    def _reschedule(self, node: WorkerController) -> None:
        # A worker runs a test once it knows the one after it: xdist's own gives a worker that replaces a lost one
        # a single group, which may be of one test.
        # One that died a moment ago cannot be sent any: they are handed out again once it is known to be lost.
        with contextlib.suppress(OSError):
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
                super()._reschedule(node)


UNREPRESENTED = pytest.StashKey[list[str]]()
"""The functions of a run all of whose tests are sweeps; there should be none."""
_ENOUGH = 8_000_000
"""New containers, about 1.3 GB, after which syntax trees that were not used for a while are released."""
_MORE = 16
"""How many times more a cache of syntax trees holds: tests ask again for what tests of another tree came between."""
_bound = sys.maxsize
# Of what is imported, rewritten and collected almost nothing is garbage: it would be read again and again.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Collect garbage only when much has accumulated, and never among imported modules and collected tests."""
    global _bound  # noqa: PLW0603
    gc.collect()
    gc.freeze()
    gc.set_threshold(1 << 30)
    gc.enable()
    _bound = _containers() + _ENOUGH
    for cache in memory._caches:
        cache._fewest *= _MORE
    # Memory is bounded between tests, where unused trees go first, instead of within a command or a forked worker.
    memory._bound = memory._MAX_CACHED_BLOCKS = sys.maxsize


def _containers() -> int:
    """Return how many more containers there are than after the last collection."""
    return gc.get_count()[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Release syntax trees that were not used for a while and collect garbage, if tests have left many objects."""
    global _bound  # noqa: PLW0603
    if _containers() > _bound:
        memory.forget_unused()
        # Among the new objects alone: most of the old ones are syntax trees, which go with their last reference.
        gc.collect(0)
        _bound = _containers() + _ENOUGH


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Leave what there is to the process's end: pytest would collect garbage among it five times."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Schedule tests by these groups if ``--dist loadgroup`` is given."""
    return _Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


def _release(item: pytest.Item) -> str:
    """Return the release that a test is parametrized with, empty if none."""
    return release_of(item.callspec.params.values()) if hasattr(item, "callspec") else ""


def _is_borrowed(item: pytest.Item) -> bool:
    """Return whether a module has the test from another one, in which it runs as well."""
    return isinstance(item, pytest.Function) and item.function.__module__ != item.module.__name__


def _mark_sweeps(items: list[pytest.Item]) -> None:
    """Mark the tests of releases that others represent, where a function has several, and those that are borrowed."""
    releases: dict[str, dict[pytest.Item, str]] = {}
    for item in items:
        if _is_borrowed(item):
            item.add_marker(pytest.mark.sweep)
        if item.get_closest_marker("release") and (release := _release(item)):
            releases.setdefault(item.nodeid.partition("[")[0], {})[item] = release
    for function, of_one in releases.items():
        chosen = representative(of_one.values())
        if function.startswith("tests/differential/") and not function.startswith(_EVERY_SHAPE):
            chosen = one_of(chosen, function.partition("::")[0])
        for item in of_one:
            if of_one[item] not in chosen:
                item.add_marker(pytest.mark.sweep)


def _unrepresented(items: list[pytest.Item]) -> list[str]:
    """Return the functions all of whose tests are sweeps."""
    swept: dict[str, bool] = {}
    for item in items:
        if _is_borrowed(item):
            continue
        function = item.nodeid.partition("[")[0]
        swept[function] = swept.get(function, True) and item.get_closest_marker("sweep") is not None
    return [function for function, every in swept.items() if every]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests; in a worker, also sort them in the order in which their groups are scheduled.

    Tests of a module with the same release run one after the other, because its syntax trees are cached for a
    while.
    """
    modules = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    items.sort(key=lambda item: (modules[item.path], _release(item)))
    for item in items:
        # A driven tree is one of a release, also where a test asks for it by name.
        if "releases" in getattr(item, "fixturenames", ()) or group_of(item.nodeid) in _TOGETHER.values():
            item.add_marker(pytest.mark.release)
        if item.nodeid.startswith(_LONG):
            item.add_marker(pytest.mark.long)
    _mark_sweeps(items)
    config.stash[UNREPRESENTED] = _unrepresented(items)
    if hasattr(config, "workerinput"):
        heavy = {group_of(item.nodeid) for item in items if item.get_closest_marker("release")}

        def turn(item: pytest.Item) -> int:
            if group_of(item.nodeid) not in heavy:
                return -1
            places = (at for at, place in enumerate(_LONGEST) if item.nodeid.startswith(place))
            return next(places, len(_LONGEST))

        items.sort(key=turn)
