"""A tree that an earlier version of patchkit patched is reverted, verified and brought up to date by this one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.repositories import committing
from support.toys import MIRROR, add_patch, attribute, contents, git

from patchkit import __version__, api
from patchkit.patchset.load import patches as load
from patchkit.plan import vendor

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

EARLIER = "0.1.0"


@pytest.fixture
def patched(checkout: CheckoutTree, patch_folder: Path, monkeypatch: pytest.MonkeyPatch) -> CheckoutTree:
    """A checkout with a committed patch and the vendored runtime, in which each file names the earlier version."""
    fork = committing(checkout)
    add_patch(patch_folder, "t-runtime", attribute(MIRROR, "Mirror", "mine = patchkit_api.mine()"))
    path = patch_folder / "t-runtime" / "patch.toml"
    path.write_text(
        path.read_text().replace(
            'why = "toy"', 'why = "toy"\nimports = ["from patchkit.runtime import api_1 as patchkit_api"]'
        )
    )
    git(fork.root, "tag", "before")
    with monkeypatch.context() as then:
        then.setattr(vendor, "_HEADER", vendor._HEADER.replace(__version__, EARLIER))
        vendor.runtime_files.cache_clear()
        api.apply(fork, load(), ("t-runtime",), runtime="vendored")
    vendor.runtime_files.cache_clear()
    (record,) = (fork.root / "patchkit.lock").iterdir()
    text = record.read_text()
    record.write_text(text.replace(f'patchkit = "{__version__}"', f'patchkit = "{EARLIER}"'))
    assert EARLIER in record.read_text()
    assert EARLIER in (fork.package / vendor.FOLDER / "runtime" / "api_1.py").read_text()
    git(fork.root, "add", ".")
    git(fork.root, "commit", "-qm", "Patched by an earlier version")
    return fork


def states(fork: CheckoutTree) -> dict[str, str]:
    return {status.patch.id: status.state.value for status in api.status(fork, load())}


def test_what_an_earlier_version_applied_is_reverted(patched: CheckoutTree) -> None:
    assert states(patched)["t-runtime"] == "applied"
    assert api.revert(patched, load()).patches == ("t-runtime",)
    assert git(patched.root, "diff", "before", "--", ".") == ""


def test_what_an_earlier_version_applied_is_reverted_without_its_record(patched: CheckoutTree) -> None:
    shutil.rmtree(patched.root / "patchkit.lock")
    git(patched.root, "commit", "-qam", "Without a record")
    api.revert(patched, load())
    assert git(patched.root, "diff", "before", "--", str(patched.package / MIRROR)) == ""


def test_what_an_earlier_version_applied_is_brought_up_to_date(
    patched: CheckoutTree, patch_folder: Path
) -> None:
    path = patch_folder / "t-runtime" / "patch.toml"
    path.write_text(path.read_text().replace("mine()", "theirs()"))
    api.apply(patched, load(), ("t-runtime",), runtime="vendored")
    assert states(patched)["t-runtime"] == "applied"
    written = (contents(patched)[MIRROR] or b"").decode()
    assert "theirs()" in written
    assert "mine()" not in written.replace("theirs()", "")
    git(patched.root, "commit", "-qam", "Up to date")
    api.revert(patched, load())
    assert git(patched.root, "diff", "before", "--", str(patched.package / MIRROR)) == ""
