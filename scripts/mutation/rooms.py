"""The parts of patchkit that mutants are made of, each with the tests that are to kill them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .mutants import of_module, of_patch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .mutants import Mutant

Suite = tuple[str, ...]
"""What pytest is told to run: folders, files, and options."""
DIFFERENTIAL: Suite = ("tests/differential",)
QUICK = ("-m", "not sweep and not release")
"""What the tool does is to be seen without a release, too, which would take minutes for each mutant."""

PORTED: tuple[Suite, ...] = (
    ("tests/change", "tests/porting", *QUICK),
    ("tests/cli/test_port.py", "tests/series/test_links_and_modes.py", *QUICK),
)
UNDONE = ("merge", "tidied", "wording", "line_ends")
REVERTED: tuple[Suite, ...] = (
    ("tests/transaction", "tests/plan/test_record.py", "-m", "not sweep and not release and not long"),
    (
        "tests/cli/test_conflicts.py",
        "tests/cli/test_port.py",
        "tests/series/test_uncommitted_port.py",
        *QUICK,
    ),
)


@dataclass(frozen=True)
class Room:
    """Files, and the suites to try their mutants with, until one fails."""

    places: tuple[str, ...]
    suites: tuple[Suite, ...]

    def mutants(self, checkout: Path) -> Iterator[Mutant]:
        """Yield all possible mutants."""
        paths = {path for place in self.places for path in checkout.glob(place)}
        for path in sorted(paths):
            file, text = path.relative_to(checkout).as_posix(), path.read_text(encoding="utf-8")
            if path.suffix == ".toml":
                yield from of_patch(file, text)
            # Files that contain only lists of names.
            elif path.stem != "__init__" and not path.stem.startswith("api_"):
                yield from of_module(file, text)


def _modules(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"patchkit/{package}/{name}.py" for name in names)


ROOMS = {
    "patches": Room(("patches/*/patch.toml",), (DIFFERENTIAL,)),
    "served": Room(
        (*_modules("runtime", "*"), *_modules("backends", "*")),
        (DIFFERENTIAL, ("tests/runtime", "tests/backends")),
    ),
    "audit": Room(_modules("audit", "**/*"), (("tests/audit", "tests/cli/test_audit.py", *QUICK),)),
    "patterns": Room(
        _modules("codemods/language", "*"),
        (("tests/codemods", "tests/plan/test_build.py", *QUICK), ("tests/patchset/test_load.py", *QUICK)),
    ),
    "revert": Room(
        _modules(
            "transaction",
            *("revert", "revert_plan", "candidates", "history", "renewal", "conflicts", "edited", "current"),
            *("ports", "resolve", "uncommitted"),
        )
        + _modules("plan", "record"),
        REVERTED,
    ),
    "port": Room(
        (
            *_modules("porting", "*"),
            *_modules("change", "land", "follow", "imports", "surroundings", "edits", "comments", "effects"),
            *_modules("change", "output", "layout", "variants", "undefined"),
        ),
        PORTED,
    ),
    "merge": Room(
        (
            *_modules("transaction", "undo", "wording"),
            *_modules(
                "change", "merge", "alignment", "statements", "sequence", "pairing", "outline", "regions"
            ),
            *_modules("change", "correspondence", "tokens", "lines", "exact", "blocks"),
            *_modules("change", "doubts", "kinds", "prose", "sides", "united"),
        ),
        (
            ("tests/change", *(f"tests/transaction/test_{name}.py" for name in UNDONE), *QUICK),
            PORTED[1],
        ),
    ),
}
"""``patches`` and ``served`` are what a server runs; the others are rooms of the tool."""
