"""Of patch code that a person edited, each command shows the difference, and what accepts it or takes it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.repositories import clone, committing
from support.toys import MIRROR, add_patch, edit, rewriting

from patchkit.cli import main
from patchkit.findings.printable import excerpt
from patchkit.transaction.edited import difference

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

DIFFERENCE = """\
@@ -6,3 +6,3 @@
         first = repr(self.copies)
-        second = first + 1
+        second = first + 2
         return first, second
"""


def run(*arguments: object, code: int) -> str:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.fixture(params=["uncommitted", "committed", "clone"])
def edited(
    request: pytest.FixtureRequest, checkout: CheckoutTree, patch_folder: Path, tmp_path: Path
) -> CheckoutTree:
    """A patched tree in which a person edited one line of a patch, and lines of their own."""
    fork = committing(checkout)
    call = "first = repr($value)\nsecond = first + 1\nreturn first, second"
    add_patch(
        patch_folder,
        "t-call",
        rewriting(
            "call", f"{MIRROR}::Mirror.host", "return self.$value", call.replace("$value", "self.$value")
        ),
        rewriting("depth", MIRROR, "depth = 1", "depth = 2\nheight = 3"),
    )
    run("apply", fork.root, "t-call", *(() if request.param == "uncommitted" else ("--commit",)), code=0)
    tree = clone(fork, tmp_path) if request.param == "clone" else fork
    edit(tree, MIRROR, b"second = first + 1", b"second = first + 2")
    edit(tree, MIRROR, b"copies = 0\n", b"copies = 0\n    mine = 1\n")
    return tree


def test_status_shows_the_difference_and_what_to_type(edited: CheckoutTree) -> None:
    text = run("status", edited.root, code=0)
    assert all(f"  {line}\n" in text for line in DIFFERENCE.splitlines()[1:])
    assert "mine" not in text
    assert f"patchkit resolve {edited.root} t-call call --accept" in text
    assert "git restore -p" in text
    (patch,) = (
        p for p in json.loads(run("status", edited.root, "--json", code=0))["patches"] if p["id"] == "t-call"
    )
    shown = {each.get("difference", "") for each in patch["edits"]}
    assert shown == {"", DIFFERENCE.replace("-6,3 +6,3", "-6,3 +7,3")}


def test_verify_shows_the_difference_and_what_to_type(edited: CheckoutTree) -> None:
    text = run("verify", edited.root, code=1)
    assert all(f"          {line}\n" in text for line in DIFFERENCE.splitlines()[1:])
    assert "t-call call --accept" in text
    checks = json.loads(run("verify", edited.root, "--json", code=1))["checks"]
    (finding,) = next(check["findings"] for check in checks if check["check"] == "postconditions")
    assert finding["expression"].endswith(DIFFERENCE.partition("\n")[2])


def test_revert_shows_the_difference(edited: CheckoutTree) -> None:
    before = edited.read(MIRROR)
    text = run("revert", edited.root, code=3)
    assert "code that patchkit wrote was edited after apply" in text
    assert all(f"  {line}\n" in text for line in DIFFERENCE.splitlines()[1:])
    assert "mine" not in text
    assert "git restore -p" in text
    assert edited.read(MIRROR) == before


def test_what_they_say_to_type_helps(edited: CheckoutTree) -> None:
    run("resolve", edited.root, "t-call", "call", "--accept", code=0)
    assert "accepted by hand: call" in run("status", edited.root, "-v", code=0)
    assert "is not in place" not in run("verify", edited.root, code=0)
    note = b"        # patchkit t-call: accepted by hand: call\n"
    assert "second = first + 2\n" in run("revert", edited.root, code=3)
    edit(edited, MIRROR, note, b"")
    edit(edited, MIRROR, b"second = first + 2", b"second = first + 1")
    run("revert", edited.root, code=0)
    assert b"mine = 1" in (edited.read(MIRROR) or b"")
    assert b"first" not in (edited.read(MIRROR) or b"")


def test_only_lines_of_patches_count() -> None:
    original, written = b"a\nb\nc\nd\ne\nf\ng\n", b"a\nb\nnew\nnewer\nc\nd\ne\nf\ng\n"
    assert difference(original, written, written.replace(b"f\n", b"mine\n")) == ""
    assert difference(original, written, written.replace(b"\n", b"\r\n")) == ""
    assert "+between" in difference(original, written, written.replace(b"newer", b"between\nnewer"))
    assert "-newer" in difference(original, written, written.replace(b"newer\n", b""))
    assert difference(original, written, written.replace(b"new\n", b"mine\nnew\n")) == ""
    assert difference(None, written, b"") == difference(original, written, None) == ""


def test_excerpt_fits_a_terminal() -> None:
    lines = excerpt("".join(f"+{'x' * 100}\x1b{number}\n" for number in range(30)))
    assert all(len(line) <= 80 and "\x1b" not in line for line in lines)
    assert lines[-1].endswith("20 more lines (--json has all)")
