from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.toys import (
    COPIES,
    CRLF,
    DEPTH,
    MIRROR,
    apply,
    edit,
    everything,
    git,
    revert_patches,
    rewriting,
    socket_at,
    toy,
    write_package,
)

from patchkit.errors import TreeError
from patchkit.transaction.folder import Folder
from patchkit.transaction.journal import Journal
from patchkit.transaction.recover import recover
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_of
from patchkit.tree.objects import GitRepository
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.patchset.patch import Patch
    from patchkit.tree.tree import CheckoutTree

A, B, C, D = (letter * 40 for letter in "abcd")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path)
    store.path.mkdir()
    store.create()
    return store


def test_newer_journal_is_refused_and_left_as_it_is(tree: CheckoutTree) -> None:
    apply(tree, COPIES)
    (tree.package / ".patchkit" / "journal.json").write_text('{"format": 2, "later": true}')
    (tree.package / ".patchkit" / "later").write_text("x")
    before = everything(tree.root)
    with pytest.raises(TreeError, match=r"is from a newer patchkit \(format 2; .* upgrade patchkit"):
        recover(tree)
    assert everything(tree.root) == before


def test_content_that_git_has_is_not_lost_with_the_folder(checkout: CheckoutTree) -> None:
    text = (checkout.package / MIRROR).read_bytes()
    assert not Store(checkout.package).has(digest_of(text))
    assert Store(checkout.package).get(digest_of(text)) == text


def test_contents_that_are_expected_are_read_by_one_process(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {digest_of(text): text for text in map(checkout.read, (MIRROR, CRLF)) if text is not None}
    opened: list[Path] = []

    class Counted(GitRepository):
        def __init__(self, path: Path) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr("patchkit.transaction.store.GitRepository", Counted)
    store = Store(checkout.package, frozenset({*texts, A}))
    assert {digest: store.get(digest) for digest in texts} == texts
    assert opened == [checkout.package]
    with pytest.raises(TreeError, match="is missing, and git does not have it"):
        store.get(A)


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


@pytest.mark.parametrize("name", ["journal.json", "objects"])
def test_a_huge_file_is_refused_without_reading_it(store: Store, name: str) -> None:
    digest = store.put(b"x = 1\n")
    path = store.where(digest) if name == "objects" else store.path / name
    path.touch()
    os.truncate(path, 2**40)
    with pytest.raises(TreeError, match="cannot be read: File too large"):
        store.get(digest) if name == "objects" else store.journal()


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


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"format": 1, "files": {"/x": [null, null]}}', '{"files": {}}']
)
def test_damaged_journal_is_refused(store: Store, text: str) -> None:
    (store.path / "journal.json").write_text(text)
    with pytest.raises(TreeError, match=r"journal.json is damaged"):
        store.journal()


@pytest.mark.parametrize(
    "make", [os.mkfifo, socket_at, Path.mkdir, lambda path: path.symlink_to("/dev/zero")]
)
@pytest.mark.parametrize("name", ["patchkit.lock/copies.toml", "journal.json", "lock"])
def test_what_is_no_file_is_refused_without_waiting_for_it(
    tmp_path: Path, make: Callable[[Path], None], name: str
) -> None:
    tree = open_tree(write_package(tmp_path / "sglang"))
    apply(tree, COPIES)
    path = tree.package / ".patchkit" / name
    path.unlink(missing_ok=True)
    make(path)
    for act in (apply, revert_patches, recover):
        with pytest.raises(TreeError):
            act(tree)


def test_journal_names_every_content_that_finishing_takes(store: Store) -> None:
    journal = Journal({"x": (C, D)}, (A, B))
    store.begin(journal)
    assert store.pending
    assert store.journal() == journal
    assert journal.contents == {A, B, C, D}
    store.end()
    assert not store.pending
    assert store.journal() is None


def test_contents_without_a_reference_are_dropped(store: Store) -> None:
    before, after, other = store.put(b"before"), store.put(b"after"), store.put(b"other")
    store.tidy(frozenset({before, after}))
    assert store.has(before)
    assert store.has(after)
    assert not store.has(other)


def test_folder_goes_with_the_last_content(store: Store) -> None:
    store.put(b"before")
    store.tidy(frozenset())
    assert not store.path.exists()


def test_what_a_person_put_into_the_folder_stays(store: Store) -> None:
    store.put(b"before")
    mine = [store.path / "mine.txt", store.path / "objects" / "mine.txt"]
    for path in mine:
        path.write_text("mine")
    store.tidy(frozenset())
    assert [path.read_text() for path in mine] == ["mine", "mine"]


def test_nothing_is_dropped_while_a_write_is_pending(store: Store) -> None:
    digest = store.put(b"before")
    store.begin(Journal({}))
    store.tidy(frozenset())
    assert store.has(digest)


def test_git_status_does_not_show_the_folder(checkout: CheckoutTree) -> None:
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
    assert Store(tmp_path).journal() is None


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


@pytest.mark.parametrize("name", ["srt/caf\udce9.py", "srt/a\nb.py", "srt/a\x1b[2Jb.py", "srt/a\x7fb.py"])
def test_name_that_no_record_can_contain_is_refused(tree: CheckoutTree, name: str) -> None:
    (tree.package / name).write_bytes(b"class Odd:\n    x = 1\n")
    before = everything(tree.root)
    with pytest.raises(TreeError, match="is not a valid file name"):
        apply(tree, toy("odd", rewriting("x", "srt/x.py::Odd", "x = 1", "x = 2")))
    assert everything(tree.root) == before


@pytest.mark.parametrize("patch", [COPIES, DEPTH])
def test_odd_object_is_a_sentence(tree: CheckoutTree, patch: Patch) -> None:
    apply(tree, patch)
    edit(tree, MIRROR, b"class", b"# mine\nclass")
    for path in (tree.package / ".patchkit" / "objects").iterdir():
        path.unlink()
        path.symlink_to(tree.package / CRLF)
    with pytest.raises(TreeError):
        revert_patches(tree)
