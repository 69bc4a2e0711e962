"""A patch as machine-readable answers say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch


def brief(patch: Patch) -> dict[str, Any]:
    """Return what every answer says of a patch: its id, links and risk."""
    return {
        "id": patch.id,
        "title": patch.title,
        "upstream": patch.upstream,
        "risk": patch.risk,
        "no_switch": patch.no_switch,
        "requires": patch.requires,
        "hardens": patch.hardens,
        "default": patch.default,
    }
