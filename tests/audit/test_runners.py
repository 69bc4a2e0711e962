"""Which graph runner an attribute holds, and who calls its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.audit.runners import AuditedProgram, Runners

if TYPE_CHECKING:
    from patchkit.tree.index import Function

RUNNERS = """\
# seq_lens_cpu
class CudaGraphRunner:
    def replay(self, batch): pass
    def capture(self): pass

class EagleDraftCudaGraphRunner:
    def replay(self, batch): pass

class PrefillGraphRunner:
    def replay(self, batch): pass

class PrefillGraph:
    def replay(self, batch): pass
"""
HOLDER = """\
class ModelRunner:
    def __init__(self, args):
        self.graph = PrefillGraphRunner(args)
        self.prefill_graph = PrefillGraph(args)

    def forward(self, batch):
        self.prefill_graph_runner.replay(batch)

    def by_its_own(self, batch):
        self.graph.replay(batch)

    def by_alias(self, batch):
        runner = self.graph
        runner.replay(batch)

    def by_another_class(self, batch):
        self.prefill_graph.replay(batch)

    def by_class_name(self, batch):
        PrefillGraphRunner.replay(self, batch)

    def by_parameter(self, batch, held):
        held.replay(batch)

    def by_parameter_beside_its_own(self, batch, held):
        held.replay(self.graph, batch)

    def by_kept(self, batch):
        self.kept.replay(batch)
        self.kept = 1

    def other_method(self):
        self.prefill_graph_runner.missing()
"""


def tree(**files: str) -> AuditedProgram:
    return AuditedProgram({place: text.encode() for place, text in files.items()})


def whole(holder: str = HOLDER) -> tuple[AuditedProgram, dict[str, Function]]:
    program = tree(**{"srt/runners.py": RUNNERS, "srt/holder.py": holder})
    return program, {
        function.qualname: function for module in program.core for function in module.all_functions()
    }


@pytest.mark.parametrize(
    ("attribute", "cls"),
    [
        ("prefill_graph_runner", "PrefillGraphRunner"),
        ("eagle_draft_cuda_graph_runner", "EagleDraftCudaGraphRunner"),
        ("cuda_graph_runner", None),  # Two classes' names end so.
        ("graph_runner", None),
        ("prefill_graph", None),
        ("draft_cuda_graph_runner", None),
    ],
)
def test_the_runner_after_which_alone_an_attribute_is_named(attribute: str, cls: str | None) -> None:
    held = whole()[0].held_by(attribute)
    assert (held.name if held else None) == cls


def test_a_file_that_calls_a_runner_is_audited_and_no_other() -> None:
    program = tree(
        **{
            "srt/runners.py": RUNNERS,
            "srt/holder.py": HOLDER,
            "srt/alias.py": "def run(self, batch): self.graph_runner.replay(batch)\n",
            "srt/broken.py": "self.prefill_graph_runner.replay(\n",
            "srt/names.py": "x.prefill_graph_runner = None\n",
        }
    )
    assert [module.file for module in program.core] == ["srt/runners.py", "srt/holder.py"]
    assert [module.file for module in program.holders] == ["srt/holder.py"]
    assert [cls.name for cls in program.classes_named("ModelRunner")] == ["ModelRunner"]


def test_an_attribute_that_is_named_like_a_class() -> None:
    program, _ = whole()
    assert program.is_named_after_a_class("prefill_graph")
    assert not program.is_named_after_a_class("graph")


@pytest.mark.parametrize(
    ("attribute", "cls"),
    [("graph", "PrefillGraphRunner"), ("prefill_graph", None), ("unknown", None)],
)
def test_the_runner_that_a_class_constructs(attribute: str, cls: str | None) -> None:
    program, _ = whole()
    (owner,) = program.classes_named("ModelRunner")
    made = program.runner_made_for(owner, attribute)
    assert (made.name if made else None) == cls
    assert program.runner_made_for(None, attribute) is None


def test_who_holds_a_runner_calls_a_method_that_it_has() -> None:
    program, functions = whole()
    runners = Runners(program)
    assert {
        cls.name: [function.qualname for function in functions] for cls, functions in runners.holders.items()
    } == {"PrefillGraphRunner": ["ModelRunner.forward"]}
    assert runners.is_called_by_attribute(functions["PrefillGraphRunner.replay"])
    assert not runners.is_called_by_attribute(functions["CudaGraphRunner.replay"])


@pytest.mark.parametrize(
    ("caller", "method", "calls"),
    [
        ("by_its_own", "PrefillGraphRunner.replay", True),
        ("forward", "PrefillGraphRunner.replay", True),
        ("by_its_own", "CudaGraphRunner.replay", False),
        ("by_alias", "PrefillGraphRunner.replay", False),
        ("by_another_class", "PrefillGraphRunner.replay", False),
        ("by_class_name", "PrefillGraphRunner.replay", False),
        ("other_method", "PrefillGraphRunner.replay", False),
    ],
)
def test_a_caller_of_its_own_runners_alone(caller: str, method: str, calls: bool) -> None:
    program, functions = whole()
    assert Runners(program).calls_its_own(functions[f"ModelRunner.{caller}"], functions[method]) is calls


@pytest.mark.parametrize(
    ("caller", "method", "may"),
    [
        ("by_alias", "PrefillGraphRunner.replay", True),
        ("by_its_own", "PrefillGraphRunner.replay", True),
        ("by_parameter", "PrefillGraphRunner.replay", False),
        ("by_parameter_beside_its_own", "PrefillGraphRunner.replay", True),
        ("by_kept", "PrefillGraphRunner.replay", False),
        ("by_its_own", "CudaGraphRunner.replay", False),
        ("by_another_class", "PrefillGraphRunner.replay", False),
        ("other_method", "PrefillGraphRunner.replay", False),
    ],
)
def test_a_caller_that_may_call_a_runner(caller: str, method: str, may: bool) -> None:
    program, functions = whole()
    making = [functions["ModelRunner.by_its_own"]]
    assert Runners(program).may_call(functions[f"ModelRunner.{caller}"], functions[method], making) is may
