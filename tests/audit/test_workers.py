"""Which code of a tree belongs to spec v1, and the steps that a spec-v2 worker runs."""

from __future__ import annotations

import pytest

from patchkit.audit.workers import Workers
from patchkit.tree.index import Function, Program

FILES = {
    "base.py": "class BaseSpecWorker: pass\n",
    "old_worker.py": """\
from sglang.srt.speculative.old_utils import first
from sglang.srt.speculative.both_utils import shared

class OldWorker:
    def forward_batch_generation(self, batch): first(batch)
    def draft(self, batch): pass

class OldInput:
    def prepare(self): pass
""",
    "older_worker.py": """\
from sglang.srt.speculative.old_utils import first

class OlderWorker:
    def forward_batch_generation(self, batch): pass
""",
    "old_utils.py": "def first(batch): pass\n\nclass OldBuffers:\n    def fill(self): pass\n",
    "new_worker.py": """\
from sglang.srt.speculative.both_utils import shared

class NewWorker(BaseSpecWorker):
    def forward_batch_generation(self, batch): pass
    def draft(self, batch): pass
""",
    "both_utils.py": "class Shared:\n    def fill(self): pass\n",
    "alone.py": "class Alone:\n    def fill(self): pass\n",
    "two_workers.py": """\
class FirstWorker:
    def forward_batch_generation(self, batch): pass

class SecondWorker(BaseSpecWorker):
    def forward_batch_generation(self, batch): pass
""",
    "of_two.py": "class OfTwo:\n    def fill(self): pass\n",
}


def tree(**changed: str) -> tuple[Workers, dict[str, Function]]:
    sources = {f"srt/speculative/{name}": f"# seq_lens_cpu\n{text}" for name, text in FILES.items()}
    sources["srt/speculative/two_workers.py"] += "from sglang.srt.speculative.of_two import OfTwo\n"
    sources["srt/managers/worker.py"] = (
        "# seq_lens_cpu\nclass TpWorker:\n    def forward_batch_generation(self, batch): pass\n"
    )
    sources |= changed
    program = Program({name: text.encode() for name, text in sources.items()})
    functions = {
        function.qualname: function for module in program.core for function in module.all_functions()
    }
    return Workers(program), functions


@pytest.mark.parametrize(
    ("function", "is_v1"),
    [
        ("OldWorker.forward_batch_generation", True),
        ("OldWorker.draft", True),
        ("OlderWorker.forward_batch_generation", True),
        ("OldBuffers.fill", True),  # Only files of old workers import its file.
        ("FirstWorker.forward_batch_generation", True),
        ("first", False),
        ("OldInput.prepare", False),
        ("NewWorker.forward_batch_generation", False),
        ("NewWorker.draft", False),
        ("Shared.fill", False),
        ("Alone.fill", False),
        ("OfTwo.fill", False),  # So does a file that has a new worker, too.
        ("TpWorker.forward_batch_generation", False),
    ],
)
def test_code_of_spec_v1(function: str, is_v1: bool) -> None:
    workers, functions = tree()
    assert workers.is_v1(functions[function]) is is_v1


def test_a_file_that_another_folder_imports_too_is_not_of_spec_v1() -> None:
    user = "from sglang.srt.speculative.old_utils import first\n"
    workers, functions = tree(**{"srt/managers/user.py": user})
    assert not workers.is_v1(functions["OldBuffers.fill"])


def test_a_tree_without_a_class_of_spec_v2_has_no_spec_v1() -> None:
    gone = {f"srt/speculative/{name}": "" for name in ("base.py", "new_worker.py", "two_workers.py")}
    workers, functions = tree(**gone)
    assert not workers.is_v1(functions["OldWorker.draft"])
    assert not workers.is_v1(functions["OldBuffers.fill"])


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        ("NewWorker.forward_batch_generation", ["DECODE"]),
        ("NewWorker.draft", ["DECODE", "TARGET_VERIFY"]),
        ("OldWorker.forward_batch_generation", ["DECODE", "TARGET_VERIFY"]),
        ("TpWorker.forward_batch_generation", ["DECODE", "TARGET_VERIFY"]),
        ("first", ["DECODE", "TARGET_VERIFY"]),
    ],
)
def test_a_scheduler_gives_a_worker_of_spec_v2_decodes_only(function: str, steps: list[str]) -> None:
    workers, functions = tree()
    assert list(workers.steps_of(functions[function], ("DECODE", "TARGET_VERIFY"))) == steps


def test_a_function_with_the_name_of_a_workers_step_is_no_worker() -> None:
    place = "srt/managers/step.py"
    workers, functions = tree(**{place: "# seq_lens_cpu\ndef forward_batch_generation(batch): pass\n"})
    steps = ("TARGET_VERIFY",)
    assert workers.steps_of(functions["forward_batch_generation"], steps) == steps
