"""The ledger of a fork's backports: one row per patch, with its origin, verification and removal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from patchkit.plan.status import ACCEPTED, BY_HAND, IN_PLACE, State, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.patchset.patch import Part
    from patchkit.plan.status import EditStatus, PatchStatus

IN_TREE = IN_PLACE | {State.EDITED, State.PARTIAL}


class Backport(msgspec.Struct, frozen=True):
    """A patch that a tree contains.

    ``how`` is "ported", "upstream" (the tree's base contains it), "unknown" (nothing tells which of these), "by hand",
    "edited" (ported, and a person changed its code since), or "in part: " and a reason.
    ``by_hand`` names the edits that a person made, ``accepted`` those of them that were not checked. ``verified``
    is what was verified, and the result.
    """

    patch: str
    title: str
    pull_request: str
    upstream_commit: str
    files: tuple[str, ...]
    how: str
    by_hand: tuple[str, ...]
    verified: str
    removal: str
    accepted: tuple[str, ...] = ()


def backports(statuses: Iterable[PatchStatus], verified: str) -> tuple[Backport, ...]:
    """Return a row for each part of a patch that the tree contains, also in part."""
    rows = []
    for status in statuses:
        for part in status.patch.all_parts:
            patch, state = status.patch, status.state_of(part)
            if state not in IN_TREE:
                continue
            edits = status.edits_of(part)
            accepted = tuple(edit.name for edit in edits if edit.reason == ACCEPTED)
            by_hand = tuple(sorted({edit.name for edit in edits if edit.reason in (ACCEPTED, BY_HAND)}))
            rows.append(
                Backport(
                    name_of(patch, part),
                    part.title,
                    part.upstream,
                    part.upstream_commit,
                    tuple(sorted({edit.file for edit in edits if edit.state in IN_TREE})),
                    _origin(state, edits, by_hand),
                    by_hand,
                    verified,
                    _removal(part, state, is_pull=part is patch and patch.has_pull_request),
                    accepted,
                )
            )
    return tuple(rows)


def _origin(state: State, edits: Sequence[EditStatus], by_hand: tuple[str, ...]) -> str:
    if state is State.PARTIAL:
        count = sum(edit.state is State.PENDING for edit in edits)
        return f"in part: {count} of {len(edits)} edits are missing"
    if state in {State.EDITED, State.UPSTREAM, State.UNKNOWN}:
        return str(state.value)
    applied = [edit.name for edit in edits if edit.state is State.APPLIED]
    return "by hand" if by_hand and set(applied) <= set(by_hand) else "ported"


def _removal(part: Part, state: State, *, is_pull: bool) -> str:
    if state is State.UPSTREAM:
        return "nothing to remove: the tree's base has it"
    if state is State.UNKNOWN:
        return "remove with git if it is not the base's: neither a comment nor a call of the runtime tells"
    if part.upstream_commit:
        return f"remove once the base has {part.upstream_commit[:12]}: patchkit rebase reports it"
    if "/issues/" in part.upstream:
        return "keep until upstream closes the issue; patchkit revert removes it"
    if is_pull:
        return "remove once the base has the pull request: patchkit rebase reports it"
    # A pull request of another number is only related to the patch.
    return "keep until patchkit rebase reports it as upstream; patchkit revert removes it"


def markdown(rows: Iterable[Backport]) -> str:
    """Return the rows as a Markdown table."""
    head = ("Pull request", "Upstream commit", "Files", "How", "Verified", "Removal")
    lines = [_row(head), _row(("---",) * len(head))]
    for row in rows:
        link = f"[{row.patch}]({_address(row.pull_request)})" if row.pull_request else row.patch
        how = (
            f"{row.how}, by hand: {', '.join(row.by_hand)}"
            if row.by_hand and row.how == "ported"
            else row.how
        )
        how += f", {ACCEPTED}: {', '.join(row.accepted)}" if row.accepted else ""
        files = "<br>".join(map(_code, row.files))
        title, how, verified, removal = map(_text, (row.title, how, row.verified, row.removal))
        lines.append(_row((f"{link} {title}", row.upstream_commit[:12], files, how, verified, removal)))
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return a text whose characters Markdown shows and does not read as markup."""
    return re.sub(r"[\\`<\[]", r"\\\g<0>", text)


def _code(file: str) -> str:
    # A backslash does not escape in code.
    return _text(file) if re.search(r"[\\`]", file) else f"`{file}`"


def _address(url: str) -> str:
    return re.sub(r"[\\<>()\[\]]", lambda match: quote(match[0]), url)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
