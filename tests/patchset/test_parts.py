"""The parts of a patch in its file, their names, and what became a part."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.toys import add_patch, attribute

from patchkit.errors import UsageError
from patchkit.patchset import load
from patchkit.plan.status import name_of
from patchkit.runtime.switches import FORMER, SWITCHES

if TYPE_CHECKING:
    from pathlib import Path

FLAG = attribute("srt/shelf.py", "Shelf", "wide = 1")
LOCK = attribute("srt/shelf.py", "Shelf", "locked = 1").replace(
    'why = "toy"', 'why = "locked"\npart = "lock"'
)
PART = '[part.lock]\ntitle = "A lock"\nwhy = "Thieves."\nformerly = "old-lock"'


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A patch with a part that was a patch."""
    folder = tmp_path / "built-in"
    add_patch(folder, "desk", PART, FLAG, LOCK)
    monkeypatch.setattr(load, "BUILT_IN", folder)
    return folder


def refusal(*texts: str, folder: Path) -> str:
    path = add_patch(folder, "x-own", *texts)
    with pytest.raises(UsageError) as caught:
        load.patches([folder])
    return str(caught.value).removeprefix(f"{path}: ")


def test_an_edit_is_of_the_part_that_it_names(built_in: Path) -> None:
    desk = load.patches().get("desk")
    assert [part.name for part in desk.all_parts] == ["", "lock"]
    assert [edit.name for edit in desk.edits_of("")] == ["wide"]
    assert [edit.name for edit in desk.edits_of("lock")] == ["locked"]
    assert desk.part_of("locked").title == "A lock"
    assert desk.part_of("wide").title == desk.title


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ((FLAG, LOCK), "key `edit.locked.part`: `lock` is not one of [part] (none)"),
        ((PART, FLAG), "key `part.lock`: no edit has `part = 'lock'`"),
        (
            (PART, FLAG, LOCK.replace('why = "locked"', 'why = "toy"')),
            "key `edit.locked.why`: 'toy' is that of an edit of another part, and a comment in the code would not tell",
        ),
        ((f"{PART}\nupstream = 'here'", FLAG, LOCK), "key `part.lock.upstream`: 'here' is not an http"),
        (
            (f"{PART}\nany_shape_of = ['tall']", FLAG, LOCK),
            "key `part.lock.any_shape_of`: `tall` is not one of",
        ),
        (
            (PART, FLAG, f"{LOCK}\nshape = 'tall'", "[shapes]\ntall = ['srt/shelf.py']"),
            "key `edit.locked.shape`: `tall` is not one of [part.lock.shapes] (none)",
        ),
        ((PART.replace("title", "name"), FLAG, LOCK), "part: unknown key `name`"),
    ],
)
def test_what_a_part_lacks_is_refused(
    built_in: Path, tmp_path: Path, texts: tuple[str, ...], wanted: str
) -> None:
    assert wanted in refusal(*texts, folder=tmp_path / "own")


def test_a_former_id_is_refused_with_what_to_write(built_in: Path, tmp_path: Path) -> None:
    patches = load.patches()
    wanted = (
        "old-lock is the part desk/lock now: name desk; `left_out` in a fork's configuration takes desk/lock."
    )
    with pytest.raises(UsageError, match=f"^{re.escape(wanted)}$"):
        patches.select(["old-lock"])
    with pytest.raises(UsageError, match=r"^desk/lock is a part of desk: name desk; "):
        patches.select(["desk/lock"])
    add_patch(tmp_path / "own", "x-own", FLAG, requires='["old-lock"]')
    with pytest.raises(
        UsageError, match=r"key `requires`: old-lock is the part desk/lock now: write desk\.$"
    ):
        load.patches([tmp_path / "own"])
    (tmp_path / "own" / "x-own" / "patch.toml").write_text(
        'schema = 1\nextends = "old-lock"\nwhy = "more"\n[edit.locked]\nat = "srt/desk.py::Shelf"\n'
    )
    with pytest.raises(UsageError, match=r"key `extends`: old-lock is the part desk/lock now: write desk\.$"):
        load.patches([tmp_path / "own"])


def test_an_edit_of_a_part_can_be_extended(built_in: Path, tmp_path: Path) -> None:
    path = tmp_path / "own" / "x-own" / "patch.toml"
    path.parent.mkdir(parents=True)
    path.write_text('schema = 1\nextends = "desk"\nwhy = "more"\n[edit.locked]\nat = "srt/desk.py::Shelf"\n')
    (edit,) = load.patches([tmp_path / "own"]).get("desk").edits_of("lock")
    assert edit.files == ("srt/shelf.py", "srt/desk.py")


def test_every_part_of_a_built_in_patch_has_a_switch_or_a_reason_why_not() -> None:
    patches = list(load.patches())
    named = {name_of(patch, part): part for patch in patches for part in patch.all_parts}
    assert {name for name, part in named.items() if not part.no_switch} == SWITCHES
    assert {
        part.formerly: name for name, part in named.items() if name in SWITCHES and part.formerly
    } == FORMER


def test_no_id_is_that_of_a_patch_and_a_former_one() -> None:
    patches = load.patches()
    assert patches.former.keys().isdisjoint(patches.ids)
    assert {"26738", "28500", "28854", "30947", "pk-metrics", "pk-mirror-guards", "pk-overlap-hook"} == set(
        patches.former
    )
