"""Every kind of edit behaves as its examples show."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.programs import check_noop, check_transformed, edit, examine, program

from patchkit.codemods.examination import SiteState
from patchkit.codemods.kinds import KINDS

if TYPE_CHECKING:
    from patchkit.codemods.kind import Example, Kind


def named(group: str) -> list[object]:
    return [
        pytest.param(kind, example, id=f"{name}: {example.shows}")
        for name, kind in KINDS.items()
        for example in getattr(kind, group)
    ]


def edit_of(kind: type[Kind], example: Example) -> Kind:
    toml = textwrap.dedent(example.edit)
    keys = msgspec.toml.decode(toml)
    assert isinstance(keys, dict)
    return edit(str(kind.__struct_config__.tag), **keys)


def ended(text: str) -> str:
    return program(text).rstrip(" \n") + "\n" if text else ""


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_kind_shows_what_it_does_what_it_leaves_and_what_it_refuses(kind: type[Kind]) -> None:
    assert kind.VALID
    assert kind.NO_OP
    assert kind.INVALID


@pytest.mark.parametrize(("kind", "example"), named("VALID"))
def test_program_is_changed(kind: type[Kind], example: Example) -> None:
    check_transformed(edit_of(kind, example), ended(example.before), ended(example.after), example.scope)


@pytest.mark.parametrize(("kind", "example"), named("NO_OP"))
def test_program_that_has_the_change_stays(kind: type[Kind], example: Example) -> None:
    check_noop(
        edit_of(kind, example), ended(example.before), SiteState.PRESENT, example.scope, example.refusal
    )


@pytest.mark.parametrize(("kind", "example"), named("INVALID"))
def test_program_or_edit_is_refused(kind: type[Kind], example: Example) -> None:
    assert example.refusal
    if not example.before:
        with pytest.raises(ValueError, match=re.escape(example.refusal)):
            edit_of(kind, example)
        return
    examination = examine(edit_of(kind, example), ended(example.before), example.scope)
    assert examination.state in {SiteState.ABSENT, SiteState.AMBIGUOUS}
    assert examination.rewrite is None
    assert example.refusal in examination.reason
