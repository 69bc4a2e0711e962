from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import patchkit
from patchkit.plan.comments import COMMENT_PREFIX, commenting_patches
from patchkit.runtime import report
from patchkit.runtime.switches import DECIDING, SWITCHES, disabled, switched_off


def test_nothing_is_off_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATCHKIT_DISABLE", raising=False)
    assert switched_off() == frozenset()
    monkeypatch.setenv("PATCHKIT_DISABLE", " 28633 ,31364,")
    assert switched_off() == {"28633", "31364"}
    assert [disabled(patch) for patch in ("26128", "28633", "31364")] == [False, True, True]


def test_a_part_is_off_alone_or_with_its_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "26424/steps,28782")
    off = [disabled(name) for name in ("26424", "26424/steps", "28782", "28782/host-plan")]
    assert off == [False, True, True, True]


def test_the_former_id_of_a_part_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "28633,30947,28854")
    wanted = (
        "PATCHKIT_DISABLE names 28854, 30947: write 28782/host-plan, 26424/steps, which it is called now."
    )
    with pytest.raises(ValueError, match=wanted):
        switched_off()


@pytest.mark.parametrize("value", ["nonsense", "28633,26738", "26128;28633"])
def test_a_name_without_a_switch_is_refused_with_those_that_have_one(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", value)
    with pytest.raises(ValueError, match="cannot be turned off at run time") as refused:
        switched_off()
    assert all(patch in str(refused.value) for patch in SWITCHES)


def test_a_server_with_such_a_name_stops_as_it_imports_the_runtime(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATCHKIT_DISABLE": "2633",
        "PYTHONPATH": str(Path(patchkit.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "from patchkit.runtime import api_1"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ValueError: PATCHKIT_DISABLE names 2633, ")


def test_the_line_names_the_patches_of_the_modules_that_are_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, code in (
        ("sglang.one", f"{COMMENT_PREFIX}26128: why\n    {COMMENT_PREFIX}25925: why\n"),
        ("sglang.two", "# patchkit 26128: why\n# patchkit is not a mark\n"),
        ("other", "# patchkit 25002: why\n"),
    ):
        file = tmp_path / f"{name}.py"
        file.write_text(code)
        module = ModuleType(name)
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, name, module)
    assert commenting_patches((tmp_path / "sglang.one.py").read_bytes()) == {"26128", "25925"}
    gone = ModuleType("sglang.gone")
    gone.__file__ = str(tmp_path / "gone.py")
    monkeypatch.setitem(sys.modules, "sglang.gone", gone)
    assert report.patches_loaded() == ("25925", "26128")
    with caplog.at_level(logging.INFO):
        report.report("two-batch overlap")
    (record,) = caplog.records
    assert "lengths is kept for two-batch overlap; patches in the tree: 25925, 26128" in record.message


def test_the_patches_that_act_by_the_decision_have_switches() -> None:
    assert DECIDING.keys() < SWITCHES


@pytest.mark.parametrize(
    ("code", "value", "absent", "known"),
    [
        ("# patchkit 26397: why", "26397", "", ""),
        ("# patchkit 26397: why", "26397,28633", "28633", "26397"),
        ("# patchkit 26397: why", "26128,pk-hybrid-opt-out", "26128, pk-hybrid-opt-out", "26397"),
        # What decides about the mirror obeys these, whoever wrote the flags.
        ("patchkit_api.with_switches(a, b)", "26128,pk-hybrid-opt-out", "", ""),
        ("patchkit_api.spec_v2_backends(a, b)", "26824,31364", "31364", "26128"),
        # Has a comment and no switch.
        ("# patchkit 25925: why", "26397", "26397", "nothing"),
        ("# patchkit 28782: why", "28782/host-plan", "", ""),
        ("# patchkit 26397: why", "28782/host-plan", "28782/host-plan", "26397"),
    ],
)
def test_a_switch_of_a_patch_of_which_the_tree_has_no_code_is_a_warning_at_start(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    *,
    code: str,
    value: str,
    absent: str,
    known: str,
) -> None:
    (tmp_path / "srt").mkdir()
    (tmp_path / "srt" / "one.py").write_text(f"{code}\n")
    package = ModuleType("sglang")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "sglang", package)
    monkeypatch.setenv("PATCHKIT_DISABLE", value)
    report.warn_of_absent_patches()
    found = [record.message.partition(": ")[2] for record in caplog.records]
    names = f"PATCHKIT_DISABLE names {absent}, which changes nothing: this sglang has no code of it. "
    assert found == [f"{names}Here the variable can turn off {known}."] * bool(absent)


@pytest.mark.parametrize(("rank", "lines"), [(0, 1), (3, 0)])
def test_one_rank_writes_the_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rank: int, lines: int
) -> None:
    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: rank
    )
    monkeypatch.setattr(report, "torch", SimpleNamespace(distributed=distributed))
    with caplog.at_level(logging.INFO):
        report.report(None)
    assert len(caplog.records) == lines
