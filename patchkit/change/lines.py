"""Merge three versions of a text that is not Python, line by line."""

from __future__ import annotations

import difflib
import io

from patchkit.change.edits import Edit, Outcome
from patchkit.change.pairing import equal_positions


def merged(base: str, theirs: str, ours: str) -> tuple[str, list[Edit]]:
    """Return ``ours`` with the changes from ``base`` to ``theirs``, and the outcome of each change."""
    # Iterating a stream splits at line feeds only, as git does.
    b, t, o = (list(io.StringIO(text)) for text in (base, theirs, ours))
    to_ours = equal_positions(b, o)
    found: list[Edit] = []
    changes: list[tuple[int, int, list[str]]] = []
    for kind, b1, b2, t1, t2 in difflib.SequenceMatcher(None, b, t, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        site, base_text, wanted = f"line {b1 + 1}", "".join(b[b1:b2]), "".join(t[t1:t2])
        start = 0 if b1 == 0 else to_ours.get(b1 - 1, -1) + 1 if b1 - 1 in to_ours else None
        end = len(o) if b2 == len(b) else to_ours.get(b2)
        if start is None and end is not None and o[max(0, end - (b2 - b1)) : end] == b[b1:b2]:
            start = end - (b2 - b1)
        if end is None and start is not None and o[start : start + b2 - b1] == b[b1:b2]:
            end = start + b2 - b1
        if start is None or end is None or end < start:
            reason = "the lines around it are not in this tree"
            found.append(Edit(site, Outcome.CONFLICT, reason, base_text, "", wanted))
        elif o[start:end] == t[t1:t2]:
            found.append(Edit(site, Outcome.ALREADY))
        elif o[start:end] == b[b1:b2]:
            changes.append((start, end, t[t1:t2]))
            found.append(Edit(site, Outcome.LANDED))
        else:
            ours_text = "".join(o[start:end])
            found.append(
                Edit(site, Outcome.CONFLICT, "the lines differ in this tree", base_text, ours_text, wanted)
            )
    for start, end, lines in reversed(changes):
        o[start:end] = lines
    return "".join(o), found
