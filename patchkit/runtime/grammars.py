"""Find out whether a verify can walk drafts through the grammars of a server's backend."""

from __future__ import annotations

from typing import Any


def lacks_rollback(grammar_backend: object, spec_algorithm: Any) -> bool:
    """Return whether a server speculates and its grammars, those of outlines, cannot take back a draft token.

    ``grammar_backend`` may be wrapped in the one for reasoning. Source: issue 24413.
    """
    backend = getattr(grammar_backend, "grammar_backend", grammar_backend)
    owners = {owner.__name__ for owner in type(backend).__mro__}
    return "OutlinesGrammarBackend" in owners and not spec_algorithm.is_none()
