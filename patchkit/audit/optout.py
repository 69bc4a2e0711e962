"""Report for each attention backend whether it could opt out of the CPU mirror, and what prevents it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit.audit.engine import collect
from patchkit.audit.interpreter.flow import interpret
from patchkit.audit.reach import Reach
from patchkit.audit.solver import Solver
from patchkit.findings.finding import Finding  # noqa: TC001  # read when a schema is made

if TYPE_CHECKING:
    from patchkit.audit.runners import AuditedProgram


class OptOut(msgspec.Struct, frozen=True):
    """One backend class: whether it opted out, and its reads that break when the mirror is None."""

    backend: str
    file: str
    line: int
    opted_out: bool
    in_the_way: tuple[Finding, ...]

    @property
    def can_opt_out(self) -> bool:
        """Whether the backend runs no unguarded read of the mirror."""
        return not self.in_the_way


def suggest(program: AuditedProgram) -> tuple[OptOut, ...]:
    """Return one entry per backend class of the tree, in source order.

    Each class is analysed as if it alone had set ``needs_cpu_seq_lens = False``: its methods, those that it inherits,
    and what they call. A mirror passed to it as an argument counts as None.
    """
    reach = Reach(program)
    suggestions = []
    for cls in sorted(reach.backends, key=lambda cls: (cls.module.file, cls.node.lineno)):
        solver = Solver(program, reach.assuming_opt_out(cls), interpret)
        solver.solve_backend()
        place = (cls.module.file, cls.node.lineno)
        suggestions.append(OptOut(cls.name, *place, reach.opted_out(cls), collect(solver)))
    return tuple(suggestions)
