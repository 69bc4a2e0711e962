"""The mutation script breaks what it says, samples the same again, and tells mutants that are noticed from others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st
from support.releases import REFERENCE, Releases, fingerprints
from support.sweeps import swept
from support.toys import ABRUPT, MIRROR

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

from mutation.lane import Lane  # noqa: E402
from mutation.mutants import LEFT_OUT, Mutant, of_module, of_patch, written  # noqa: E402
from mutation.notes import Trial  # noqa: E402
from mutation.operators import breaks  # noqa: E402
from mutation.rooms import ROOMS  # noqa: E402
from mutation.sampling import sample  # noqa: E402
from mutation.trees import ReferenceTree, ReferenceTrees, meaning  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.tree.tree import CheckoutTree

# Of each operator: a program, what it makes of that, and a program that it has nothing to do in.
OPERATORS = {
    "comparison swapped": ("x = a < b", ["x = a <= b"], "x = a + b"),
    "None test swapped": ("x = a is not None", ["x = a is None"], "x = a is b"),
    "and/or swapped": ("x = a and b", ["x = a or b"], "x = a & b"),
    "boolean negated": ("x = not a", ["x = a"], "x = a"),
    "arithmetic swapped": ("x = a - b", ["x = a + b"], "x = a < b"),
    "integer plus one": ("x = a[1]", ["x = a[2]"], "x = a['1']"),
    "constant swapped": ("x = f(None)", ["x = f(True)"], "x = a is None"),
    "statement deleted": ("f(x)", ["pass"], "import x"),
    "return value None": (
        "def f():\n    return x",
        ["def f():\n    return None"],
        "def f():\n    return None",
    ),
    "keyword argument dropped": ("f(a, b=c)", ["f(a, )"], "f(a, c)"),
    "condition always True": ("x = a if b else c", ["x = a if True else c"], "while b:\n    f()"),
    "condition always False": ("while b:\n    f()", ["while False:\n    f()"], "x = a"),
}


def made(code: str, operator: str) -> list[str]:
    return [one.code for one in breaks(code) if one.operator == operator]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_breaks_what_it_is_for(operator: str) -> None:
    code, broken, _ = OPERATORS[operator]
    assert made(code, operator) == broken


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_leaves_alone_what_it_is_not_for(operator: str) -> None:
    assert made(OPERATORS[operator][2], operator) == []


@pytest.mark.parametrize(
    "code",
    [
        '"""What a module says: 1 is not 2."""',
        "def f():\n    '''Return 1 or None.'''",
        "x: Literal[1] | None",
        "from a import b",
        "raise ValueError(f'{a + 1} is not None', strict=True)",
        "if TYPE_CHECKING:\n    x = 1",
        "...",
        "pass",
    ],
)
def test_what_does_nothing_is_not_broken(code: str) -> None:
    operators = {one.operator for one in breaks(code)}
    # An exception that is no longer raised is a change, other than one of what it says.
    assert operators == ({"statement deleted"} if code.startswith("raise") else set())


def test_what_an_assertion_says_is_not_broken() -> None:
    assert [one.code for one in breaks("assert a < b, str(1)")] == ["pass", "assert a <= b, str(1)"]


def test_annotations_of_parameters_and_results_are_not_broken() -> None:
    assert breaks("def f(a: int | None, b: Literal[1]) -> Literal[True]: g") == []


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("if a:\n    f()", "if not a:\n    f()"),
        ("x = [a for a in b if a.c]", "x = [a for a in b if not a.c]"),
        ("x = a and (b == c)", "x = not a and (b == c)"),
        ("if (lambda: a):\n    f()", "if not (lambda: a):\n    f()"),
        ("x = 1 * (not a)", "x = 1 * (a)"),
    ],
)
def test_conditions_and_operands_are_negated_once(code: str, broken: str) -> None:
    assert made(code, "boolean negated") == [broken]


def test_a_return_in_the_middle_is_deleted_and_the_last_one_is_not() -> None:
    code = "def f():\n    if a:\n        return\n    return a"
    assert made(code, "statement deleted") == ["def f():\n    if a:\n        pass\n    return a"]


def test_what_is_broken_is_named_by_the_function_that_it_is_in() -> None:
    code = "a = 1\nclass A:\n    b = 1\n    def f(self):\n        c = 1\ndef g(d=1):\n    pass\n"
    units = [one.unit for one in breaks(code) if one.operator == "integer plus one"]
    assert units == ["", "A", "A.f", "g"]


RUNTIME = sorted(path.name for path in SCRIPTS.parent.glob("patchkit/runtime/*.py"))


@pytest.mark.parametrize("name", swept(RUNTIME, RUNTIME[2::14].__contains__))
def test_every_mutant_of_the_runtime_is_another_program_of_valid_python(name: str) -> None:
    text = (SCRIPTS.parent / "patchkit" / "runtime" / name).read_text(encoding="utf-8")
    mutants, sound = list(of_module(name, text)), meaning(text.encode())
    assert all(meaning(mutant.text.encode()) != sound for mutant in mutants)
    assert len({mutant.text for mutant in mutants}) == len(mutants)


# ---- patches -----------------------------------------------------------------------------------------------------


def patch_of(**edit: Any) -> str:
    """Return a patch file's text with one edit."""
    head = {"schema": 1, "id": "toy", "title": "Toy", "why": "To see.", "risk": "None.", "verify": "Look."}
    site = {"why": "toy", "at": "srt/toy.py::Toy.run"}
    return written({**head, "edit": {"toy-edit": {**site, **edit}}})


def broken_edits(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return each mutant's part and operator, and the edit that it has."""
    return [
        (mutant.part, mutant.operator, tomli.loads(mutant.text)["edit"]["toy-edit"])
        for mutant in of_patch("toy", text)
    ]


def test_placeholders_of_a_fragment_stay() -> None:
    code = "if $value and self.on:\n    $$found\nelse:\n    $value = $other\n"
    found = [
        edit["code"]
        for _, name, edit in broken_edits(patch_of(kind="rewrite", find="$value", code=code))
        if name == "and/or swapped"
    ]
    assert found == [code.replace("and", "or")]


GUARDED = "if $a is None:\n    $$found\n"
VALUE = {"kind": "argument-value", "find": "f(a=$_)", "argument": "a", "code": "$value + 1"}


@pytest.mark.parametrize(
    ("edit", "part", "operator", "key", "broken"),
    [
        (
            {"kind": "parameter", "code": "a: bool = True"},
            "code",
            "constant swapped",
            "code",
            "a: bool = False",
        ),
        (
            {"kind": "call-argument", "find": "f()", "argument": "n=1"},
            "argument",
            "integer plus one",
            "argument",
            "n=2",
        ),
        (
            {"kind": "none-guard", "find": "f($a)", "value": "$a"},
            "value",
            "None test swapped",
            "code",
            GUARDED,
        ),
        (VALUE, "code", "arithmetic swapped", "code", "$value - 1"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_code_that_is_no_statement_is_broken_too(
    edit: dict[str, Any], part: str, operator: str, key: str, broken: str
) -> None:
    assert [
        changed[key]
        for where, name, changed in broken_edits(patch_of(**edit))
        if (where, name) == (part, operator)
    ] == [broken]


def test_each_variant_is_broken_by_itself() -> None:
    variants = [{"find": "f($a)", "code": "g($a, 1)"}, {"find": "h($a)", "code": "g($a, 2)"}]
    changed = [
        [variant["code"] for variant in edit["variants"]]
        for _, operator, edit in broken_edits(patch_of(kind="rewrite", variants=variants))
        if operator == "integer plus one"
    ]
    assert changed == [["g($a, 2)", "g($a, 2)"], ["g($a, 1)", "g($a, 3)"]]


@pytest.mark.parametrize("kind", ["insert-after", "insert-before"])
def test_an_addition_without_its_only_statement_is_the_edit_left_out(kind: str) -> None:
    assert [operator for _, operator, _ in broken_edits(patch_of(kind=kind, find="f()", code="g()"))] == [
        LEFT_OUT
    ]


def test_an_import_can_only_be_left_out() -> None:
    assert [operator for _, operator, _ in broken_edits(patch_of(kind="import", code="import a"))] == [
        LEFT_OUT
    ]


# What a patch holds: no floats, no dates, no control characters.
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t"))
VALUES = st.recursive(TEXTS | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))


@settings(max_examples=30)
@given(st.dictionaries(TEXTS, VALUES))
def test_a_table_is_read_as_it_was_written(table: dict[str, Any]) -> None:
    assert tomli.loads(written(table)) == table


@dataclass
class Planned:
    """The reference release with all patches, and a copy of these to break."""

    references: ReferenceTrees
    checkout: Path

    def mutants(self, patch: str, edit: str) -> list[Mutant]:
        file = f"patches/{patch}/patch.toml"
        text = (self.checkout / file).read_text(encoding="utf-8")
        return [mutant for mutant in of_patch(file, text) if mutant.unit == edit]

    def left_out(self, patch: str, edit: str) -> dict[str, dict[str, bytes]]:
        (gone,) = (mutant for mutant in self.mutants(patch, edit) if mutant.operator == LEFT_OUT)
        return self.references.changed_by(gone)


@pytest.fixture(scope="module")
def planned(
    releases: Releases, tmp_path_factory: pytest.TempPathFactory, _parsed_once: None
) -> Iterator[Planned]:
    checkout = tmp_path_factory.mktemp("planned")
    shutil.copytree(SCRIPTS.parent / "patches", checkout / "patches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("patchkit.patchset.load.BUILT_IN", SCRIPTS.parent / "patches")
        yield Planned(
            ReferenceTrees([ReferenceTree("release", releases.tree(REFERENCE), ())], checkout), checkout
        )


def test_an_edit_left_out_leaves_its_site_as_the_release_has_it(planned: Planned) -> None:
    file = "srt/layers/attention/trtllm_mha_backend.py"
    changed = planned.left_out("25925", "overlap-hook")
    assert list(changed["release"]) == [file]
    hook = b"def update_verify_buffers_to_fill_after_draft"
    assert hook not in changed["release"][file]


def test_a_mutant_is_once_in_the_trees_file_as_it_is_in_the_fragment(planned: Planned) -> None:
    (mutant,) = (one for one in planned.mutants("26128", "triton-flag") if one.operator == "constant swapped")
    ((file, content),) = planned.references.changed_by(mutant)["release"].items()
    assert file == "srt/layers/attention/triton_backend.py"
    assert b"needs_cpu_seq_lens: bool = True" in content
    assert planned.references.changed_by(mutant) == {}, "the same trees are no second mutant"


def test_a_patch_that_no_longer_applies_is_no_mutant(planned: Planned) -> None:
    (mutant, *_) = planned.mutants("26824", "mask-slot")
    sound = (planned.checkout / mutant.file).read_text(encoding="utf-8")
    lost = sound.replace("self.num_draft_tokens = $count", "no_such_thing($count)")
    assert lost != sound
    assert planned.references.changed_by(replace(mutant, made=lambda: ("", lost))) == {}
    assert (planned.checkout / mutant.file).read_text(encoding="utf-8") == sound


def test_patches_that_do_not_apply_as_they_are_stop_it_with_a_sentence(
    planned: Planned, releases: Releases, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(planned.checkout, tmp_path / "copy")) / "patches" / "26824" / "patch.toml"
    text = path.read_text(encoding="utf-8").replace("self.num_draft_tokens = $count", "no_such_thing($count)")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match="the patches do not apply to the release tree"):
        ReferenceTrees([ReferenceTree("release", releases.tree(REFERENCE), ())], tmp_path / "copy")


def test_a_patch_that_looks_at_another_patchs_file_is_planned_with_it(
    tree: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = {"schema": 1, "title": "Toy", "why": "To see.", "risk": "None.", "verify": "Look."}
    edit = {"kind": "class-attribute", "why": "toy"}
    flag = {"toy-edit": {**edit, "at": f"{MIRROR}::Mirror", "code": "flag: int = 1"}}
    limit = {"toy-edit": {**edit, "at": f"{ABRUPT}::Worker", "code": "limit: int = 8"}}
    flagged = {
        "shapes": {"flagged": [{"at": f"{MIRROR}::Mirror", "has": "flag = 1"}]},
        "any_shape_of": ["flagged"],
    }
    texts = {
        "t-flag": written({"id": "t-flag", **head, "edit": flag}),
        "t-limit": written({"id": "t-limit", **head, **flagged, "requires": ["t-flag"], "edit": limit}),
    }
    for name, text in texts.items():
        folder = tmp_path / "checkout" / "patches" / name
        folder.mkdir(parents=True)
        (folder / "patch.toml").write_text(text)
    monkeypatch.setattr("patchkit.patchset.load.BUILT_IN", tmp_path)
    references = ReferenceTrees([ReferenceTree("tiny", tree, ())], tmp_path / "checkout")
    changed = [
        references.changed_by(mutant) for mutant in of_patch("patches/t-limit/patch.toml", texts["t-limit"])
    ]
    assert [list(one["tiny"]) for one in changed] == [[ABRUPT], [ABRUPT]]


@pytest.mark.parametrize(
    "same",
    ["x=1  # why\nif x:\n\tf(x)", "x = 1\nif x:\n    pass\n    f(x)", "pass\nx = 1\nif (x):\n    f((x))"],
)
def test_programs_that_differ_in_nothing_that_runs_mean_the_same(same: str) -> None:
    assert meaning(same.encode()) == meaning(b"x = 1\nif x:\n    f(x)\n")


@pytest.mark.parametrize(
    "other", ["x = 2\nif x:\n    f(x)", "x = 1\nif x:\n    f(x)\nelse:\n    f(1)", "x = 1\nif x:\n    pass"]
)
def test_other_programs_mean_something_else(other: str) -> None:
    assert meaning(other.encode()) != meaning(b"x = 1\nif x:\n    f(x)\n")


# ---- samples -----------------------------------------------------------------------------------------------------

CANDIDATES = [(group, number) for group in "abcdef" for number in range(ord(group) - ord("a") + 1)]


def group_of(candidate: tuple[str, int]) -> str:
    return candidate[0]


@given(size=st.integers(0, 30), seed=st.integers(0, 99), odd=st.booleans())
def test_a_sample_is_of_those_that_count_and_no_larger_than_requested(
    size: int, seed: int, odd: bool
) -> None:
    taken = list(sample(CANDIDATES, group_of, lambda candidate: candidate[1] % 2 == odd, size, seed))
    countable = [candidate for candidate in CANDIDATES if candidate[1] % 2 == odd]
    assert len(taken) == len(set(taken)) == min(size, len(countable))
    assert set(taken) <= set(countable)


@given(size=st.integers(6, 30), seed=st.integers(0, 99))
def test_a_sample_has_one_of_each_stratum_before_it_has_another(size: int, seed: int) -> None:
    taken = list(sample(CANDIDATES, group_of, lambda _: True, size, seed))
    assert {group_of(candidate) for candidate in taken[:6]} == set("abcdef")


@given(size=st.integers(0, 30), seed=st.integers(0, 99))
def test_the_same_seed_takes_the_same_in_the_same_order(size: int, seed: int) -> None:
    first, again = (list(sample(CANDIDATES, group_of, lambda _: True, size, seed)) for _ in range(2))
    assert first == again


def test_another_seed_takes_others() -> None:
    taken = {tuple(sample(CANDIDATES, group_of, lambda _: True, 8, seed)) for seed in range(20)}
    assert len(taken) > 10


def test_a_candidate_is_examined_once_and_only_in_its_turn() -> None:
    examined: list[tuple[str, int]] = []

    def counts(candidate: tuple[str, int]) -> bool:
        examined.append(candidate)
        return candidate[1] > 0

    taken = list(islice(sample(CANDIDATES, group_of, counts, 30, 0), 3))
    assert len(taken) == 3
    assert len(examined) < len(CANDIDATES)
    list(sample(CANDIDATES, group_of, counts, 30, 1))
    assert len(examined) == len(set(examined[: -len(CANDIDATES)])) + len(CANDIDATES)


# ---- toy projects ------------------------------------------------------------------------------------------------

STEPS = """\
def ready(count, limit):
    return count < limit


def label(count, more):
    return count + more
"""
TOY_PATCH = "patches/toy/patch.toml"
LIMIT = "tests/runtime/test_steps.py::test_at_the_limit"
TEST_OF_STEPS = """\
from patchkit.runtime.steps import ready


def test_ready():
    assert ready(1, 2)


def test_at_the_limit():
    assert ready(2, 2) is False
"""


@dataclass
class Project:
    """A checkout of a few files that has the script."""

    folder: Path

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()

    def mutate(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run the script; its own patchkit is the real one, that of the tests it runs the project's."""
        real = {"PYTHONPATH": str(SCRIPTS.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        # Of pytest's plugins the script needs hypothesis's alone.
        real |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "_hypothesis_pytestplugin"}
        command = [
            sys.executable,
            str(self.folder / "scripts" / "mutate.py"),
            "--jobs",
            "1",
            *map(str, arguments),
        ]
        merged = {**os.environ, **real}
        return subprocess.run(
            command, cwd=self.folder, env=merged, capture_output=True, text=True, check=False
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "toy")
    shutil.copytree(SCRIPTS / "mutation", project.folder / "scripts" / "mutation")
    shutil.copy(SCRIPTS / "mutate.py", project.folder / "scripts")
    for name in ("patchkit/__init__.py", "patchkit/runtime/__init__.py"):
        project.put(name, "")
    project.put("patchkit/runtime/steps.py", STEPS)
    project.put("tests/runtime/test_steps.py", TEST_OF_STEPS)
    for suite in ("differential", "backends"):
        project.put(
            f"tests/{suite}/test_{suite}.py", "def test_there_is_a_package():\n    import patchkit.runtime"
        )
    project.put("pyproject.toml", "")
    edit = {"kind": "class-attribute", "at": "srt/toy.py::Toy", "code": "limit: int = 1"}
    project.put(TOY_PATCH, patch_of(**edit))
    return project


def test_survivors_are_listed_apart_from_the_killed_and_fail_the_run(
    project: Project, tmp_path: Path
) -> None:
    before = fingerprints(project.folder)
    done = project.mutate("--out", tmp_path / "results.json")
    assert done.stdout, done.stderr
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "killed 2 of 4: 50.0%; 90% is enough"
    assert "survived: patchkit/runtime/steps.py: label: arithmetic swapped" in done.stdout
    assert "-    return count + more\n+    return count - more\n" in done.stdout
    assert "survived: patchkit/runtime/steps.py: ready" not in done.stdout
    content = json.loads((tmp_path / "results.json").read_text())
    assert (content["mutants"], content["killed"], content["rate"]) == (4, 2, 0.5)
    assert content["killed_by"] == {"tests/runtime": 2}
    assert content["files"]["patchkit/runtime/steps.py"] == {"mutants": 4, "killed": 2, "rate": 0.5}
    killers = {row["operator"]: row["test"] for row in content["results"] if row["killed"]}
    assert set(killers) == {"comparison swapped", "return value None"}
    assert killers["comparison swapped"] == LIMIT
    assert fingerprints(project.folder) == before


def test_mutants_of_a_room_of_the_tool_are_tried_with_its_own_tests_alone_and_the_arguments_after_dashes(
    project: Project, tmp_path: Path
) -> None:
    project.put("patchkit/audit/steps.py", STEPS)
    project.put("tests/audit/test_steps.py", TEST_OF_STEPS.replace("runtime", "audit"))
    project.put("tests/cli/test_audit.py", "def test_nothing():\n    pass\n")
    project.put(
        "tests/audit/test_releases.py",
        "import pytest\n\n\n@pytest.mark.release\ndef test_a_release_is_not_tried():\n    assert 1 == 2\n",
    )
    project.put("pyproject.toml", "[tool.pytest.ini_options]\nmarkers = ['release: ', 'sweep: ']\n")
    project.put("tests/runtime/test_steps.py", "def test_another_room_is_not_tried():\n    assert 1 == 2")
    deselected = f"--deselect={LIMIT.replace('runtime', 'audit')}"
    done = project.mutate("--room", "audit", "--out", tmp_path / "results.json", "--", deselected)
    assert done.stdout.splitlines()[-1:] == ["killed 1 of 4: 25.0%; 90% is enough"], done.stderr
    content = json.loads((tmp_path / "results.json").read_text())
    assert list(content["files"]) == ["patchkit/audit/steps.py"]
    assert content["killed_by"] == {"tests/audit": 1}


def test_tests_that_fail_without_a_mutant_stop_it_with_a_sentence(project: Project) -> None:
    project.put("tests/runtime/test_steps.py", "def test_gone():\n    assert 1 == 2")
    done = project.mutate()
    assert (done.returncode, done.stdout) == (1, "")
    message = done.stderr.splitlines()[-1]
    assert message.startswith("mutate: tests/runtime/test_steps.py::test_gone fails without a mutant (")
    assert message.endswith("; fix that first.")


def test_a_name_that_no_mutant_has_stops_it_with_a_sentence(project: Project) -> None:
    done = project.mutate("--only", "nonsense")
    assert (done.returncode, done.stderr) == (1, "mutate: no mutant's name has 'nonsense'.\n")


def test_tests_that_cannot_run_are_no_killers(project: Project) -> None:
    done = project.mutate("--", "-k", "no_test_has_this")
    assert (done.returncode, done.stdout) == (1, "")
    assert "mutate: pytest ended with 5" in done.stderr


def test_a_mutant_that_cannot_be_imported_or_with_which_pytest_cannot_start_is_killed(
    project: Project,
) -> None:
    for name in ("early", "steps"):
        project.put(f"patchkit/runtime/{name}.py", "limit = 1\nassert limit == 1\n")
    project.put("tests/runtime/conftest.py", "from patchkit.runtime.early import limit\n")
    imported = "from patchkit.runtime.steps import limit\n\n\ndef test_there_is_a_test(): ...\n"
    project.put("tests/runtime/test_steps.py", imported)
    done = project.mutate("--only", "comparison")
    assert re.search(r"early\.py: \S+ comparison swapped: killed by start", done.stderr)
    assert done.returncode == 0, "enough were killed"
    assert done.stdout.splitlines()[-1] == "killed 2 of 2: 100.0%; 90% is enough"


def test_what_takes_longer_than_its_limit_is_killed(project: Project, tmp_path: Path) -> None:
    lane = Lane(project.folder, tmp_path / "lane")
    trial = Trial(str(lane.checkout), str(tmp_path / "verdict"), str(tmp_path / "notes"), clean=True)
    assert lane.test(trial, ["tests/runtime"], [], limit=0.01).test == "timeout"
    assert not lane.test(trial, ["tests/runtime"], [], limit=600).killed


def test_a_lane_is_restored_after_a_mutant(project: Project, tmp_path: Path) -> None:
    lane = Lane(project.folder, tmp_path / "lane")
    (mutant, *_) = of_module("patchkit/runtime/steps.py", STEPS)
    with lane.broken(mutant):
        assert (lane.checkout / mutant.file).read_text() == mutant.text != STEPS
    assert (lane.checkout / mutant.file).read_text() == STEPS


def test_each_file_of_a_room_exists_and_no_file_of_a_change_is_without_one() -> None:
    checkout = SCRIPTS.parent
    for room in ROOMS.values():
        assert [place for place in room.places if not list(checkout.glob(place))] == []
    placed = {path for room in ROOMS.values() for place in room.places for path in checkout.glob(place)}
    merged = set((checkout / "patchkit" / "change").glob("*.py"))
    # A docstring, and two words.
    assert {path.stem for path in merged - placed} == {"__init__", "policy"}


# Tests that apply the toy patch to trees and run what is there then.
DRIVEN = {
    "tests/support/releases.py": """
        from pathlib import Path

        import tomli

        PATCH = Path(__file__).parents[1].with_name("patches") / "toy" / "patch.toml"


        def run(command, root, *patches):
            assert (command, patches) == ("apply", ("toy",))
            path = root / "sglang" / "srt" / "toy.py"
            text = path.read_text()
            edits = tomli.loads(PATCH.read_text())["edit"].items()
            edits = {name: edit for name, edit in edits if edit["at"].startswith("srt/toy.py")}
            if "toy-edit" in edits:
                text = text.replace("class Toy:", f"class Toy:\\n    {edits['toy-edit']['code']}")
            if "name" in edits:
                text = text.replace(edits["name"]["find"], edits["name"]["code"])
            path.write_text(text)
    """,
    "tests/support/driven/trees.py": """
        import runpy
        from support.releases import run


        def made(folder, text):
            package = folder / "sglang"
            (package / "srt").mkdir(parents=True)
            (package / "__init__.py").touch()
            (package / "version.py").write_text('__version__ = "0.5.12"')
            (package / "srt" / "toy.py").write_text(text)
            return folder


        def patched(folder, text):
            run("apply", made(folder, text), "toy")
            return folder


        def ask(root, probe):
            return runpy.run_path(str(root / "sglang" / "srt" / "toy.py"))[probe]()
    """,
    "tests/differential/conftest.py": """
        import sys
        from pathlib import Path

        sys.path.insert(0, str(Path(__file__).parents[1]))
        from support.driven import trees
    """,
    "tests/differential/toy.py": """
        class Toy:
            kind = 0


        def limit():
            return getattr(Toy, "limit", None)


        def name():
            return 'toy'
    """,
    "tests/differential/test_toy.py": """
        from pathlib import Path

        import pytest
        from support.driven.trees import ask, made, patched

        TOY = Path(__file__).with_name("toy.py").read_text()


        @pytest.fixture(scope="session")
        def before(tmp_path_factory):
            return made(tmp_path_factory.mktemp("trees") / "tree", TOY)


        @pytest.fixture(scope="session")
        def after(tmp_path_factory):
            return patched(tmp_path_factory.mktemp("trees") / "tree", TOY)


        @pytest.fixture
        def other(tmp_path_factory):
            return patched(tmp_path_factory.mktemp("trees") / "tree", TOY + "other = 1")


        def test_limit(before, after):
            assert ask(before, "limit") is None
            assert ask(after, "limit") is not None


        def test_name(before, after):
            assert (ask(before, "name"), ask(after, "name")) == ("toy", "patched toy")


        def test_another_tree_of_that_name(other):
            assert ask(other, "name") == "patched toy"
    """,
}


@pytest.fixture
def driven(project: Project) -> Project:
    for name, text in DRIVEN.items():
        project.put(name, textwrap.dedent(text).lstrip())
    patch = tomli.loads(project.read(TOY_PATCH))
    site = {"kind": "rewrite", "why": "toy", "at": "srt/toy.py::name"}
    patch["edit"]["name"] = {**site, "find": "return 'toy'", "code": "return 'patched toy'"}
    # What no tree takes makes no mutant.
    patch["shapes"] = {"other": ["srt/other.py"]}
    patch["edit"]["other"] = {**patch["edit"]["toy-edit"], "at": "srt/other.py", "shape": "other"}
    project.put(TOY_PATCH, written(patch))
    return project


def test_a_patchs_mutants_are_in_the_trees_that_tests_patch(driven: Project, tmp_path: Path) -> None:
    before = fingerprints(driven.folder)
    done = driven.mutate("--only", "patches/", "--out", tmp_path / "results.json")
    assert done.stdout.splitlines()[-1:] == ["killed 4 of 5: 80.0%; 90% is enough"], done.stderr
    assert "limit: int = 2" in done.stdout.partition("survived: ")[2], "no test of its trees notices it"
    content = json.loads((tmp_path / "results.json").read_text())
    killers = {(row["unit"], row["test"].rpartition("::")[2]) for row in content["results"] if row["killed"]}
    assert ("toy-edit", "test_limit") in killers
    assert {unit for unit, _ in killers} == {"toy-edit", "name"}
    assert content["killed_by"] == {"tests/differential": 4}
    assert fingerprints(driven.folder) == before


def test_what_noticed_a_mutant_looks_first_at_the_next_of_its_place(driven: Project, tmp_path: Path) -> None:
    file = "tests/differential/test_toy.py"
    log = tmp_path / "log"
    noting = f"""

@pytest.fixture(autouse=True)
def noted(request):
    with open({str(log)!r}, "a") as log:
        print(request.node.name, file=log)
"""
    # Without what noticed it before, it would come last.
    slow = 'def test_limit(before, after):\n    __import__("time").sleep(0.5)\n'
    text = driven.read(file).replace("def test_limit(before, after):\n", slow)
    text = text.replace("is not None", "== 1")
    driven.put(file, text + noting)
    done = driven.mutate("--only", "toy-edit")
    assert "killed 2 of 2" in done.stdout, done.stderr
    first, second = log.read_text().split()[-2:]
    assert (first, second) == ("test_limit", "test_limit")
