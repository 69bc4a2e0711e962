from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.errors import TreeError
from patchkit.plan import record
from patchkit.plan.examples import MemoryTree
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, How, Record, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

A, B, C, D = (letter * 40 for letter in "abcd")


class Recorded(MemoryTree):
    """A tree with a record of this text."""

    def __init__(self, text: bytes | None) -> None:
        super().__init__({})
        self._text = text

    def record(self) -> bytes | None:
        return self._text


def read(text: bytes | None) -> Record:
    return record.read(Recorded(text))


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
    text = text_of(known)
    assert text is not None
    assert same(read(text), known)
    assert text_of(read(text)) == text


def test_empty_record_is_no_file() -> None:
    assert text_of(Record()) is None
    assert read(None) == Record()


def test_later_write_changes_no_block_but_its_own() -> None:
    first = applied(Record(), "one", x=(A, B))
    before = text_of(first) or b""
    after = text_of(applied(read(before), "two", x=(B, C))) or b""
    assert after.startswith(before)
    assert read(after).layers[0].files["x"] == AppliedFile(A, C, ("one", "two"))


def test_write_of_a_hook_changes_the_last_block() -> None:
    text = text_of(applied(applied(Record(), "one", x=(A, B)), "two", x=(B, C))) or b""
    rewritten = text_of(read(text).with_applied({"x": AppliedFile(C, D, ())}, ())) or b""
    assert rewritten == text.replace(C.encode(), D.encode())


def test_patch_whose_edits_were_there_is_recorded_without_a_change() -> None:
    known = applied(read(text_of(applied(Record(), "one", x=(A, B)))), "two", x=(B, B))
    again = read(text_of(applied(read(text_of(known)), "three", x=(B, C))))
    assert again.layers[0].files["x"].original == A
    assert again.layers[0].files["x"].applied == C
    assert set(again.layers[0].files["x"].patches) == {"one", "two", "three"}


def test_two_branches_that_changed_a_file_are_told_apart() -> None:
    blocks = [
        (text_of(applied(Record(), name, x=(A, after))) or b"") for name, after in (("one", B), ("two", C))
    ]
    merged = blocks[0] + blocks[1].partition(b"format = 1\n")[2]
    assert read(merged).forked == {"x"}
    assert set(read(merged).patches) == {"one", "two"}


def test_how_an_edit_was_made_is_kept() -> None:
    edits = tuple(AppliedEdit(how.value, "x", how) for how in How)
    known = Record().with_applied(
        {"x": AppliedFile(A, B, ("one",))}, [AppliedPatch("one", ("two",), edits, form="f", patchkit="1")]
    )
    again = read(text_of(known))
    assert again.manual_edits == {("one", "by-hand"), ("one", "accepted"), ("one", "found")}
    assert {edit.name for edit in again.patches["one"].revertible} == {"made", "by-hand", "accepted"}
    assert again.patches["one"].requires == ("two",)


def block(**keys: str) -> bytes:
    values = {"file": '"x"', "before": f'"{A}"', "after": f'"{B}"'} | keys
    lines = "".join(f"{key} = {value}\n" for key, value in values.items())
    return f'format = 1\n\n[patch."one"]\nkind = "patch"\n\n[[patch."one".write]]\n{lines}'.encode()


DAMAGED: Mapping[str, bytes] = {
    "nothing": b"",
    "no TOML": b"{",
    "no format": block().replace(b"format = 1", b""),
    "another format": block().replace(b"format = 1", b"format = 0"),
    "a text for a format": block().replace(b"format = 1", b"format = '1'"),
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
        "x\\u0000",
    )
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damaged_record_is_refused_in_one_sentence(text: bytes) -> None:
    with pytest.raises(TreeError, match=r"patchkit.lock is damaged \((?s:.)*git, or remove it"):
        read(text)


def test_newer_record_is_refused() -> None:
    with pytest.raises(TreeError, match=r"is from a newer patchkit \(format 7\): upgrade patchkit"):
        read(b"format = 7\nlater = true\n")


@pytest.mark.parametrize("style", [b"", b"||||||| base\n"])
def test_conflict_markers_of_a_merge_are_a_sentence(style: bytes) -> None:
    text = b"format = 1\n<<<<<<< HEAD\n" + style + b"=======\n>>>>>>> other\n"
    with pytest.raises(TreeError, match="has conflict markers: keep the blocks of both sides"):
        read(text)
