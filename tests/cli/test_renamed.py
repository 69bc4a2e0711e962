"""The former names of commands still work, and print the new name in one line on stderr."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.toys import MIRROR, add_patch, attribute, contents, edit, everything, git

from patchkit.cli import main
from patchkit.cli.renamed import NOW
from patchkit.transaction.journal import Journal
from patchkit.transaction.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


def typed(*words: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def places(words: str, checkout: CheckoutTree, tmp_path: Path) -> list[str]:
    own = add_patch(tmp_path / "own", "t-own", attribute(MIRROR, "Mirror", "own = 1")).parent
    return words.replace("TREE", str(checkout.root)).replace("OWN", str(own)).split()


@pytest.mark.parametrize("json", ["", " --json"])
@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("list", "show"),
        ("list --patches OWN", "show --patches OWN"),
        ("report TREE --ledger", "status TREE --format ledger"),
        ("recover TREE", "apply --continue TREE"),
        ("rebase-check TREE --onto HEAD", "rebase TREE --onto HEAD"),
        ("rebase-check TREE --onto nowhere", "rebase TREE --onto nowhere"),
        ("check-patch OWN", "test OWN"),
        ("check-patch OWN/nowhere", "test OWN/nowhere"),
        ("recover nowhere", "apply --continue nowhere"),
        ("recover TREE TREE", "apply --continue TREE TREE"),
    ],
)
def test_a_former_name_does_what_the_new_one_does(
    checkout: CheckoutTree, tmp_path: Path, before: str, now: str, json: str
) -> None:
    if before.startswith("report"):
        typed("apply", checkout.root)
    old, new = (typed(*places(words + json, checkout, tmp_path)) for words in (before, now))
    assert (old.exit_code, old.stdout) == (new.exit_code, new.stdout)
    note, *rest = old.stderr.splitlines()
    assert rest == new.stderr.splitlines()
    name = before.partition(" ")[0]
    assert f"`patchkit {name}` is now `patchkit {' '.join(NOW[name])}`" in note


def test_an_interrupted_write_is_recovered_as_before(tree: CheckoutTree) -> None:
    store = Store(tree.package)
    store.path.mkdir()
    store.create()
    store.begin(Journal({}))
    done = typed("recover", tree.root, "--json")
    assert (done.exit_code, json.loads(done.stdout)["action"]) == (0, "finished")
    assert done.stderr.count("\n") == 1


def test_check_patch_looks_for_names_in_a_tree_and_applies_nothing(
    tree: CheckoutTree, tmp_path: Path
) -> None:
    head = f'[edit.guard]\nkind = "insert-first"\nwhy = "toy"\nat = "{MIRROR}::Mirror.host"\n'
    own = add_patch(tmp_path / "own", "t-own", f'{head}code = "check(self)"\n').parent
    done = typed("check-patch", own, "--on", tree.root, "--json")
    (found,) = json.loads(done.stdout)["patches"]
    assert (done.exit_code, found["faults"]) == (1, [f"{MIRROR}:6: check is not defined there"])


def test_a_report_still_has_to_be_named(tree: CheckoutTree) -> None:
    done = typed("report", tree.root)
    assert done.exit_code == 2
    assert done.stderr.endswith("\nhelp: patchkit status --format ledger\n")


@pytest.mark.parametrize("name", NOW)
def test_a_former_name_is_in_no_help_and_has_help(name: str) -> None:
    assert name not in {line.split()[0] for line in typed("--help").stdout.splitlines() if line.strip()}
    done = typed(name, "--help")
    assert (done.exit_code, done.stdout[:6]) == (0, "Usage:")


def test_a_merge_by_its_former_name_moves_the_branch(checkout: CheckoutTree) -> None:
    git(checkout.root, "config", "user.name", "A Maintainer")
    git(checkout.root, "config", "user.email", "maintainer@example.com")
    git(checkout.root, "switch", "-qc", "newer")
    edit(checkout, MIRROR, b"depth = 1", b"depth = 2")
    git(checkout.root, "commit", "-qam", "Deeper")
    git(checkout.root, "switch", "-q", "-")
    before = everything(checkout.root)
    done = typed("rebase-check", checkout.root, "--onto", "newer")
    assert everything(checkout.root) == before
    assert "patchkit rebase" in done.stdout
    assert typed("rebase-check", checkout.root, "--onto", "newer", "--merge").exit_code == 0
    assert b"depth = 2" in (contents(checkout)[MIRROR] or b"")
