"""Two helpers: assert that an edit leaves a program unchanged, or turns it into another."""

from __future__ import annotations

import io
import textwrap
import tokenize
from collections import Counter
from typing import TYPE_CHECKING, Any

import libcst as cst
import msgspec

from patchkit.codemods.examination import Examination, SiteState
from patchkit.codemods.kinds import KINDS
from patchkit.codemods.language.scope import Scope, resolve
from patchkit.tree.modules import text_module

if TYPE_CHECKING:
    from patchkit.codemods.kind import Kind

NOTE = "toy: so that it shows"


def edit(kind: str, **keys: Any) -> Kind:
    """Return a kind of edit with the keys of a patch file, which are checked."""
    made = msgspec.convert({"kind": kind, "why": "toy", "at": "toy.py", **keys}, KINDS[kind])
    made.check()
    return made


def program(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def scope_in(source: str, at: str = "") -> Scope:
    (scope,) = resolve(cst.parse_module(source) if source else text_module(None), at)
    return scope


def examine(kind: Kind, source: str, at: str = "") -> Examination:
    kind.check()
    return kind.examine(scope_in(source, at), NOTE)


def comments(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def rewritten(kind: Kind, source: str, at: str = "") -> str:
    """Make the edit and assert what is true of every edit: it compiles, keeps comments, and is found again."""
    finding = examine(kind, source, at)
    assert finding.state is SiteState.READY, finding.reason
    assert finding.rewrite is not None
    after = finding.rewrite().code
    compile(after, "program.py", "exec")
    assert not comments(source) - comments(after), f"a comment is lost:\n{after}"
    again = examine(kind, after, at)
    assert again.state is SiteState.PRESENT, f"{again.reason} in\n{after}"
    assert finding.rewrite().code == after
    return after


def check_transformed(kind: Kind, before: str, after: str, at: str = "") -> None:
    assert rewritten(kind, program(before), at) == program(after)


def check_noop(kind: Kind, source: str, state: SiteState, at: str = "", reason: str = "") -> None:
    """Assert that the program is not changed, and that the refusal contains ``reason``."""
    finding = examine(kind, program(source), at)
    assert finding.state is state, finding.reason
    assert finding.rewrite is None
    assert reason in finding.reason
    assert bool(finding.reason) is (state is not SiteState.PRESENT or bool(reason))
