#!/usr/bin/env python3
"""Run patchkit on altered patch files, sources, records and journals, and check that it handles or rejects them.

Every operation must end with PatchkitError, and every byte unchanged, or with a correct result: a patched tree is
patched completely, and revert restores it. Nothing outside the tree may change, and nothing may take longer than a
few seconds. Prints the counts of docs/reliability.md, and each failed case by the name with which --case repeats
it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parents[1]
for place in (REPOSITORY / "tests", REPOSITORY):
    sys.path.insert(0, str(place))

import msgspec  # noqa: E402
from click.testing import CliRunner  # noqa: E402
from support.altered import altered_json, altered_text  # noqa: E402
from support.toys import (  # noqa: E402
    MIRROR,
    SOURCES,
    add_patch,
    attribute,
    everything,
    patch_text,
    write_package,
)

from patchkit import api  # noqa: E402
from patchkit.cli import main as main_command  # noqa: E402
from patchkit.codemods.kinds import KINDS  # noqa: E402
from patchkit.errors import PatchkitError  # noqa: E402
from patchkit.patchset import load  # noqa: E402
from patchkit.plan import record  # noqa: E402
from patchkit.plan.comments import COMMENT_PREFIX  # noqa: E402
from patchkit.transaction.journal import Journal, encoded  # noqa: E402
from patchkit.transaction.recover import recover  # noqa: E402
from patchkit.tree.fork import RECORD  # noqa: E402
from patchkit.tree.tree import open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from patchkit.codemods.kind import Example
    from patchkit.tree.tree import CheckoutTree

LIMIT = 20
"""The most CPU seconds of a case, a hundred times the usual; ten times as many of wall clock."""
FILE = "srt/x.py"
EXAMPLES: tuple[tuple[str, Example], ...] = tuple(
    (name, example)
    for name, kind in KINDS.items()
    for example in (*kind.VALID, *kind.NO_OP)
    if example.before
)
BUILT_IN = sorted(load.BUILT_IN.glob("*/patch.toml"))


class WrongError(AssertionError):
    """A violated property."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise TimeoutError in a body that takes too long."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {LIMIT} s")

    timers = {signal.ITIMER_PROF: (signal.SIGPROF, LIMIT), signal.ITIMER_REAL: (signal.SIGALRM, 10 * LIMIT)}
    for timer, (number, seconds) in timers.items():
        signal.signal(number, stop)
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)


def succeeds(act: Callable[[], object]) -> bool:
    """Run an operation; return False if it raises PatchkitError, which must have a one-line message."""
    try:
        act()
    except PatchkitError as error:
        if "\n" in str(error) or not str(error).endswith("."):
            raise WrongError(f"message is not one sentence: {str(error)!r}") from None
        return False
    return True


def example_of(rng: random.Random) -> tuple[bytes, bytes]:
    """Return the patch file of an example and its source."""
    kind, example = rng.choice(EXAMPLES)
    at = f"{FILE}::{example.scope}" if example.scope else FILE
    head = [f"[edit.one]\nkind = '{kind}'\nwhy = 'toy'\nat = '{at}'"]
    text = patch_text("own", "\n".join([*head, textwrap.dedent(example.edit)]))
    return text.encode(), textwrap.dedent(example.before).strip("\n").encode() + b"\n"


COMMANDS = (
    ("show",),
    ("show", "own"),
    ("test", "{own}"),
    ("status", "{tree}"),
    ("diff", "{tree}", "own"),
    ("apply", "{tree}", "own", "--dry-run"),
    ("audit", "{tree}"),
    ("verify", "{tree}"),
    ("doctor", "{tree}"),
)


def run_reading_command(tree: CheckoutTree, own: Path, rng: random.Random) -> None:
    """Run a command that only reads: it must exit with a documented code and print no control characters."""
    command = [word.format(tree=tree.root, own=own) for word in rng.choice(COMMANDS)]
    options = [] if command[0] in {"audit", "test"} else ["--patches", str(own)]
    ran = CliRunner().invoke(main_command, [*command, *options])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    if ran.exit_code not in range(5):
        raise WrongError(f"{command[0]} ends with {ran.exit_code}")
    # A diff on a pipe is unescaped, for git apply.
    odd = set() if command[0] == "diff" else {char for char in ran.output if char < " " and char != "\n"}
    if odd:
        raise WrongError(f"{command[0]} shows {odd}")


def round_trip(tree: CheckoutTree, folder: Path, rng: random.Random) -> bool:
    """Load, inspect, apply, apply again and revert; return False if one of these is rejected."""
    before = everything(tree.root)
    run_reading_command(tree, folder, rng)
    if everything(tree.root) != before:
        raise WrongError("a command that only reads wrote files")
    if not succeeds(lambda: load.patches([folder])):
        return False
    patches = load.patches([folder])
    ids = tuple(name for name in patches.ids if name != "t-flag")
    if not succeeds(lambda: api.status(tree, patches)):
        return False
    succeeds(lambda: api.diff(tree, patches, ids))
    if not succeeds(lambda: api.apply(tree, patches, ids)):
        if everything(tree.root) != before:
            raise WrongError("an operation failed and wrote files")
        return False
    if api.apply(tree, patches, ids).files:
        raise WrongError("a second apply changes something")
    api.revert(tree, patches)
    if everything(tree.root) != before:
        raise WrongError("revert does not restore the original")
    return True


def patch_files(rng: random.Random, folder: Path) -> bool:
    """Alter a patch file."""
    text, source = example_of(rng)
    if rng.random() < 0.3:
        text = rng.choice(BUILT_IN).read_bytes()
    (folder / "own").mkdir()
    (folder / "own" / "patch.toml").write_bytes(altered_text(text, rng.randrange(2**32), msgspec.toml.decode))
    tree = open_tree(write_package(folder / "sglang", SOURCES | {FILE: source}))
    return round_trip(tree, folder / "own", rng)


def sources(rng: random.Random, folder: Path) -> bool:
    """Alter a source before the patch."""
    text, source = example_of(rng)
    (folder / "own").mkdir()
    (folder / "own" / "patch.toml").write_bytes(text)
    source = altered_text(source, rng.randrange(2**32), ast.parse)
    tree = open_tree(write_package(folder / "sglang", SOURCES | {FILE: source}))
    succeeds(lambda: api.audit(tree))
    return round_trip(tree, folder / "own", rng)


def patched_sources(rng: random.Random, folder: Path) -> bool:
    """Alter a source after the patch, and revert the patch."""
    text, source = example_of(rng)
    (folder / "own").mkdir()
    (folder / "own" / "patch.toml").write_bytes(text)
    tree = open_tree(write_package(folder / "sglang", SOURCES | {FILE: source}))
    patches = load.patches([folder / "own"])
    if not succeeds(lambda: api.apply(tree, patches, ("own",))):
        return False
    path = tree.package / FILE
    # A patch may have deleted the file, and a person may have put one there.
    current = path.read_bytes() if path.exists() else source
    path.write_bytes(altered_text(current, rng.randrange(2**32), ast.parse))
    before = everything(tree.root)
    succeeds(lambda: api.status(tree, patches))
    run_reading_command(tree, folder / "own", rng)
    if succeeds(lambda: api.revert(tree, patches)):
        if f"{COMMENT_PREFIX}own:".encode() in path.read_bytes():
            raise WrongError("a comment of the patch remains after revert")
        return True
    if everything(tree.root) != before:
        raise WrongError("an operation failed and wrote files")
    return False


def _with_altered(rng: random.Random, folder: Path, name: str) -> bool:
    tree = open_tree(write_package(folder / "sglang"))
    patches = load.patches()
    api.apply(tree, patches)
    path = tree.package / ".patchkit" / name
    if name == RECORD:
        path = rng.choice(sorted(path.iterdir()))
    seed = rng.randrange(2**32)
    if name == RECORD:
        text = altered_text(path.read_bytes(), seed, msgspec.toml.decode)
    else:
        known = record.read(tree).files.items()
        files = {file: (applied_file.original, applied_file.applied) for file, applied_file in known}
        text = altered_json(encoded(Journal(files)), seed)
    if rng.random() < 0.3:
        mine = tree.package / MIRROR
        mine.write_bytes(b"# mine\n" + mine.read_bytes())
    path.write_bytes(text)
    there = {path for path in tree.package.rglob("*.py") if path.exists()}
    acts: list[Callable[[], object]] = [
        lambda: recover(tree),
        lambda: api.status(tree, patches),
        lambda: api.apply(tree, patches),
        lambda: api.revert(tree, patches),
    ]
    rng.shuffle(acts)
    refused = [act for act in acts if not succeeds(act)]
    if not there <= set(tree.package.rglob("*.py")):
        raise WrongError("a file is missing")
    return not refused


def records(rng: random.Random, folder: Path) -> bool:
    """Alter a record."""
    return _with_altered(rng, folder, RECORD)


def journals(rng: random.Random, folder: Path) -> bool:
    """Alter a journal."""
    return _with_altered(rng, folder, "journal.json")


CASES: dict[str, Callable[[random.Random, Path], bool]] = {
    "patch files": patch_files,
    "sources": sources,
    "patched sources": patched_sources,
    "records": records,
    "journals": journals,
}


def case(name: str, seed: int, folder: Path) -> tuple[str, str]:
    """Run one case in a new folder; return its outcome and, if there was one, the error."""
    outside = folder / "x"
    outside.mkdir(parents=True)
    (outside / "x").write_text("outside")
    try:
        with limited():
            taken = CASES[name](random.Random(f"{name} {seed}"), folder)
        if [path.name for path in outside.iterdir()] != ["x"] or (outside / "x").read_text() != "outside":
            return "wrong", "something outside was touched"
    except BaseException as error:  # Any other exception is an error.
        if isinstance(error, KeyboardInterrupt):
            raise
        return "wrong", "".join(traceback.format_exception(error)[-3:])
    finally:
        shutil.rmtree(folder)
    return ("taken" if taken else "refused"), ""


def built_in(folder: Path) -> Path:
    """Write the patch used in place of the built-in ones."""
    add_patch(folder, "t-flag", attribute(MIRROR, "Mirror", "needs_host = False"))
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases of each kind in turn and print their counts; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600, help="how long to run")
    parser.add_argument("--cases", type=int, default=0, help="how many of each kind at most; 0: no limit")
    parser.add_argument("--start", type=int, default=0, help="the number of the first case")
    parser.add_argument("--case", action="append", default=[], metavar="KIND:NUMBER", help="only this one")
    options = parser.parse_args(arguments)
    ended: Counter[tuple[str, str]] = Counter()
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        load.BUILT_IN = built_in(Path(folder) / "built-in")
        chosen = [(name, int(number)) for name, _, number in (one.partition(":") for one in options.case)]
        number = options.start
        while time.monotonic() < until and not (options.cases and number >= options.start + options.cases):
            for name, seed in chosen or [(name, number) for name in CASES]:
                how, wrong = case(name, seed, Path(folder) / "case")
                ended[name, how] += 1
                if wrong:
                    print(f"wrong: --case {name!r}:{seed}\n{textwrap.indent(wrong, '  ')}", flush=True)
            number += 1
            if chosen:
                break
    outcomes = ("taken", "refused", "wrong")
    print(f"| | {' | '.join(outcomes)} |\n| --- | ---: | ---: | ---: |")
    for name in CASES:
        print(f"| {name} | {' | '.join(f'{ended[name, how]:,}' for how in outcomes)} |")
    print(f"\n{sum(ended.values()):,} cases; wrong: {sum(ended[name, 'wrong'] for name in CASES)}.")
    return 1 if any(ended[name, "wrong"] for name in CASES) else 0


if __name__ == "__main__":
    sys.exit(main())
