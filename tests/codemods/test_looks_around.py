"""What an edit is told of its scope does not depend on other definitions, unless its kind says that it looks there."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import libcst as cst
import msgspec
import pytest

from patchkit.codemods.kinds import KINDS
from patchkit.codemods.language.scope import resolve

if TYPE_CHECKING:
    from patchkit.codemods.examination import Examination
    from patchkit.codemods.kind import Example, Kind

OTHERS = (
    "\n\ndef of_the_fork(value=1):\n    other = value\n    return other\n\n\nclass OfTheFork:\n    rows = 1\n"
)


def scoped() -> list[tuple[type[Kind], Example]]:
    kinds = [kind for kind in KINDS.values() if not kind.looks_around]
    examples = [(kind, each) for kind in kinds for each in (*kind.VALID, *kind.NO_OP, *kind.INVALID)]
    return [(kind, each) for kind, each in examples if each.before and each.scope]


def told(kind: type[Kind], example: Example, code: str) -> tuple[object, str]:
    keys = msgspec.toml.decode(textwrap.dedent(example.edit))
    edit = msgspec.convert({"kind": kind.__struct_config__.tag, "why": "toy", **keys}, kind)
    (scope,) = resolve(cst.parse_module(code), example.scope)
    found: Examination = edit.codemod().examine(scope, "toy: so that it shows")
    return found.standing, found.reason


@pytest.mark.parametrize(("kind", "example"), scoped(), ids=lambda each: getattr(each, "shows", None))
def test_other_definitions_are_not_looked_at(kind: type[Kind], example: Example) -> None:
    code = f"{textwrap.dedent(example.before).strip()}\n"
    assert told(kind, example, code + OTHERS) == told(kind, example, code)
