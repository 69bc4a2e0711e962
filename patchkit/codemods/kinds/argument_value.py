"""``argument-value``: a call passes another value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.codemods.kind import Kind
from patchkit.codemods.language import texts

if TYPE_CHECKING:
    from patchkit.codemods.examination import Codemod


class ArgumentValue(Kind, frozen=True, kw_only=True, tag="argument-value", forbid_unknown_fields=True):
    """Pass another value for a keyword argument of the call that ``find`` matches."""

    find: str
    argument: str
    code: str
    context: tuple[str, ...] = ()

    def codemod(self) -> Codemod:
        """Build the codemod."""
        from patchkit.codemods.kinds import calls

        (find,) = texts.calls("find", self.find)
        (code,) = texts.patterns("code", self.code)
        if not code.is_expression:
            raise ValueError(f"key `code`: not one expression: {self.code.strip()!r}")
        texts.require_bound("code", self.code, self.find, *self.context, "$value")
        return calls.ArgumentValue(find, self.argument, self.code, texts.patterns("context", *self.context))
