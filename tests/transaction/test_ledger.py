from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.toys import git

from patchkit.errors import TreeError
from patchkit.transaction.ledger import AppliedEdit, AppliedFile, AppliedPatch, Journal, Ledger
from patchkit.transaction.store import Store, digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

A, B, C, D = (letter * 64 for letter in "abcd")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path)
    store.create()
    return store


def patch(name: str, *files: str) -> AppliedPatch:
    return AppliedPatch(
        name, f"Toy {name}", (), (), tuple(AppliedEdit(f"edit {f}", f, "module") for f in files)
    )


def applied(ledger: Ledger, name: str, **files: tuple[str, str]) -> Ledger:
    changes = {file: AppliedFile(before, after, (name,)) for file, (before, after) in files.items()}
    return ledger.with_applied(changes, [patch(name, *files)], "set")


def test_first_apply_opens_a_layer() -> None:
    ledger = applied(Ledger(), "one", x=(A, B))
    (layer,) = ledger.layers
    assert layer.files == {"x": AppliedFile(A, B, ("one",))}
    assert layer.patches == (patch("one", "x"),)
    assert layer.digest == "set"
    assert ledger.applied("x") == B
    assert ledger.applied("y") is None


def test_apply_on_an_untouched_file_keeps_the_first_original() -> None:
    ledger = applied(applied(Ledger(), "one", x=(A, B)), "two", x=(B, C))
    (layer,) = ledger.layers
    assert layer.files == {"x": AppliedFile(A, C, ("one", "two"))}
    assert list(ledger.patches) == ["one", "two"]


def test_patch_completed_by_a_second_apply_is_recorded_once() -> None:
    ledger = applied(applied(Ledger(), "one", x=(A, B)), "one", y=(C, D))
    (layer,) = ledger.layers
    assert layer.patches == (patch("one", "x", "y"),)
    assert set(layer.files) == {"x", "y"}


def test_apply_on_a_file_edited_since_opens_a_layer() -> None:
    ledger = applied(applied(Ledger(), "one", x=(A, B)), "two", x=(C, D))
    below, above = ledger.layers
    assert below.files == {"x": AppliedFile(A, B, ("one",))}
    assert above.files == {"x": AppliedFile(C, D, ("two",))}
    assert ledger.applied("x") == D


def test_untouched_file_stays_in_its_layer_when_another_was_edited() -> None:
    ledger = applied(Ledger(), "one", x=(A, B), y=(A, B))
    below, above = applied(ledger, "two", x=(C, D), y=(B, C), z=(A, D)).layers
    assert below.files == {"x": AppliedFile(A, B, ("one",)), "y": AppliedFile(A, C, ("one", "two"))}
    assert above.files == {"x": AppliedFile(C, D, ("two",)), "z": AppliedFile(A, D, ("two",))}
    assert [p.id for p in below.patches] == ["one", "two"]
    assert above.patches == (patch("two", "x", "z"),)


def test_file_new_to_the_ledger_joins_the_top_layer() -> None:
    ledger = applied(applied(applied(Ledger(), "one", x=(A, B)), "two", x=(C, D)), "three", y=(A, B))
    assert set(ledger.layers[1].files) == {"x", "y"}


def test_file_in_which_every_edit_was_made_again_begins_anew() -> None:
    ledger = applied(applied(Ledger(), "one", x=(A, B), y=(A, B)), "one", x=(C, D))
    (layer,) = ledger.layers
    assert layer.files == {"y": AppliedFile(A, B, ("one",)), "x": AppliedFile(C, D, ("one",))}
    assert layer.patches == (patch("one", "y", "x"),)


def test_layer_below_forgets_a_file_in_which_its_edits_were_made_again() -> None:
    ledger = applied(applied(Ledger(), "one", x=(A, B), y=(A, B)), "two", x=(C, D), y=(C, D))
    below, between, above = applied(ledger, "one", x=(A, C)).layers
    assert below.files == {"y": AppliedFile(A, B, ("one",))}
    assert between == ledger.layers[1]
    assert above.files == {"x": AppliedFile(A, C, ("one",))}


def test_edits_made_again_in_one_file_leave_the_other_alone() -> None:
    ledger = applied(applied(Ledger(), "one", x=(A, B), y=(A, B)), "one", y=(B, C))
    assert ledger.layers[0].files["x"] == AppliedFile(A, B, ("one",))


def test_ledger_is_read_as_it_was_written(store: Store) -> None:
    ledger = applied(applied(Ledger(), "one", x=(A, B)), "two", x=(C, D))
    store.stage(ledger)
    assert store.read() == Ledger()
    store.publish()
    assert store.read() == ledger


def test_content_is_kept_once_under_its_digest(store: Store) -> None:
    digest = store.put(b"x = 1\r\n")
    assert store.put(b"x = 1\r\n") == digest == digest_of(b"x = 1\r\n")
    assert store.get(digest) == b"x = 1\r\n"
    assert store.holds(digest)
    assert not store.holds(A)


def test_damaged_content_is_refused_by_name(store: Store) -> None:
    digest = store.put(b"x = 1\n")
    store.path(digest).write_bytes(b"x = 2\n")
    assert not store.holds(digest)
    with pytest.raises(TreeError, match=rf"{digest} is damaged"):
        store.get(digest)


def test_missing_content_is_refused_by_name(store: Store) -> None:
    with pytest.raises(TreeError, match=rf"{A} cannot be read: No such file"):
        store.get(A)


def test_damaged_content_is_replaced_when_put_again(store: Store) -> None:
    digest = store.put(b"x = 1\n")
    store.path(digest).write_bytes(b"")
    assert store.get(store.put(b"x = 1\n")) == b"x = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"layers": {}, "format": 1}',
        '{"layers": [], "format": 2}',
        '{"layers": [], "format": 1, "more": 1}',
        '{"layers": [{"patches": [], "files": {"x": {"original": "no", "applied": "no", "patches": []}},'
        ' "digest": "", "patchkit": "", "time": ""}], "format": 1}',
    ],
)
def test_damaged_ledger_is_refused_in_one_sentence(store: Store, text: str) -> None:
    (store.folder / "ledger.json").write_text(text)
    with pytest.raises(TreeError, match=r"ledger.json is damaged: .*git.*\.$"):
        store.read()


def test_damaged_journal_is_refused(store: Store) -> None:
    (store.folder / "journal.json").write_text("{")
    with pytest.raises(TreeError, match=r"journal.json is damaged"):
        store.journal()


def test_journal_names_every_content_that_finishing_takes(store: Store) -> None:
    journal = Journal({"x": (C, D)}, applied(Ledger(), "one", x=(A, B)))
    store.begin(journal)
    assert store.pending
    assert store.journal() == journal
    assert journal.contents == {A, B, C, D}
    store.end()
    assert not store.pending
    assert store.journal() is None


def test_contents_without_a_reference_are_dropped(store: Store) -> None:
    before, after, other = store.put(b"before"), store.put(b"after"), store.put(b"other")
    store.stage(applied(Ledger(), "one", x=(before, after)))
    store.publish()
    store.tidy()
    assert store.holds(before)
    assert store.holds(after)
    assert not store.holds(other)


def test_folder_goes_with_the_last_layer(store: Store) -> None:
    store.put(b"before")
    store.tidy()
    assert not store.folder.exists()


def test_nothing_is_dropped_while_a_write_is_pending(store: Store) -> None:
    digest = store.put(b"before")
    store.begin(Journal({}, Ledger()))
    store.tidy()
    assert store.holds(digest)


def test_nothing_is_dropped_where_the_ledger_is_damaged(store: Store) -> None:
    digest = store.put(b"before")
    (store.folder / "ledger.json").write_text("{")
    store.tidy()
    assert store.holds(digest)


def test_git_status_does_not_show_the_ledger(checkout: CheckoutTree) -> None:
    store = Store(checkout.package)
    store.create()
    store.put(b"before")
    assert git(checkout.root, "status", "--porcelain", "--untracked-files=all") == ""
