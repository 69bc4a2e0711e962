"""What the tree's own decision about the mirror implies for its settings and for files of a feature."""

from __future__ import annotations

import pytest

from patchkit.audit.decision import Decision
from patchkit.tree.index import Program

PLACE = "srt/managers/overlap_utils.py"


def decision(*statements: str, name: str = "decide_needs_cpu_seq_lens", **others: str) -> Decision:
    body = "".join(f"    {line}\n" for line in (*statements, "return False"))
    files = {PLACE: f"# seq_lens_cpu\ndef {name}(args, flag):\n{body}", **others}
    return Decision(Program({file: text.encode() for file, text in files.items()}))


def forced(*statements: str) -> tuple[set[str], set[str]]:
    false, true = decision(*statements).forced
    return set(false), set(true)


@pytest.mark.parametrize(
    ("test", "false", "true"),
    [
        ("args.enable_overlap", {"enable_overlap"}, set()),
        ("not args.disable_graph", set(), {"disable_graph"}),
        ("flag", {"flag"}, set()),
        ("args.first or args.second", {"first", "second"}, set()),
        ("args.first or (args.second or not args.third)", {"first", "second"}, {"third"}),
        ("args.first and args.second", set(), set()),
        ("args.count > 1", set(), set()),
        ("args.first or args.count > 1", {"first"}, set()),
        ("getattr(args, 'first', False)", {"first"}, set()),
        ("not getattr(args, 'first', False)", set(), {"first"}),
        ("getattr(args)", {"getattr"}, set()),
        ("args.has_overlap()", {"has_overlap"}, set()),
        ("args['first'] or 5", {"args"}, set()),
    ],
)
def test_the_settings_that_a_test_which_keeps_the_mirror_implies(
    test: str, false: set[str], true: set[str]
) -> None:
    assert forced(f"if {test}: return True") == (false, true)


@pytest.mark.parametrize(
    "statement",
    [
        "if args.first: return False",
        "if args.first: return 1",
        "if args.first: return flag",
        "if args.first: pass",
    ],
)
def test_a_test_that_does_not_keep_the_mirror_implies_nothing(statement: str) -> None:
    assert forced(statement) == (set(), set())


def test_what_stands_before_the_return_of_a_branch_changes_nothing() -> None:
    assert forced("if args.first:", "    log()", "    return True") == ({"first"}, set())


def test_a_function_of_another_name_decides_nothing() -> None:
    other = decision("if args.first: return True", name="decide")
    assert (other.exists, other.functions) == (False, [])
    assert other.forced == (frozenset(), frozenset())
    assert [function.name for function in decision().functions] == ["decide_needs_cpu_seq_lens"]


def test_a_decision_of_the_runtime_alone_is_none_of_the_tree() -> None:
    assert decision().exists
    text = "# seq_lens_cpu\ndef decide_needs_cpu_seq_lens(args): return True\n"
    assert not Decision(Program({"_patchkit/decision.py": text.encode()})).exists


@pytest.mark.parametrize(
    ("file", "keeps"),
    [
        ("two_batch_overlap.py", True),
        ("two_batch_overlap_utils.py", True),
        ("tbo_backend.py", True),
        ("tbo.py", False),
        ("pdmux_context.py", True),
        ("p_context.py", False),
        ("plain.py", False),
        ("plainly_there.py", False),
        ("another.py", False),
    ],
)
def test_a_file_named_after_a_feature_or_its_initials_keeps_the_mirror(file: str, keeps: bool) -> None:
    place = f"srt/layers/{file}"
    settings = "args.enable_two_batch_overlap or args.plain or not args.disable_pdmux"
    known = decision(f"if {settings}: return True", **{place: "seq_lens_cpu = 1\n"})
    (module,) = (module for module in known._program.core if module.file == place)
    assert known.keeps_for(module) is keeps
