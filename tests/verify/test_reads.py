"""Patched code that reads what nothing before it has set is named; whatever is set in some way before is fine."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest
from support.releases import HAVING, LACKING, LATEST, PATCHES, REFERENCE, after, checked, run, texts
from support.sweeps import swept

from patchkit.plan.build import make_plan
from patchkit.tree.index import Program
from patchkit.tree.sglang import serves
from patchkit.verify.checks import reads
from patchkit.verify.subject import Subject

if TYPE_CHECKING:
    from pathlib import Path

    from support.releases import Releases

    from patchkit.findings.finding import Finding
    from patchkit.patchset.patch import Patch

FILE = "srt/speculative/worker.py"
OTHER = "srt/speculative/other.py"
# On a line of its own, and the first one of most programs is blank.
NAMES = "from tools import Fields, OTHER, check, dataclass, nn, use, with_fields"


def found(body: str, others: str = "", original: bytes | None = None) -> list[Finding]:
    """Return what is found of a file of which a patch wrote the statement below each ``# patchkit own: ...``."""
    originals = {FILE: original} if original is not None else {}
    own = f"{NAMES}\n{textwrap.dedent(body).removeprefix(chr(10))}"
    sources = {FILE: own.encode(), OTHER: textwrap.dedent(others).encode()}
    subject = Subject.__new__(Subject)
    subject.__dict__.update(
        program=Program(sources), sources=sources, files=(FILE,), _read_originals=(originals, None)
    )
    return list(reads.check(subject).findings)


def expressions(body: str, others: str = "") -> list[str]:
    return [finding.expression for finding in found(body, others)]


SET = {
    "by another class that has it as a base": """
        class Worker:
            def step(self):
                # patchkit own: a reason
                check(self.size)

        class Other(Worker):
            def __init__(self):
                self.size = 1
    """,
    "by another class on the worker": """
        class Other:
            def __init__(self, worker):
                worker.size = 1

        class Worker:
            def step(self):
                # patchkit own: a reason
                check(self.size)
    """,
    "above": """
        class Worker:
            def __init__(self, size):
                self.size = size
                # patchkit own: a reason
                check(self.size)
    """,
    "in a base": """
        class Base:
            def __init__(self, size):
                self.size = size

        class Worker(Base):
            def __init__(self, size):
                super().__init__(size)
                # patchkit own: a reason
                check(self.size)
    """,
    "in a base that is called by its name": """
        from sglang.srt.speculative.other import Base

        class Worker(Base):
            def __init__(self, size):
                Base.__init__(self, size)
                # patchkit own: a reason
                check(self.size)
    """,
    "by a method called before": """
        class Worker:
            def __init__(self):
                self.start()
                # patchkit own: a reason
                check(self.size)

            def start(self):
                self.load()

            def load(self):
                self.size = 1
    """,
    "by a function that is given the object": """
        from sglang.srt.speculative.other import fill

        class Worker:
            def __init__(self):
                fill(self)
                # patchkit own: a reason
                check(self.size)
                self.size = 2
    """,
    "in both branches": """
        class Worker:
            def __init__(self, large):
                if large:
                    self.size = 2
                else:
                    self.size = 1
                # patchkit own: a reason
                check(self.size)
    """,
    "where the same is asked": """
        class Worker:
            def __init__(self, large):
                if large:
                    self.size = 2
                if large:
                    # patchkit own: a reason
                    check(self.size)
    """,
    "unless the function has ended": """
        class Worker:
            def __init__(self, large):
                if not large:
                    return
                if large:
                    self.size = 2
                # patchkit own: a reason
                check(self.size)
    """,
    "where upstream reads it next": """
        class Worker:
            def __init__(self, large):
                if large:
                    self.size = 2
                # patchkit own: a reason
                check(self.size)
                use(self.size)
    """,
    "later, and asked for with a default": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                check(getattr(self, "size", None))
                self.size = 1
    """,
    "later, and asked whether it is there": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                if hasattr(self, "size"):
                    check(self.size)
                self.size = 1
    """,
    "later, and the error is caught": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                try:
                    check(self.size)
                except AttributeError:
                    pass
                self.size = 1
    """,
    "later than what is only called then": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                self.ask = lambda: self.size
                self.size = 1
    """,
    "by a class in another file": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                check(self.size)

            def grow(self):
                self.size = 2
    """,
    "at class level": """
        class Worker:
            size = 1

            def __init__(self):
                # patchkit own: a reason
                check(self.size)
                self.size = 2
    """,
    "as a dataclass field": """
        @dataclass
        class Worker:
            size: int

            def __post_init__(self):
                # patchkit own: a reason
                check(self.size)
                self.size = 2
    """,
    "as a property": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                check(self.size)

            @property
            def size(self):
                return 1
    """,
    "by a decorator of the class": """
        @with_fields
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                check(self.size)
                self.size = 2
    """,
    "by a metaclass": """
        class Worker(metaclass=Fields):
            def __init__(self):
                # patchkit own: a reason
                check(self.size)
                self.size = 2
    """,
    "in a base that is not in the tree": """
        class Worker(nn.Module):
            def __init__(self):
                super().__init__()
                # patchkit own: a reason
                check(self.size)
                self.size = 2
    """,
    "in a method that runs when all is made": """
        class Worker:
            def __init__(self):
                self.ready = True

            def step(self):
                # patchkit own: a reason
                check(self.size)

            def start(self):
                self.size = 1
    """,
    "without a patch": """
        class Worker:
            def __init__(self):
                check(self.size)
                self.size = 1
    """,
}
OTHERS = """
    from sglang.srt.speculative.worker import Worker

    class Base:
        def __init__(self, size):
            self.size = size

    class Large(Worker):
        def __init__(self):
            self.size = 9
            super().__init__()

    def fill(worker):
        worker.size = 3
"""


@pytest.mark.parametrize("name", SET)
def test_an_attribute_that_is_or_may_be_set_before_is_fine(name: str) -> None:
    others = OTHERS if "another file" in name or "by its name" in name or "given" in name else ""
    assert expressions(SET[name], others) == []


UNSET = {
    "set below": """
        class Worker:
            def __init__(self, size):
                # patchkit own: a reason
                check(self.size)
                self.size = size
    """,
    "set in a base that is called below": """
        class Base:
            def __init__(self, size):
                self.size = size

        class Worker(Base):
            def __init__(self, size):
                # patchkit own: a reason
                check(self.size)
                super().__init__(size)
    """,
    "set by a method that is called below": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                check(self.size)
                self.start()

            def start(self):
                self.size = 1
    """,
    "a slot": """
        class Worker:
            __slots__ = ("size",)

            def __init__(self):
                # patchkit own: a reason
                check(self.size)
                self.size = 1
    """,
    "an annotation without a value": """
        class Worker:
            size: int

            def __init__(self):
                # patchkit own: a reason
                check(self.size)
                self.size = 1
    """,
    "counted up": """
        class Worker:
            def __init__(self):
                # patchkit own: a reason
                self.size += 1
                self.size = 1
    """,
    "set nowhere": """
        class Worker:
            def step(self):
                # patchkit own: a reason
                check(self.size)
    """,
    "set by another class on its own": """
        class Other:
            def __init__(self):
                self.size = 1

        class Worker:
            def step(self):
                # patchkit own: a reason
                check(self.size)
    """,
}


@pytest.mark.parametrize("name", UNSET)
def test_an_attribute_that_nothing_before_sets_is_named(name: str) -> None:
    assert expressions(UNSET[name]) == ["self.size"]


def test_a_finding_says_who_reads_what_who_sets_it_and_what_to_type() -> None:
    (finding,) = found(UNSET["set below"])
    assert (finding.rule, finding.function, finding.line) == ("PV406", "Worker.__init__", 5)
    assert "Worker.__init__ reads `self.size`" in finding.message
    assert f"Worker.__init__ ({FILE}:6) sets it" in finding.message
    assert "patchkit revert own" in finding.guard


LOCALS = {
    "bound below": ("check(size)\n    size = 1", ["size"]),
    "bound above": ("size = 1\n    # patchkit own: a reason\n    check(size)", []),
    "bound in a loop": (
        "for size in large:\n        pass\n    # patchkit own: a reason\n    check(size)",
        [],
    ),
    "bound by with": ("with large as size:\n        # patchkit own: a reason\n        check(size)", []),
    "bound in the statement": ("check(size if (size := large) else 1)", []),
    "bound in a comprehension": ("check([size for size in large])", []),
    "a parameter": ("check(large)\n    large = 1", []),
    "of the module": ("check(OTHER)", []),
    "bound nowhere": ("check(nowhere)", ["nowhere"]),
    "bound where a try goes on": (
        "try:\n        size = 1\n    except ValueError:\n        return\n    # patchkit own: a reason\n    check(size)",
        [],
    ),
}


@pytest.mark.parametrize("name", LOCALS)
def test_a_local_name_is_bound_before_it_is_read(name: str) -> None:
    body, expected = LOCALS[name]
    first = "" if "# patchkit" in body else "    # patchkit own: a reason\n"
    assert expressions(f"def run(large):\n{first}    {body}\n") == expected


def test_a_name_that_the_original_leaves_unbound_is_not_the_patchs() -> None:
    body = "def run(large):\n    # patchkit own: a reason\n    check(nowhere, elsewhere)\n"
    (finding,) = found(body, original=f"{NAMES}\ncheck(nowhere)\n".encode())
    assert (finding.function, finding.expression) == ("run", "elsewhere")


def found_in(releases: Releases, version: str, patches: tuple[Patch, ...]) -> list[Finding]:
    """Return what is found of a release with patches, of which no ledger tells."""
    tree = after(make_plan(releases.tree(version), patches))
    read = ((file, tree.read(file)) for file in tree.files("") if serves(file))
    sources = {file: text for file, text in read if text is not None}
    files = tuple(sorted(file for file in texts(tree) if file in sources))
    assert files
    subject = Subject.__new__(Subject)
    subject.__dict__.update(
        program=Program(sources), sources=sources, files=files, _read_originals=({}, None)
    )
    return list(reads.check(subject).findings)


@pytest.mark.parametrize("version", swept([*LACKING, *HAVING, "0.5.17", LATEST], HAVING[-1].__eq__))
def test_nothing_that_our_patches_read_is_missing(releases: Releases, version: str) -> None:
    assert found_in(releases, version, PATCHES) == []


def test_a_statement_of_a_patch_moved_above_what_it_needs_is_named(
    releases: Releases, tmp_path: Path
) -> None:
    tree = releases.copy(REFERENCE, tmp_path)
    run("apply", tree.root, "26128")
    path = tree.package / "srt/managers/overlap_utils.py"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    index = next(n for n, line in enumerate(lines) if "self.needs_cpu_seq_lens = needs_cpu_seq_lens" in line)
    lines[index] = lines[index].replace("= needs", "= self.device is None or needs")
    path.write_text("".join(lines), encoding="utf-8")
    assert checked(tree.root, "reads").findings == ()
    start = next(n for n, line in enumerate(lines) if "self.future_ct = 0" in line)
    lines.insert(start, lines.pop(index))
    path.write_text("".join(lines), encoding="utf-8")
    (finding,) = checked(tree.root, "reads").findings
    assert (finding.function, finding.expression) == ("FutureMap.__init__", "self.device")
    assert finding.line == start + 1
