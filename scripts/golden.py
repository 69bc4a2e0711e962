"""Keep what patchkit does to every release in one digest a case, so that a change of the tool shows where it differs.

usage: python scripts/golden.py [--check] [RELEASE...]

Writes ``tests/golden.json``, or with ``--check`` names each case whose digest differs and exits with 1. Cases of a
release are the patches' states before and after each act, and the bytes of the tree after an apply of the default
patches, of the opt-in patches that fit as well, after the revert of each one alone, and of all. A case of a revert is
named by the set of patches that are left.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY)]

from support.constructed import RELEASES  # noqa: E402
from support.releases import unpack  # noqa: E402

from patchkit import api  # noqa: E402
from patchkit.errors import PatchkitError  # noqa: E402
from patchkit.patchset import load  # noqa: E402
from patchkit.plan.status import State  # noqa: E402
from patchkit.tree.tree import open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

CORPUS = REPOSITORY / "tests" / "golden.json"
_OWN = ".patchkit"
_LENGTH = 16


def digest(parts: Iterable[bytes]) -> str:
    """Return the start of the SHA-256 of parts, each with its length before it."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d\n" % len(part))
        whole.update(part)
    return whole.hexdigest()[:_LENGTH]


def content(tree: CheckoutTree) -> str:
    """Return the digest of the names and bytes of a tree's files, without those of patchkit's own folder."""
    files = sorted(path for path in tree.package.rglob("*.py") if _OWN not in path.parts)
    return digest(
        part
        for path in files
        for part in (path.relative_to(tree.package).as_posix().encode(), path.read_bytes())
    )


def states(tree: CheckoutTree, patches: PatchSet) -> dict[str, str]:
    """Return each patch's state."""
    return {status.patch.id: status.state.value for status in api.status(tree, patches)}


def fitting(tree: CheckoutTree, patches: PatchSet) -> list[str]:
    """Return the opt-in patches that are pending and do not conflict with the tree as it is now."""
    found = api.status(tree, patches)
    return [each.patch.id for each in found if each.patch.opt_in and each.state is State.PENDING]


def reverted(tree: CheckoutTree, patches: PatchSet, name: str) -> str:
    """Return the content of a copy without one patch, or the kind of error; the key names what is left."""
    with tempfile.TemporaryDirectory() as folder:
        copy = open_tree(shutil.copytree(tree.root, Path(folder) / "tree", symlinks=True))
        try:
            api.revert(copy, patches, [name])
        except PatchkitError as error:
            return type(error).__name__
        return content(copy)


def cases(release: str) -> dict[str, str]:
    """Return the digest of each case of a release."""
    patches = load.patches()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "release"
        unpack(release, place)
        tree = open_tree(place)
        original = content(tree)
        found = {"original": original, "states": digest([json.dumps(states(tree, patches)).encode()])}
        applied = frozenset[str]()
        for which in ("default", "opt-in"):
            names = fitting(tree, patches) if which == "opt-in" else []
            if which == "opt-in" and not names:
                continue
            api.apply(tree, patches, names, keep_going=True)
            now = states(tree, patches)
            applied = frozenset(name for name, state in now.items() if state == State.APPLIED)
            found[f"{which} applied"] = content(tree)
            found[f"{which} states"] = digest([json.dumps(now).encode()])
            for name in sorted(applied):
                left = digest([" ".join(sorted(applied - {name})).encode()])
                found[f"{which} left {left}"] = reverted(tree, patches, name)
        api.revert(tree, patches)
        found["all reverted"] = "original" if content(tree) == original else content(tree)
        return found


def differences(old: dict[str, dict[str, str]], new: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for each case of ``new`` that is another one, is missing, or was not there."""
    lines = []
    for release, found in new.items():
        known = old.get(release, {})
        for case in sorted({*known, *found}):
            if known.get(case) != found.get(case):
                lines.append(f"{release}: {case}: {known.get(case)} is now {found.get(case)}")
    return lines


@click.command()
@click.argument("releases", nargs=-1)
@click.option("--check", is_flag=True, help="Write nothing, and exit with 1 if a digest differs.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
def main(releases: Sequence[str], check: bool, jobs: int) -> None:
    """Compare what patchkit does to RELEASES (default: all) with the corpus, or write it anew."""
    names = list(releases or RELEASES)
    with ProcessPoolExecutor(jobs) as pool:
        found = dict(zip(names, pool.map(cases, names), strict=True))
    known = json.loads(CORPUS.read_bytes()) if CORPUS.exists() else {}
    if check:
        lines = differences(known, found)
        for line in lines:
            click.echo(line)
        click.echo(f"{sum(map(len, found.values()))} cases, {len(lines)} differ.")
        sys.exit(bool(lines))
    CORPUS.write_text(json.dumps(known | found, indent=1, sort_keys=True) + "\n")
    click.echo(f"Wrote {sum(map(len, found.values()))} cases to {CORPUS}.")


if __name__ == "__main__":
    main()
