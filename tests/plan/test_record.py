from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from patchkit.errors import TreeError
from patchkit.patchset.patch import Patch
from patchkit.plan import record
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, How, Record, file_of, files_of
from patchkit.plan.status import EditStatus, PatchStatus, State, missing_reason
from patchkit.tree.fork import is_recorded
from patchkit.tree.tree import MemoryTree

if TYPE_CHECKING:
    from collections.abc import Mapping

A, B, C, D = (letter * 40 for letter in "abcd")


class Recorded(MemoryTree):
    """A tree with a record of these files."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__({})
        self._files = files

    def record(self) -> dict[str, bytes]:
        return {**self._files}


def read(files: Mapping[str, bytes]) -> Record:
    return record.read(Recorded(files))


def patch(name: str, *files: str) -> AppliedPatch:
    return AppliedPatch(name, (), tuple(AppliedEdit(f"edit {f}", f) for f in files))


def applied(record: Record, name: str, **files: tuple[str | None, str | None]) -> Record:
    changes = {file: AppliedFile(before, after, (name,)) for file, (before, after) in files.items()}
    return record.with_applied(changes, [patch(name, *files)])


def test_first_apply_opens_a_layer() -> None:
    record = applied(Record(), "one", x=(A, B))
    (layer,) = record.layers
    assert layer.files == {"x": AppliedFile(A, B, ("one",))}
    assert layer.patches == (patch("one", "x"),)
    assert set(record.files) == {"x"}


def test_apply_on_an_untouched_file_keeps_the_first_original() -> None:
    record = applied(applied(Record(), "one", x=(A, B)), "two", x=(B, C))
    (layer,) = record.layers
    assert layer.files == {"x": AppliedFile(A, C, ("one", "two"))}
    assert list(record.patches) == ["one", "two"]


def test_patch_completed_by_a_second_apply_is_recorded_once() -> None:
    record = applied(applied(Record(), "one", x=(A, B)), "one", y=(C, D))
    (layer,) = record.layers
    assert layer.patches == (patch("one", "x", "y"),)
    assert set(layer.files) == {"x", "y"}


def test_apply_on_a_file_edited_since_opens_a_layer() -> None:
    record = applied(applied(Record(), "one", x=(A, B)), "two", x=(C, D))
    below, above = record.layers
    assert below.files == {"x": AppliedFile(A, B, ("one",))}
    assert above.files == {"x": AppliedFile(C, D, ("two",))}
    assert record.files["x"].applied == D


def test_untouched_file_stays_in_its_layer_when_another_was_edited() -> None:
    record = applied(Record(), "one", x=(A, B), y=(A, B))
    below, above = applied(record, "two", x=(C, D), y=(B, C), z=(A, D)).layers
    assert below.files == {"x": AppliedFile(A, B, ("one",)), "y": AppliedFile(A, C, ("one", "two"))}
    assert above.files == {"x": AppliedFile(C, D, ("two",)), "z": AppliedFile(A, D, ("two",))}
    assert [p.id for p in below.patches] == ["one", "two"]
    assert above.patches == (patch("two", "x", "z"),)


def test_file_new_to_the_record_joins_the_top_layer() -> None:
    record = applied(applied(applied(Record(), "one", x=(A, B)), "two", x=(C, D)), "three", y=(A, B))
    assert set(record.layers[1].files) == {"x", "y"}


def test_file_in_which_every_edit_was_made_again_begins_anew() -> None:
    record = applied(applied(Record(), "one", x=(A, B), y=(A, B)), "one", x=(C, D))
    (layer,) = record.layers
    assert layer.files == {"y": AppliedFile(A, B, ("one",)), "x": AppliedFile(C, D, ("one",))}
    assert layer.patches == (patch("one", "y", "x"),)


def test_layer_below_forgets_a_file_in_which_its_edits_were_made_again() -> None:
    record = applied(applied(Record(), "one", x=(A, B), y=(A, B)), "two", x=(C, D), y=(C, D))
    below, between, above = applied(record, "one", x=(A, C)).layers
    assert below.files == {"y": AppliedFile(A, B, ("one",))}
    assert between == record.layers[1]
    assert above.files == {"x": AppliedFile(A, C, ("one",))}


def test_edits_made_again_in_one_file_leave_the_other_alone() -> None:
    record = applied(applied(Record(), "one", x=(A, B), y=(A, B)), "one", y=(B, C))
    assert record.layers[0].files["x"] == AppliedFile(A, B, ("one",))


def same(one: Record, other: Record) -> bool:
    """Return whether two records have the same layers, in which the order of names does not matter."""

    def described(each: Record) -> object:
        return [
            (
                layer.is_ported,
                {file: (f.original, f.applied, sorted(f.patches)) for file, f in layer.files.items()},
                {p.id: (p.form, p.requires, frozenset(p.edits)) for p in layer.patches},
            )
            for layer in each.layers
        ]

    return described(one) == described(other)


TWO_LAYERS = applied(applied(Record(), "one", x=(A, B), y=(None, C)), "two", x=(C, D), z=(A, None))
OF_A_PORT = TWO_LAYERS.with_applied({"x": AppliedFile(D, A, ("7",))}, [patch("7", "x")], ported=True)


@pytest.mark.parametrize("known", [applied(Record(), "one", x=(A, B)), TWO_LAYERS, OF_A_PORT])
def test_record_is_read_as_it_was_written(known: Record) -> None:
    files = files_of(known)
    assert {*files} == {f"{name}.toml" for name in known.patches}
    assert same(read(files), known)
    assert files_of(read(files)) == files


def test_empty_record_has_no_file() -> None:
    assert files_of(Record()) == {}
    assert read({}) == Record()


def test_later_write_changes_no_file_but_its_own() -> None:
    before = files_of(applied(Record(), "one", x=(A, B)))
    after = files_of(applied(read(before), "two", x=(B, C)))
    assert {name: after[name] for name in before} == before
    assert read(after).layers[0].files["x"] == AppliedFile(A, C, ("one", "two"))


def test_write_of_a_hook_changes_the_last_file() -> None:
    files = files_of(applied(read(files_of(applied(Record(), "one", x=(A, B)))), "two", x=(B, C)))
    rewritten = files_of(read(files).with_applied({"x": AppliedFile(C, D, ())}, ()))
    assert rewritten == files | {"two.toml": files["two.toml"].replace(C.encode(), D.encode())}


def test_patch_whose_edits_were_there_is_recorded_without_a_change() -> None:
    known = applied(read(files_of(applied(Record(), "one", x=(A, B)))), "two", x=(B, B))
    again = read(files_of(applied(read(files_of(known)), "three", x=(B, C))))
    assert again.layers[0].files["x"].original == A
    assert again.layers[0].files["x"].applied == C
    assert set(again.layers[0].files["x"].patches) == {"one", "two", "three"}


def test_two_branches_that_changed_a_file_are_told_apart() -> None:
    one, two = (files_of(applied(Record(), name, x=(A, after))) for name, after in (("one", B), ("two", C)))
    merged = read(one | two)
    assert merged.forked == {"x"}
    assert set(merged.patches) == {"one", "two"}


def test_write_changes_no_file_of_a_series_of_which_git_took_out_one() -> None:
    known = Record()
    for name, before, after in (("one", A, B), ("two", B, C), ("three", C, D)):
        known = read(files_of(applied(known, name, x=(before, after))))
    files = {name: text for name, text in files_of(known).items() if name != "two.toml"}
    later = files_of(applied(read(files), "four", y=(A, B)))
    assert later.keys() - files.keys() == {"four.toml"}
    assert {name: later[name] for name in files} == files


def test_layers_keep_their_numbers_when_one_below_goes() -> None:
    ported = applied(Record(), "one", x=(A, B))
    for name, before in (("7", B), ("8", C)):
        change = {"x": AppliedFile(before, D if before == C else C, (name,))}
        ported = ported.with_applied(change, [patch(name, "x")], ported=True)
    files = {name: text for name, text in files_of(ported).items() if name != "7.toml"}
    assert b"layer = 2\n" in files["8.toml"]
    assert files_of(read(files)) == files
    assert files_of(read(files | {"9.toml": files["8.toml"].replace(b'"8"', b'"9"')})).keys() > files.keys()


IDS = [
    *(
        "25925",
        "25925/plan-stream",
        "25925%2fplan-stream",
        "Own",
        "own",
        "OWN",
        "con",
        "con.x",
        "console",
        "COM1",
    ),
    *(
        "",
        ".",
        "..",
        ".own",
        "own.",
        "own ",
        "a b",
        "a:b",
        "a\\b",
        "a*b",
        "é",
        "É",
        "\x00",
        "x" * 400,
        "y" * 400,
    ),
    *("X" * 400, "x" * 401, "%", "%-", "-", "~", "patchkit.lock", "own.toml", "own.toml.toml"),
]


def test_names_of_files_are_safe_on_every_system_and_of_one_patch() -> None:
    names = {file_of(each) for each in IDS}
    assert len({name.casefold() for name in names}) == len(IDS)
    for name in names:
        assert re.fullmatch(r"[a-z0-9_%-][a-z0-9._%-]{0,130}\.toml", name)
        assert not re.match(r"(?:con|prn|aux|nul|com\d|lpt\d)\.", name)
        assert is_recorded(name)


@pytest.mark.parametrize("name", IDS)
def test_id_of_any_text_is_read_as_it_was_written(name: str) -> None:
    assert [*read(files_of(applied(Record(), name, x=(A, B)))).patches] == [name]


def test_id_in_a_file_decides_and_not_its_name() -> None:
    (text,) = files_of(applied(Record(), "one", x=(A, B))).values()
    assert [*read({"other.toml": text}).patches] == ["one"]
    with pytest.raises(TreeError, match=r"patchkit.lock/one.toml has the id 'one', as a.toml has: remove"):
        read({"one.toml": text, "a.toml": text})


def test_how_an_edit_was_made_is_kept() -> None:
    edits = tuple(AppliedEdit(how.value, "x", how) for how in How)
    known = Record().with_applied(
        {"x": AppliedFile(A, B, ("one",))}, [AppliedPatch("one", ("two",), edits, form="f", patchkit="1")]
    )
    again = read(files_of(known))
    assert again.manual_edits == {("one", "by-hand"), ("one", "accepted"), ("one", "found")}
    assert {edit.name for edit in again.patches["one"].revertible} == {"made", "by-hand", "accepted"}
    assert again.patches["one"].requires == ("two",)


def block(**keys: str) -> bytes:
    values = {"file": '"x"', "before": f'"{A}"', "after": f'"{B}"'} | keys
    lines = "".join(f"{key} = {value}\n" for key, value in values.items())
    return f'format = 1\nid = "one"\nkind = "patch"\n\n[[write]]\n{lines}'.encode()


DAMAGED: Mapping[str, bytes] = {
    "nothing": b"",
    "no TOML": b"{",
    "no format": block().replace(b"format = 1", b""),
    "another format": block().replace(b"format = 1", b"format = 0"),
    "a text for a format": block().replace(b"format = 1", b"format = '1'"),
    "no patch": block().replace(b'id = "one"', b""),
    "another key": block(more="1"),
    "no id": block(before='"no"'),
    "another kind": block().replace(b'kind = "patch"', b'kind = "other"'),
    "too deep": b"a = " + b"[" * 100_000,
    "not Unicode": b"\xff",
    "too long": b"#" * 2**21,
    "many layers": block(layer="99999999"),
    "an unknown origin": block() + b'edits."a" = "guessed"\n',
} | {
    f"the file {name}": block(file=f'"{name}"')
    for name in (
        "../x",
        "/x",
        "srt/../../x",
        "srt//x",
        ".",
        "",
        ".patchkit/lock",
        "patchkit.lock",
        "patchkit.lock/one.toml",
        "x\\u0000",
    )
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damaged_record_is_refused_in_one_sentence(text: bytes) -> None:
    with pytest.raises(
        TreeError, match=r"patchkit.lock/one.toml is damaged \((?s:.)*git, or remove it"
    ) as refused:
        read({"one.toml": text})
    # The words are not the library's.
    assert "`$" not in str(refused.value)


def test_newer_record_is_refused() -> None:
    with pytest.raises(TreeError, match=r"is from a newer patchkit \(format 7\): upgrade patchkit"):
        read({"one.toml": b"format = 7\nlater = true\n"})


@pytest.mark.parametrize("style", [b"", b"||||||| base\n"])
def test_conflict_markers_of_a_merge_are_a_sentence(style: bytes) -> None:
    text = b"format = 1\n<<<<<<< HEAD\n" + style + b"=======\n>>>>>>> other\n"
    with pytest.raises(TreeError, match=r"patchkit.lock/one.toml has conflict markers: keep one"):
        read({"one.toml": text})


def test_what_a_record_says_of_edits_and_contents() -> None:
    edits = (
        AppliedEdit("made", "a.py"),
        AppliedEdit("hand", "b.py", How.BY_HAND),
        AppliedEdit("taken", "c.py", How.ACCEPTED),
        AppliedEdit("found", "d.py", How.FOUND),
    )
    own = AppliedPatch("own", (), edits)
    written = {"a.py": (A, B), "b.py": (None, C), "c.py": (A, A), "d.py": (A, A)}
    files = {file: AppliedFile(*pair, ("own",)) for file, pair in written.items()}
    known = Record().with_applied(files, [own])
    known = known.with_applied({"e.py": AppliedFile(C, None, ("port",))}, [patch("port")], ported=True)
    assert own.by_hand == {"hand", "taken", "found"}
    assert [edit.name for edit in own.revertible] == ["made", "hand", "taken"]
    assert known.manual_edits == {("own", name) for name in ("hand", "taken", "found")}
    assert known.manual_files == {
        ("own", "hand"): "b.py",
        ("own", "taken"): "c.py",
        ("own", "found"): "d.py",
    }
    assert known.edits == {("own", name) for name in ("made", "hand", "taken", "found")}
    assert known.found_files == {"d.py"}
    assert known.contents == {A, B, C}
    assert known.ported == {"port"}
    assert list(known.patches) == ["own", "port"]
    assert known.of_ports(frozenset({"port", "own"})).patches.keys() == {"port"}
    assert known.of_ports(frozenset({"own"})).layers == ()


@pytest.mark.parametrize(
    ("name", "file", "own", "outside"),
    [
        ("srt/a.py", True, False, False),
        ("a", True, False, False),
        ("patchkit.lock", False, True, False),
        ("patchkit.lock/a.toml", False, True, False),
        ("patchkit.lock/a/b.toml", False, False, False),
        ("patchkit.lock.old", True, False, False),
        ("../a.py", False, False, True),
        ("../../docs/a.md", False, False, True),
        ("../a/../b", False, False, False),
        ("..", False, False, False),
        ("a/../b", False, False, False),
        ("a/./b", False, False, False),
        ("/a", False, False, False),
        ("a//b", False, False, False),
        ("a\nb", False, False, False),
        ("a\n", False, False, False),
        ("\udcff", False, False, False),
        ("", False, False, False),
    ],
)
def test_the_names_that_a_record_and_a_write_can_contain(
    name: str, file: bool, own: bool, outside: bool
) -> None:
    assert (record.is_file(name), record.is_record_file(name), record.is_outside(name)) == (
        file,
        own,
        outside,
    )


def test_the_file_of_a_patch_has_what_a_later_version_needs() -> None:
    known = Record().with_applied(
        {"x.py": AppliedFile(A, B, ("one",)), "y.py": AppliedFile(None, C, ("one",))},
        [
            AppliedPatch(
                "one",
                ("two", "three"),
                (AppliedEdit("b", "x.py"), AppliedEdit("a", "x.py", How.BY_HAND), AppliedEdit("c", "y.py")),
                form="0f",
                patchkit="1.2",
            )
        ],
    )
    known = known.with_applied({"x.py": AppliedFile(C, None, ("7",))}, [patch("7", "x.py")], ported=True)
    text, ported = (files_of(known)[f"{name}.toml"].decode() for name in ("one", "7"))
    assert text.partition("\n")[2] == (
        f'format = 1\nid = "one"\nkind = "patch"\nform = "0f"\npatchkit = "1.2"\nrequires = ["two", "three"]\n\n'
        f'[[write]]\nfile = "x.py"\nbefore = "{A}"\nafter = "{B}"\nedits."a" = "by-hand"\nedits."b" = "made"\n\n'
        f'[[write]]\nfile = "y.py"\nafter = "{C}"\nedits."c" = "made"\n'
    )
    assert 'kind = "port"\n' in ported
    assert ported.endswith(f'file = "x.py"\nbefore = "{C}"\nlayer = 1\nedits."edit x.py" = "made"\n')


def test_a_patch_that_is_written_anew_takes_the_place_of_what_it_wrote_alone() -> None:
    known = applied(applied(Record(), "one", x=(A, B), y=(A, B)), "two", y=(B, C))
    again = known.renewed({"z": AppliedFile(A, D, ("one",))}, patch("one", "z"))
    (layer,) = again.layers
    assert layer.files == {"y": AppliedFile(A, C, ("one", "two")), "z": AppliedFile(A, D, ("one",))}
    assert [p.id for p in layer.patches] == ["one", "two"]


def test_several_patches_of_one_write_are_one_write() -> None:
    change = {"x": AppliedFile(A, B, ("one", "two"))}
    known = read(files_of(Record().with_applied(change, [patch("one", "x"), patch("two", "x")])))
    assert known.layers[0].files == change
    assert files_of(known) == files_of(read(files_of(known)))
    later = read(files_of(applied(known, "three", x=(B, C))))
    assert later.layers[0].files["x"] == AppliedFile(A, C, ("one", "two", "three"))
    assert {name: text for name, text in files_of(later).items() if name != "three.toml"} == files_of(known)


def test_layers_that_would_be_read_in_another_order_get_other_numbers() -> None:
    known = Record()
    for name, before, after in (("9", A, B), ("8", B, C), ("10", C, D)):
        known = known.with_applied(
            {"x": AppliedFile(before, after, (name,))}, [patch(name, "x")], ported=True
        )
    assert [layer.number for layer in known.layers] == [0, 1, 2]
    again = read(files_of(known))
    assert [[p.id for p in layer.patches] for layer in again.layers] == [["9"], ["8"], ["10"]]
    alike = record.Record(tuple(msgspec.structs.replace(layer, number=5) for layer in again.layers))
    numbered = read(files_of(alike))
    assert [[p.id for p in layer.patches] for layer in numbered.layers] == [["9"], ["8"], ["10"]]
    assert [layer.number for layer in numbered.layers] == [5, 6, 7]
    # Ports of one number in the order of their names need none.
    in_order = record.Record(tuple(msgspec.structs.replace(layer, number=5) for layer in again.layers[::-1]))
    assert [layer.number for layer in read(files_of(in_order)).layers] == [5, 5, 5]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("one", "one.toml"),
        ("a/b", "a%2fb.toml"),
        ("A", "%41.toml"),
        ("con", "%63on.toml"),
        ("console", "console.toml"),
        (".own", "%2eown.toml"),
        ("", "%.toml"),
        ("é", "%c3%a9.toml"),
        ("x" * 120, "x" * 120 + ".toml"),
        ("x" * 121, f"%-{hashlib.sha256(b'x' * 121).hexdigest()}.toml"),
    ],
)
def test_the_name_of_a_file_is_readable_where_it_can_be(name: str, file: str) -> None:
    assert file_of(name) == file


@pytest.mark.parametrize(
    "value", [Record(), record.Layer((), {}), patch("one"), AppliedEdit("a", "x"), AppliedFile(A, B, ())]
)
def test_a_record_and_what_is_in_it_is_never_changed(value: object) -> None:
    for name in value.__struct_fields__:  # type: ignore[attr-defined]
        with pytest.raises(AttributeError):
            setattr(value, name, None)


ONE = Patch(id="one", title="", why="", risk="", verify="", edits=())


def status(state: State, *edits: EditStatus, parts: bool = False) -> PatchStatus:
    return PatchStatus(msgspec.structs.replace(ONE, parts=("a",)) if parts else ONE, state, edits)


def edit_in(name: str, state: State, calls_runtime: bool = False) -> EditStatus:
    return EditStatus(name, "x", "", state, calls_runtime=calls_runtime)


HERE, THERE, PENDING = (
    edit_in("edit x", State.UPSTREAM),
    edit_in("other", State.APPLIED),
    edit_in("last", State.PENDING),
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # What is recorded or calls the runtime is patchkit's, and the rest upstream's.
        (status(State.UPSTREAM, HERE), status(State.APPLIED, edit_in("edit x", State.APPLIED))),
        (
            status(State.APPLIED, HERE, THERE),
            status(State.APPLIED, edit_in("edit x", State.APPLIED), edit_in("other", State.UPSTREAM)),
        ),
        (status(State.APPLIED, THERE), status(State.APPLIED, edit_in("other", State.UPSTREAM))),
        (
            status(State.UPSTREAM, edit_in("other", State.UPSTREAM, True)),
            status(State.APPLIED, edit_in("other", State.APPLIED, True)),
        ),
        # What is not in place stays as it is.
        (status(State.PENDING, PENDING), status(State.PENDING, PENDING)),
        (
            status(State.CONFLICT, HERE, edit_in("last", State.CONFLICT)),
            status(State.CONFLICT, edit_in("edit x", State.APPLIED), edit_in("last", State.CONFLICT)),
        ),
    ],
)
def test_whose_the_edits_of_a_recorded_patch_are(before: PatchStatus, after: PatchStatus) -> None:
    known = applied(Record(), "one", x=(A, B))
    (found,) = record.attributed([before], known)
    assert (found.state, found.edits) == (after.state, after.edits)
    ported = Record().with_applied({"x": AppliedFile(A, B, ("one",))}, [patch("one", "x")], ported=True)
    for without in (Record(), applied(Record(), "two", x=(A, B)), ported):
        assert record.attributed([before], without) == (before,)


def test_a_part_of_a_recorded_patch_says_what_is_missing() -> None:
    known = applied(Record(), "one", x=(A, B))
    (found,) = record.attributed([status(State.PARTIAL, HERE, PENDING)], known)
    assert found.state is State.PARTIAL
    assert found.edits == (edit_in("edit x", State.APPLIED), PENDING)
    assert found.reason == missing_reason(found.edits)


@pytest.mark.parametrize(
    ("change", "others", "left"),
    [
        # The port is not there any more where a file is as it was before it.
        ({"x": (A, C)}, {"y": A}, {}),
        ({"x": (A, C)}, {"y": B}, {"y": (A, B)}),
        ({"x": (A, C)}, {}, {"y": (A, B)}),
        ({"x": (B, C)}, {"y": B}, {"x": (A, B), "y": (A, B)}),
        # Only with a file that is written again.
        ({"z": (A, C)}, {"x": A, "y": A}, {"x": (A, B), "y": (A, B)}),
    ],
)
def test_a_port_whose_code_is_gone_where_a_patch_writes_leaves_the_record(
    change: dict[str, tuple[str, str]], others: dict[str, str], left: dict[str, tuple[str, str]]
) -> None:
    files = {file: AppliedFile(A, B, ("7",)) for file in "xy"}
    known = Record().with_applied(files, [patch("7", *files)], ported=True)
    changes = {file: AppliedFile(*pair, ("one",)) for file, pair in change.items()}
    after = known.with_applied(changes, [patch("one", *changes)], others=others)
    ports = [layer for layer in after.layers if layer.is_ported]
    assert {f: (e.original, e.applied) for layer in ports for f, e in layer.files.items()} == left
    assert after.layers[-1].files == changes
    assert not after.layers[-1].is_ported


def test_a_port_of_files_that_patches_wrote_is_a_layer_of_its_own() -> None:
    known = applied(Record(), "one", x=(A, B))
    for before, name in ((B, "7"), (C, "8")):
        change = {"x": AppliedFile(before, C if before == B else D, (name,))}
        known = known.with_applied(change, [patch(name, "x")], ported=True)
    known = applied(known, "two", x=(D, A), y=(A, B))
    assert [layer.is_ported for layer in known.layers] == [False, True, True, False]
    assert [[*layer.files] for layer in known.layers] == [["x"], ["x"], ["x"], ["x", "y"]]
    assert known.ported == {"7", "8"}
