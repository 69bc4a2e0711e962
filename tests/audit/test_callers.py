"""Which functions may call a function, and which functions an audit reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.audit.callers import Callers, relevant
from patchkit.audit.reach import TreeFacts
from patchkit.audit.runners import AuditedProgram

if TYPE_CHECKING:
    from patchkit.tree.index import Function, Program

PLACE = "srt/managers/example.py"
SOURCE = """\
def total(batch): return batch.seq_lens_sum

def by_name(batch): return total(batch)

def by_attribute(batch): return batch.total()

class Base:
    def total(self): return self.first()
    def first(self): return self.second()
    def calls_bare(self): return total(self)

class Inner(Base):
    def second(self): return self.total()

class Another:
    def calls_its_own(self): return self.total()
    def calls_first(self, other): return other.first()

TABLE = {"kept": kept, "total": total}

def kept(batch): return batch

def nobody(batch): return batch
"""


def functions(program: Program) -> dict[str, Function]:
    return {function.qualname: function for module in program.core for function in module.all_functions()}


def program(**sources: str) -> AuditedProgram:
    files = {place: text.encode() for place, text in sources.items()}
    return AuditedProgram(files)


@pytest.mark.parametrize(
    ("function", "callers"),
    [
        ("total", {"by_name": True, "by_attribute": False, "Base.calls_bare": True}),
        # A method of another class calls its own; that of an heir calls what it inherits.
        ("Base.total", {"Inner.second": True, "by_attribute": False}),
        ("Base.first", {"Base.total": True, "Another.calls_first": False}),
        ("Inner.second", {"Base.first": True}),
        ("nobody", {}),
    ],
)
def test_the_callers_of_a_function_by_name_and_receiver(function: str, callers: dict[str, bool]) -> None:
    tree = program(**{PLACE: SOURCE})
    found = Callers(tree).of(functions(tree)[function])
    assert {caller.qualname: sure for caller, sure in found} == callers


def test_a_name_of_many_functions_or_of_python_is_too_common() -> None:
    names = [
        f"class C{index}:\n    def often(self): pass\n    def __call__(self): pass\n" for index in range(6)
    ]
    few = Callers(program(**{PLACE: "# seq_lens_cpu\n" + "".join(names)}))
    assert not few.is_generic("often")
    assert few.is_generic("__call__")
    assert not few.is_generic("unknown")
    many = Callers(program(**{PLACE: "# seq_lens_cpu\n" + "".join(names) + "def often(): pass\n"}))
    assert many.is_generic("often")


@pytest.mark.parametrize(
    ("function", "handed_around"),
    [("kept", True), ("total", False), ("nobody", False), ("Another.calls_first", False)],
)
def test_a_function_that_other_code_names_and_nobody_calls(function: str, handed_around: bool) -> None:
    tree = program(**{PLACE: SOURCE})
    assert Callers(tree).handed_around(functions(tree)[function]) is handed_around


def read(text: str) -> set[str]:
    """Return the functions of a file that an audit reads."""
    facts = TreeFacts(program(**{PLACE: text}))
    return {function.qualname for function in relevant(facts.program, facts.callers, facts.runners)}


def test_an_audit_reads_two_levels_of_callers_of_what_names_the_mirror() -> None:
    calls = "".join(f"def level_{index + 1}(batch): level_{index}(batch)\n" for index in range(4))
    assert read(f"def level_0(batch): return batch.seq_lens_cpu\n{calls}") == {
        "level_0",
        "level_1",
        "level_2",
    }


def test_an_audit_reads_no_callers_of_a_name_that_is_too_common() -> None:
    others = "".join(f"class C{index}:\n    def often(self): pass\n" for index in range(6))
    source = "def often(batch): return batch.seq_lens_cpu\ndef caller(batch): often(batch)\n"
    assert read(source) == {"often", "caller"}
    assert read(source + others) == {"often"}


@pytest.mark.parametrize(
    ("function", "reads"),
    [
        ("def told(batch) -> bool: return batch.forward_mode.is_decode()", True),
        ("def told(batch) -> Stage: return Stage.ONE if batch.forward_mode else Stage.TWO", True),
        ("def told(batch) -> ForwardMode: return batch.mode", True),
        ("def told(batch) -> Plain: return Plain(batch.forward_mode)", False),
        ("def told(batch) -> int: return batch.forward_mode", False),
        ("def told(batch) -> bool: return batch.mode", False),
        ("def told(batch): return batch.forward_mode", False),
        ("def told(batch) -> Elsewhere: return batch.forward_mode", False),
    ],
)
def test_an_audit_reads_what_answers_for_a_mode(function: str, reads: bool) -> None:
    classes = "class Stage(Enum):\n    ONE = 1\n    TWO = 2\nclass Plain: pass\n"
    assert ("told" in read(f"# seq_lens_cpu\n{classes}{function}\n")) is reads


@pytest.mark.parametrize("reads", [True, False])
def test_an_audit_reads_who_holds_a_runner_that_reads_the_mirror(reads: bool) -> None:
    lens = "seq_lens_cpu" if reads else "seq_lens"
    source = f"""# seq_lens_cpu
class PlainGraphRunner:
    def replay(self, batch): return batch.{lens}
    def other(self): pass
class Holder:
    def run(self): self.plain_graph_runner.other()
"""
    assert read(source) == ({"PlainGraphRunner.replay", "Holder.run"} if reads else set())


def test_an_audit_reads_the_runtime() -> None:
    facts = TreeFacts(program(**{"_patchkit/sums.py": "def anything(): pass\n"}))
    assert [function.qualname for function in facts.relevant] == ["anything"]
