"""The keys of edits of statements: one or several ``find`` with one ``code``, or pairs of both."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import msgspec

from patchkit.codemods.kind import Kind, several
from patchkit.codemods.language import texts
from patchkit.codemods.language.statements import CompiledVariant, Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known form of a site, or several, and their code."""

    find: str | tuple[str, ...]
    code: str


class TargetVariant(Variant, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known form of a site; ``target`` names the expression of ``find`` that ``code`` replaces."""

    target: str = ""


class StatementKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of every edit that searches for statements.

    ``find`` is the form of a site, or a list of forms with one ``code``; ``variants`` are further forms, each with
    its own ``code``. ``already`` are patterns of other forms of the change. ``context`` are patterns that must match
    elsewhere in the scope; ``code`` can use the names that they bind. ``clear_of`` are patterns that must not match
    the statements that a ``$$name`` matches.
    """

    find: str | tuple[str, ...] = ()
    code: str = ""
    already: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    clear_of: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()

    place: ClassVar[str] = "replace"
    """Where the code goes: before or after what is matched, or in its place."""

    @property
    def pairs(self) -> Sequence[Variant]:
        """Every ``find`` with its ``code``, the edit's own first."""
        own = TargetVariant(find=self.find, code=self.code, target=getattr(self, "target", ""))
        return (own, *self.variants) if self.find or not self.variants else self.variants

    @property
    def written(self) -> tuple[str, ...]:
        """The code of each variant."""
        return tuple(pair.code for pair in self.pairs)

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """Each ``find`` with its code."""
        return tuple((find, pair.code) for pair in self.pairs for find in several(pair.find) or ("",))

    def check(self) -> None:
        """Raise ValueError that names the malformed key."""
        self._statements()

    def examine(self, scope: Scope, note: str) -> Examination:
        """Find the sites in ``scope``."""
        return self._statements().examine(scope, note)

    @cache  # noqa: B019  # As many as there are patches.
    def _statements(self) -> Statements:
        context = texts.patterns("context", *self.context)
        clear_of = texts.patterns("clear_of", *self.clear_of)
        variants, signs = [], []
        for pair in self.pairs:
            target = getattr(pair, "target", "")
            for text in several(pair.find) or ("",):
                find = texts.site(text)
                texts.patterns("code", pair.code)
                if target and f"${target}" not in text:
                    raise ValueError(f"key `target`: `find` has no ${target} to replace")
                if target and any(re.search(rf"\${target}\b", line) for line in self.context):
                    raise ValueError(
                        f"key `target`: `context` binds ${target}, so `find` has no place of its own for it; use "
                        "another name there"
                    )
                if self.place == "replace" and not target and "$$found" not in pair.code and find.passes_over:
                    raise ValueError(
                        "key `find`: `code` would delete the code that `...` matches; use `$$name` or `$name` for it"
                    )
                wildcard = [] if target else ["$$found"]
                texts.require_bound("code", pair.code, text, *self.context, *wildcard)
                # Without a run of statements nothing is in between.
                clear = clear_of if "$$" in text else ()
                if clear:
                    texts.require_bound(
                        "clear_of", "\n".join(self.clear_of), text, *self.context, pattern=True
                    )
                variants.append(CompiledVariant(find, pair.code, target, clear))
                signs.append(texts.in_place(text, pair.code))
        return Statements(
            tuple(variants),
            self.place,
            texts.signs("already", *self.already),
            context,
            getattr(self, "every", False),
            texts.signs("code", *signs),
        )
