"""The results of the mutants: a table, the survivors, and a JSON file."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console

    from .lane import Fate
    from .mutants import Mutant

ENOUGH = 0.9


@dataclass(frozen=True)
class Result:
    """A mutant, and the result of the last suite that ran on it, which is the one that killed it, if any."""

    mutant: Mutant
    suite: str
    fate: Fate


@dataclass
class Results:
    """Every mutant's result, by its position in the sample."""

    seed: int
    by_turn: dict[int, Result] = field(default_factory=dict)

    @property
    def all(self) -> list[Result]:
        """The results in the sample's order."""
        return [self.by_turn[turn] for turn in sorted(self.by_turn)]

    @property
    def survivors(self) -> list[Mutant]:
        """The mutants that no test killed."""
        return [result.mutant for result in self.all if not result.fate.killed]

    @property
    def passed(self) -> bool:
        """Whether enough mutants were killed."""
        return bool(self.by_turn) and 1 - len(self.survivors) / len(self.by_turn) >= ENOUGH

    def tally(self, key: Callable[[Result], str]) -> dict[str, dict[str, Any]]:
        """Return the number of mutants of each kind, and of those that were killed."""
        counts: dict[str, list[bool]] = {}
        for result in self.all:
            counts.setdefault(key(result), []).append(result.fate.killed)
        return {name: _rated(killed) for name, killed in sorted(counts.items())}

    @property
    def total(self) -> dict[str, Any]:
        """Return these numbers for all mutants."""
        return _rated([result.fate.killed for result in self.all])

    def show(self, console: Console) -> None:
        """Print the table, the survivors, and the total."""
        table = Table("file")
        for column in ("mutants", "killed", "rate"):
            table.add_column(column, justify="right")
        for file, row in self.tally(lambda result: result.mutant.file).items():
            table.add_row(file, str(row["mutants"]), str(row["killed"]), f"{row['rate']:.0%}")
        console.print(table)
        for mutant in self.survivors:
            console.out(f"survived: {mutant.name}\n{mutant.diff}\n", highlight=False)
        total = self.total
        console.out(
            f"killed {total['killed']} of {total['mutants']}: {total['rate']:.1%}; {ENOUGH:.0%} is enough",
            highlight=False,
        )

    def write(self, path: Path) -> None:
        """Write all results as JSON."""
        killed = [result for result in self.all if result.fate.killed]
        content = {
            "command": shlex.join(sys.orig_argv),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "seed": self.seed,
            **self.total,
            "killed_by": {
                suite: sum(result.suite == suite for result in killed)
                for suite in sorted({result.suite for result in killed})
            },
            "files": self.tally(lambda result: result.mutant.file),
            "operators": self.tally(lambda result: result.mutant.operator),
            "results": [_row(result) for result in self.all],
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _rated(killed: list[bool]) -> dict[str, Any]:
    rate = round(sum(killed) / len(killed), 4) if killed else 0.0
    return {"mutants": len(killed), "killed": sum(killed), "rate": rate}


def _row(result: Result) -> dict[str, Any]:
    mutant, fate = result.mutant, result.fate
    row = {
        "file": mutant.file,
        "unit": mutant.unit,
        "part": mutant.part,
        "operator": mutant.operator,
        "diff": mutant.diff,
        "killed": fate.killed,
    }
    return row | ({"suite": result.suite, "test": fate.test} if fate.killed else {})
