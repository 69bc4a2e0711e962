from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from support.toys import COPIES, apply, everything, git, revert_patches, socket_at, write_package

from patchkit.errors import TreeError
from patchkit.transaction.folder import Folder
from patchkit.transaction.ledger import AppliedEdit, AppliedFile, AppliedPatch, Journal, Ledger, Record
from patchkit.transaction.recover import recover
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_of
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree

A, B, C, D = (letter * 64 for letter in "abcd")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path)
    store.path.mkdir()
    store.create()
    return store


def patch(name: str, *files: str) -> AppliedPatch:
    return AppliedPatch(name, f"Toy {name}", (), tuple(AppliedEdit(f"edit {f}", f, "module") for f in files))


def applied(record: Record, name: str, **files: tuple[str | None, str | None]) -> Record:
    changes = {file: AppliedFile(before, after, (name,)) for file, (before, after) in files.items()}
    return record.with_applied(changes, [patch(name, *files)], "set")


def test_first_apply_opens_a_layer() -> None:
    record = applied(Record(), "one", x=(A, B))
    (layer,) = record.layers
    assert layer.files == {"x": AppliedFile(A, B, ("one",))}
    assert layer.patches == (patch("one", "x"),)
    assert layer.digest == "set"
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


def test_file_new_to_the_ledger_joins_the_top_layer() -> None:
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


def test_record_takes_the_place_of_the_one_that_it_continues() -> None:
    first, other = applied(Record(), "one", x=(A, B)), applied(Record(), "one", x=(C, D))
    both = Ledger((first, other))
    after = applied(first, "two", y=(A, B))
    assert both.with_record(first, after) == Ledger((other, after))
    assert both.with_record(first, Record()) == Ledger((other,))


def test_record_of_the_same_bytes_is_kept_once() -> None:
    first = applied(Record(), "one", x=(A, B))
    again = replace(first, layers=(replace(first.layers[0], time="later"),))
    assert Ledger((first,)).with_record(Record(), again) == Ledger((again,))


def test_ledger_is_read_as_it_was_written(store: Store) -> None:
    ledger = Ledger((applied(applied(Record(), "one", x=(A, B), y=(None, C)), "two", x=(C, D), z=(A, None)),))
    store.stage(ledger)
    assert store.read() == Ledger()
    store.publish()
    assert store.read() == ledger


def test_ledger_of_version_0_1_is_read(store: Store) -> None:
    (store.path / "ledger.json").write_text(
        '{"layers": [{"patches": [{"id": "one", "title": "One", "requires": [], "edits": []}],'
        f' "files": {{"x": {{"original": "{A}", "applied": "{B}", "patches": ["one"]}}}},'
        ' "digest": "set", "patchkit": "0.1.0", "time": ""}], "format": 1}'
    )
    (record,) = store.read().records
    assert record.files == {"x": AppliedFile(A, B, ("one",))}


def test_journal_of_version_0_1_is_read(store: Store) -> None:
    (store.path / "journal.json").write_text(
        f'{{"files": {{"x": ["{A}", "{B}"]}}, "ledger": {{"layers": [], "format": 1}}}}'
    )
    assert store.journal() == Journal({"x": (A, B)}, Ledger())


@pytest.mark.parametrize("name", ["ledger.json", "journal.json"])
def test_newer_format_is_refused_and_left_as_it_is(tree: CheckoutTree, name: str) -> None:
    apply(tree, COPIES)
    (tree.package / ".patchkit" / name).write_text('{"format": 3, "later": true}')
    (tree.package / ".patchkit" / "later").write_text("x")
    before = everything(tree.root)
    acts = (apply, revert_patches, recover) if name == "ledger.json" else (recover,)
    for act in acts:
        with pytest.raises(TreeError, match=r"is from a newer patchkit \(format 3; .* upgrade patchkit"):
            act(tree)
    assert everything(tree.root) == before


def test_content_is_kept_once_under_its_digest(store: Store) -> None:
    digest = store.put(b"x = 1\r\n")
    assert store.put(b"x = 1\r\n") == digest == digest_of(b"x = 1\r\n")
    assert store.get(digest) == b"x = 1\r\n"
    assert store.has(digest)
    assert not store.has(A)


def test_damaged_content_is_refused_by_name(store: Store) -> None:
    digest = store.put(b"x = 1\n")
    store.where(digest).write_bytes(b"x = 2\n")
    assert not store.has(digest)
    with pytest.raises(TreeError, match=rf"{digest} is damaged"):
        store.get(digest)


@pytest.mark.parametrize("name", ["ledger.json", "journal.json", "objects"])
def test_a_huge_file_is_refused_without_reading_it(store: Store, name: str) -> None:
    digest = store.put(b"x = 1\n")
    path = store.where(digest) if name == "objects" else store.path / name
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(TreeError, match="cannot be read: File too large"):
        store.get(digest) if name == "objects" else store.journal() if "journal" in name else store.read()


def test_missing_content_of_a_record_is_refused_by_name(store: Store) -> None:
    store.stage(Ledger((applied(Record(), "one", x=(A, B)),)))
    store.publish()
    with pytest.raises(TreeError, match=rf"{A} is missing"):
        store.get(A)


def test_content_whose_record_another_patchkit_removed_is_read_again(store: Store) -> None:
    digest = store.put(b"x = 1\n")
    store.stage(Ledger((applied(Record(), "one", x=(digest, digest)),)))
    store.publish()
    store.stage(Ledger())
    store.publish()
    store.tidy()
    with pytest.raises(TreeError, match=r"was changed while patchkit was running"):
        store.get(digest)


def test_content_that_another_patchkit_is_writing_again_is_read_again(store: Store) -> None:
    ledger = Ledger((applied(Record(), "one", x=(A, B)),))
    store.stage(ledger)
    store.publish()
    store.begin(Journal({"x": (A, B)}, ledger))
    with pytest.raises(TreeError, match=r"was changed while patchkit was running"):
        store.get(A)


def test_content_that_another_patchkit_has_stored_again_is_returned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = digest_of(b"x = 1\n")
    store.stage(Ledger((applied(Record(), "one", x=(digest, digest)),)))
    store.publish()
    read = Store.read

    def put_meanwhile(self: Store) -> Ledger:
        self.put(b"x = 1\n")
        return read(self)

    monkeypatch.setattr(Store, "read", put_meanwhile)
    assert store.get(digest) == b"x = 1\n"


def test_content_that_cannot_be_read_is_refused_by_name(store: Store) -> None:
    digest = store.put(b"x = 1\n")
    store.where(digest).unlink()
    store.where(digest).mkdir()
    assert not store.has(digest)
    with pytest.raises(TreeError, match=rf"{digest} cannot be read: Not a regular file"):
        store.get(digest)


def test_damaged_content_is_replaced_when_put_again(store: Store) -> None:
    digest = store.put(b"x = 1\n")
    store.where(digest).write_bytes(b"")
    assert store.get(store.put(b"x = 1\n")) == b"x = 1\n"


def with_file(name: str) -> str:
    known = f'{{"original": "{A}", "applied": "{B}", "patches": []}}'
    layer = f'{{"patches": [], "files": {{"{name}": {known}}}, "digest": "", "patchkit": "", "time": ""}}'
    return f'{{"layers": [{layer}], "format": 1}}'


DAMAGED = [
    "",
    "{",
    "[]",
    "[" * 100_000,
    '{"layers": {}, "format": 1}',
    '{"layers": [], "format": 2}',
    '{"records": [], "format": "2"}',
    '{"layers": [], "format": 1, "more": 1}',
    with_file("x").replace(A, "no"),
    with_file("../x"),
    with_file("/x"),
    with_file("srt/../../x"),
    with_file("srt//x"),
    with_file("."),
    with_file(""),
    with_file(".patchkit/lock"),
    with_file("x\\u0000"),
    with_file("x\\n"),
    with_file("\\ud800"),
]


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_ledger_is_refused_in_one_sentence(store: Store, text: str) -> None:
    (store.path / "ledger.json").write_text(text)
    with pytest.raises(TreeError, match=r"ledger.json is damaged: .*git.*\.$"):
        store.read()


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"files": {"../x": [null, null]}, "ledger": {}}'])
def test_damaged_journal_is_refused(store: Store, text: str) -> None:
    (store.path / "journal.json").write_text(text)
    with pytest.raises(TreeError, match=r"journal.json is damaged"):
        store.journal()


@pytest.mark.parametrize(
    "make", [os.mkfifo, socket_at, Path.mkdir, lambda path: path.symlink_to("/dev/zero")]
)
@pytest.mark.parametrize("name", ["ledger.json", "journal.json", "lock"])
def test_what_is_no_file_is_refused_without_waiting_for_it(
    short_tmp: Path, make: Callable[[Path], None], name: str
) -> None:
    tree = open_tree(write_package(short_tmp / "sglang"))
    apply(tree, COPIES)
    path = tree.package / ".patchkit" / name
    path.unlink(missing_ok=True)
    make(path)
    for act in (apply, revert_patches, recover):
        with pytest.raises(TreeError):
            act(tree)


def test_journal_names_every_content_that_finishing_takes(store: Store) -> None:
    journal = Journal({"x": (C, D)}, Ledger((applied(Record(), "one", x=(A, B)),)))
    store.begin(journal)
    assert store.pending
    assert store.journal() == journal
    assert journal.contents == {A, B, C, D}
    store.end()
    assert not store.pending
    assert store.journal() is None


def test_contents_without_a_reference_are_dropped(store: Store) -> None:
    before, after, other = store.put(b"before"), store.put(b"after"), store.put(b"other")
    store.stage(Ledger((applied(Record(), "one", x=(before, after)),)))
    store.publish()
    store.tidy()
    assert store.has(before)
    assert store.has(after)
    assert not store.has(other)


def test_folder_goes_with_the_last_layer(store: Store) -> None:
    store.put(b"before")
    store.tidy()
    assert not store.path.exists()


def test_what_a_person_put_into_the_folder_stays(store: Store) -> None:
    store.put(b"before")
    mine = [store.path / "mine.txt", store.path / "objects" / "mine.txt"]
    for path in mine:
        path.write_text("mine")
    store.tidy()
    assert [path.read_text() for path in mine] == ["mine", "mine"]
    assert store.read() == Ledger()


def test_nothing_is_dropped_while_a_write_is_pending(store: Store) -> None:
    digest = store.put(b"before")
    store.begin(Journal({}, Ledger()))
    store.tidy()
    assert store.has(digest)


def test_nothing_is_dropped_where_the_ledger_is_damaged(store: Store) -> None:
    digest = store.put(b"before")
    (store.path / "ledger.json").write_text("{")
    store.tidy()
    assert store.has(digest)


def test_git_status_does_not_show_the_ledger(checkout: CheckoutTree) -> None:
    apply(checkout, COPIES)
    status = git(checkout.root, "status", "--porcelain", "--untracked-files=all")
    assert ".patchkit" not in status


def test_a_folder_that_another_process_takes_away_while_it_is_opened_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".patchkit").mkdir()

    def remove_and_open(folder: Folder, name: str) -> Folder:
        (folder.path / name).rmdir()
        return below(folder, name)

    below = Folder.open_folder
    monkeypatch.setattr(Folder, "open_folder", remove_and_open)
    assert Store(tmp_path).read() == Ledger()


@pytest.mark.parametrize("linked", [".patchkit", ".patchkit/objects"])
@pytest.mark.parametrize("act", [apply, revert_patches, recover])
def test_link_in_place_of_the_folder_is_refused_and_its_target_left_alone(
    tree: CheckoutTree, tmp_path: Path, linked: str, act: Callable[[CheckoutTree], object]
) -> None:
    apply(tree, COPIES)
    outside = tmp_path / "outside"
    (tree.package / linked).rename(outside)
    (tree.package / linked).symlink_to(outside)
    (outside / "mine.txt").write_text("mine")
    (outside / A).write_text("also mine")
    before = everything(tree.root), everything(outside)
    with pytest.raises(TreeError):
        act(tree)
    assert (everything(tree.root), everything(outside)) == before


def test_folder_that_patchkit_did_not_make_is_refused(tree: CheckoutTree) -> None:
    (tree.package / ".patchkit" / "objects").mkdir(parents=True)
    (tree.package / ".patchkit" / "notes.txt").write_text("mine")
    before = everything(tree.root)
    for act in (apply, revert_patches, recover):
        with pytest.raises(TreeError, match="was not made by patchkit"):
            act(tree)
    assert everything(tree.root) == before


def test_folder_of_version_0_1_gets_the_marker(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    apply(tree, COPIES)
    (tree.package / ".patchkit" / "made-by-patchkit").unlink()
    apply(tree)
    assert (tree.package / ".patchkit" / "made-by-patchkit").is_file()
    revert_patches(tree)
    assert everything(tree.root) == before
