"""The uses of a value that break when it is None, each with its rule, message and guard."""

from __future__ import annotations

import enum

from patchkit.findings.rule import Rule


class Use(enum.Enum):
    """A use that fails, or silently misbehaves, when its value is None."""

    ATTRIBUTE = Rule("PK101", "mirror-attribute", "attribute or method access on a mirror that can be None")
    SUBSCRIPT = Rule("PK102", "mirror-subscript", "subscript of a mirror that can be None")
    ITERATION = Rule("PK103", "mirror-iteration", "iteration over a mirror that can be None")
    ARITHMETIC = Rule("PK104", "mirror-arithmetic", "arithmetic with a mirror that can be None")
    COMPARISON = Rule("PK105", "mirror-comparison", "comparison with a mirror that can be None", fatal=False)
    BUILTIN = Rule("PK106", "mirror-builtin", "built-in call on a mirror that can be None")
    ARRAY = Rule("PK107", "mirror-tensor-call", "tensor or array call with a mirror that can be None")
    ASSERT = Rule("PK108", "mirror-assert", "assertion on a mirror that can be None")
    COPY = Rule("PK109", "mirror-copy", "copy into a buffer from a mirror that can be None")
    SLICE = Rule(
        "PK110",
        "mirror-slice-bound",
        "slice bound from a mirror that can be None, which selects everything",
        fatal=False,
    )
    STALE = Rule(
        "PK112",
        "stale-buffer",
        "a buffer with an earlier batch's lengths is used in place of a mirror that is None",
        fatal=False,
    )
    SLOT = Rule("PK111", "backend-slot", "flag read from a backend slot that can be None")

    @property
    def rule(self) -> str:
        """The rule's id."""
        return self.value.id

    @property
    def fatal(self) -> bool:
        """Whether the use raises on None, so that code after it sees the value."""
        return self.value.fatal


UNREAD = Rule("PK100", "not-read", "a folder that cannot be read, so its code was not audited")

RULES = {UNREAD.id: UNREAD} | {use.rule: use.value for use in Use}


def guard(use: Use, expression: str, value: str) -> str:
    """Return a suggested guard for a use of ``value`` inside ``expression``."""
    if use is Use.SLOT:
        return f"skip unset slots: test `{value} is not None` before reading the flag"
    if use is Use.STALE:
        return (
            f"pass None if the batch has no mirror, instead of `{value}`, or fill the buffer from the "
            "device's lengths (patchkit apply 26128)"
        )
    if use is Use.ASSERT:
        return f"replace the assertion with a branch for `{value} is None` that computes the lengths on the device"
    if value.endswith("seq_lens_sum"):
        bound = "the batch size times the longest context"
        return f"if {value} is None: use {bound} as an upper bound, or sum the device tensor once"
    if use in (Use.COPY, Use.ITERATION):
        return f"guard with `if {value} is not None`; otherwise use the lengths of the requests or the device tensor"
    return f"guard `{expression}` with `if {value} is not None`; otherwise compute it from the device tensor"
