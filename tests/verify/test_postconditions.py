"""Which missing edits are failures, on toys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.toys import CRLF, MIRROR, SOURCES, rewriting, toy, write_package

from patchkit.findings.finding import Confidence
from patchkit.plan.build import make_plan
from patchkit.transaction.apply import Transaction
from patchkit.tree.tree import open_tree
from patchkit.verify.checks.postconditions import check
from patchkit.verify.subject import Criteria, Subject

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.verify.check import CheckOutcome

EDITS = (
    rewriting("copies", f"{MIRROR}::Mirror", "copies = 0", "copies = None"),
    rewriting("flag", f"{CRLF}::Backend", "flag = False", "flag = True"),
)
UPSTREAMS = SOURCES | {MIRROR: SOURCES[MIRROR].replace(b"copies = 0", b"copies = None")}


def checked(package: Path, default: str) -> CheckOutcome:
    patch = toy("halved", *EDITS, default=default, upstream_when=f'["{MIRROR}::Mirror"]')
    return check(Subject(open_tree(package), (patch,), Criteria(Confidence.LIKELY)))


@pytest.mark.parametrize(("default", "missing"), [("true", True), ("false", False)])
def test_the_rest_of_a_change_that_upstream_made_in_part_is_missing_if_the_patch_is_a_default(
    tmp_path: Path, default: str, missing: bool
) -> None:
    outcome = checked(write_package(tmp_path / "sglang", UPSTREAMS), default)
    messages = [finding.message for finding in outcome.findings if finding.message.startswith("halved: ")]
    assert ["halved: flag is not in place" in message for message in messages] == [True] * missing


def test_what_is_left_of_an_opt_in_patch_that_was_applied_is_missing(tmp_path: Path) -> None:
    tree = open_tree(write_package(tmp_path / "sglang"))
    patch = toy("halved", *EDITS, default="false", upstream_when=f'["{MIRROR}::Mirror"]')
    Transaction(tree, allow_dirty=True).commit(make_plan(tree, [patch]))
    (tree.package / CRLF).write_bytes(SOURCES[CRLF])
    (finding,) = checked(tree.package, "false").findings
    assert finding.message.startswith("halved: flag is not in place")


def test_a_patch_whose_commit_was_picked_without_one_that_it_requires_fails(tmp_path: Path) -> None:
    tree = open_tree(write_package(tmp_path / "sglang"))
    copies, flag = toy("copies", EDITS[0]), toy("flag", EDITS[1], requires='["copies"]')
    Transaction(tree, allow_dirty=True).commit(make_plan(tree, [copies, flag]))
    subject = (copies, flag), Criteria(Confidence.LIKELY)
    assert not check(Subject(open_tree(tree.package), *subject)).findings
    (tree.package / MIRROR).write_bytes(SOURCES[MIRROR])
    (finding,) = check(Subject(open_tree(tree.package), *subject)).findings
    assert finding.message == "flag is applied without copies, which it requires"
