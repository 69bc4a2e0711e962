"""What can run without the mirror, what certainly does, and where an audit starts."""

from __future__ import annotations

import pytest
from support.audited import MemoryTree, prelude, sections

from patchkit.audit.entries import Entries
from patchkit.audit.reach import Reach
from patchkit.audit.runners import AuditedProgram
from patchkit.findings.finding import Step
from patchkit.tree.index import Class, Function, read_sources

SOURCE = """\
# place: srt/layers/attention/backends.py
class FastBackend(AttentionBackend):
    needs_cpu_seq_lens = False
    def init_forward_metadata(self, forward_batch): self.plan(forward_batch)
    def plan(self, forward_batch): return forward_batch.seq_lens_cpu
    def init_capture(self, forward_batch): return forward_batch.seq_lens_cpu
    def _private(self, forward_batch): return forward_batch.seq_lens_cpu
    def name(self): return 1
class SlowBackend(AttentionBackend):
    def init_forward_metadata(self, forward_batch): return forward_batch.seq_lens_cpu
class EitherBackend(AttentionBackend):
    @property
    def needs_cpu_seq_lens(self): return self.slow
    def init_forward_metadata(self, forward_batch): return forward_batch.seq_lens_cpu
class HeirBackend(FastBackend):
    def plan(self, forward_batch): return forward_batch.seq_lens_sum
# place: srt/model_executor/runners.py
class FastGraphRunner:
    def __init__(self): self.attn_backend = FastBackend(self)
    def replay(self, batch): return batch.seq_lens_cpu
class HeirGraphRunner(FastGraphRunner):
    def replay(self, batch): return batch.seq_lens_sum
class EveryGraphRunner:
    def __init__(self): self.made = Other()
    def replay(self, batch): return batch.seq_lens_sum
class Helper:
    def replay(self, batch): return batch.seq_lens_sum
def called(batch): return batch.seq_lens_sum
def calls(batch): return called(batch)
def handed(batch): return batch.seq_lens_sum
TABLE = [handed]
# place: srt/hardware_backend/runner.py
class BoardModelRunner:
    def replay(self, batch): return batch.seq_lens_sum
# place: srt/layers/helpers.py
def bound(batch): return batch.seq_lens_cpu
class Layer:
    def forward(self, batch): return batch.seq_lens_cpu
# place: srt/layers/two_batch_overlap.py
def split(batch): return batch.seq_lens_cpu
"""


def reach(source: str = SOURCE) -> tuple[Reach, dict[str, Function], dict[str, Class]]:
    program = AuditedProgram(read_sources(MemoryTree({**prelude(), **sections(source)})))
    functions = {
        function.qualname: function for module in program.core for function in module.all_functions()
    }
    classes = {cls.name: cls for module in program.core for cls in module.classes.values()}
    return Reach(program), functions, classes


def names(classes: list[Class]) -> list[str]:
    return [cls.name for cls in classes]


def test_the_backends_that_can_run_without_the_mirror_and_those_that_keep_it() -> None:
    whole, _, classes = reach()
    assert names(whole.backends) == ["FastBackend", "SlowBackend", "EitherBackend", "HeirBackend"]
    assert names(whole.active_backends) == ["FastBackend", "EitherBackend", "HeirBackend"]
    assert names(whole.keeping().active_backends) == ["SlowBackend"]
    assert names(whole.assuming_opt_out(classes["SlowBackend"]).active_backends) == ["SlowBackend"]


@pytest.mark.parametrize(
    ("owner", "backends"),
    [
        ("FastGraphRunner", ["FastBackend"]),
        ("HeirGraphRunner", ["FastBackend"]),
        ("EveryGraphRunner", ["FastBackend", "EitherBackend", "HeirBackend"]),
        ("Helper", ["FastBackend", "EitherBackend", "HeirBackend"]),
        (None, ["FastBackend", "EitherBackend", "HeirBackend"]),
    ],
)
def test_the_backends_that_a_class_may_have_made(owner: str | None, backends: list[str]) -> None:
    whole, _, classes = reach()
    assert names(whole.made_by(classes[owner] if owner else None)) == backends


@pytest.mark.parametrize(
    ("function", "self_class", "excluded"),
    [
        ("FastBackend.plan", None, False),
        ("FastBackend.plan", "HeirBackend", False),
        ("SlowBackend.init_forward_metadata", None, True),
        ("SlowBackend.init_forward_metadata", "FastBackend", False),
        ("FastBackend.plan", "SlowBackend", False),
        ("ForwardMode.is_decode", None, True),
        ("FastGraphRunner.replay", None, False),
        ("bound", None, False),
        ("split", None, True),
    ],
)
def test_what_cannot_run_without_the_mirror(function: str, self_class: str | None, excluded: bool) -> None:
    whole, functions, _ = reach()
    assert whole.excluded(functions[function], self_class) is excluded
    assert whole.excluded(functions[function], self_class) is excluded


@pytest.mark.parametrize(
    ("function", "self_class", "known"),
    [
        ("FastBackend.plan", None, True),
        ("SlowBackend.init_forward_metadata", None, False),
        ("SlowBackend.init_forward_metadata", "FastBackend", True),
        ("FastGraphRunner.replay", None, True),
        ("called", None, True),
        ("handed", None, False),
        ("bound", None, False),
        ("Layer.forward", None, False),
        ("BoardModelRunner.replay", None, False),
    ],
)
def test_what_certainly_runs_without_it(function: str, self_class: str | None, known: bool) -> None:
    whole, functions, _ = reach()
    assert whole.known(functions[function], self_class) is known


@pytest.mark.parametrize(
    ("function", "serves"),
    [
        ("FastGraphRunner.replay", True),
        ("Helper.replay", False),
        ("called", False),
        ("BoardModelRunner.replay", False),
        ("FastBackend.plan", False),
    ],
)
def test_a_server_calls_the_methods_of_runners(function: str, serves: bool) -> None:
    whole, functions, _ = reach()
    assert whole.serves(functions[function]) is serves


@pytest.mark.parametrize(
    ("function", "file", "handed"),
    [
        ("bound", "srt/layers/attention/backends.py", True),
        ("Layer.forward", "srt/layers/attention/backends.py", True),
        ("bound", "srt/layers/helpers.py", False),
        ("FastBackend.plan", "srt/layers/attention/backends.py", False),
        ("FastBackend.plan", "srt/layers/attention/base_attn_backend.py", False),
    ],
)
def test_a_value_that_a_backend_hands_to_other_code(function: str, file: str, handed: bool) -> None:
    whole, functions, _ = reach()
    path = [Step(file, 1, "it is None"), Step("srt/layers/helpers.py", 1, "passed on")]
    assert whole.handed_by_a_backend(functions[function], path) is handed


def test_an_audit_starts_at_the_public_methods_of_backends_that_nobody_calls_for_sure() -> None:
    whole, _, _ = reach()
    found = {(function.qualname, cls) for function, cls in Entries(whole).of_backends()}
    assert found == {
        ("FastBackend.init_forward_metadata", "FastBackend"),
        ("FastBackend.init_forward_metadata", "HeirBackend"),
        ("EitherBackend.init_forward_metadata", "EitherBackend"),
        ("EitherBackend.needs_cpu_seq_lens", "EitherBackend"),
    }


def test_an_audit_starts_at_functions_without_a_caller() -> None:
    whole, _, _ = reach()
    found = {function.qualname for function, cls in Entries(whole).points() if cls is None}
    assert {"calls", "handed", "Helper.replay", "bound", "Layer.forward"} <= found
    assert not found & {"called", "split", "ForwardMode.is_decode", "FastBackend.plan"}
