from __future__ import annotations

from support.audited import MemoryTree, prelude

from patchkit.audit.engine import audit

DECISION = """\
def decide_needs_cpu_seq_lens(server_args, attn_backends):
    if getattr(server_args, "enable_layer_overlap", True):
        return True
    if not getattr(server_args, "disable_eager_graphs", False):
        return True
    return any(getattr(b, "needs_cpu_seq_lens", True) for b in attn_backends if b is not None)


def restore(batch):
    if batch.seq_lens_cpu is None:
        batch.seq_lens_cpu = batch.seq_lens.cpu()


def total(batch):
    return batch.seq_lens_sum


def listed(lens):
    return None if isinstance(lens, torch.Tensor) else lens


def counted(lens):
    return None if isinstance(lens, list) else lens
"""


def tree(body: str) -> MemoryTree:
    header = "from sglang._patchkit import decision as patchkit_api\n\n\n"
    files = {**prelude(), "_patchkit/__init__.py": "", "_patchkit/decision.py": DECISION}
    return MemoryTree({**files, "srt/managers/example.py": header + body})


def test_a_mirror_that_the_runtime_restores_is_there() -> None:
    body = "def plan(batch):\n    patchkit_api.restore(batch)\n    return batch.seq_lens_cpu.max()\n"
    assert audit(tree(body)).findings == ()


def test_a_mirror_that_the_runtime_only_passes_on_is_not() -> None:
    body = "def plan(batch):\n    return patchkit_api.total(batch) + 1\n"
    assert [finding.line for finding in audit(tree(body)).findings] == [5]


def test_a_length_that_the_runtime_gives_for_a_list_alone_is_none_for_a_tensor() -> None:
    body = "def plan(batch):\n    patchkit_api.listed(batch.seq_lens).max(), batch.seq_lens_cpu\n"
    assert [finding.line for finding in audit(tree(body)).findings] == [5]
    other = body.replace("listed", "counted")
    assert audit(tree(other)).findings == ()


def test_a_feature_for_which_the_runtimes_decision_keeps_the_mirror_is_no_finding() -> None:
    body = (
        "def plan(args, batch):\n    if args.enable_layer_overlap:\n        return batch.seq_lens_cpu.max()\n"
    )
    assert audit(tree(body)).findings == ()
    other = body.replace("enable_layer_overlap", "enable_something_else")
    assert len(audit(tree(other)).findings) == 1


def test_a_setting_that_the_decision_demands_is_taken_as_on() -> None:
    guard = "    if not args.disable_eager_graphs:\n"
    body = f"def plan(args, batch):\n{guard}        return batch.seq_lens_cpu.max()\n"
    assert audit(tree(body)).findings == ()


def test_only_files_of_the_package_folder_are_counted() -> None:
    assert audit(tree("")).files_scanned == len(prelude()) + 1
