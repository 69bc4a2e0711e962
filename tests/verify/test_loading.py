"""Importing patched modules: what they do to the process is found, and never taken for the check's own answer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from support.processes import ends, require_list, running
from support.sweeps import crossed

from patchkit.verify.checks import loading

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.verify.check import CheckOutcome
    from patchkit.verify.subject import Subject

FAKE = '{"errors": {}, "absent": []}'


@pytest.fixture(autouse=True)
def _torch_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: object())


def write(folder: Path, text: str) -> None:
    for file, content in {"__init__.py": "", "srt/__init__.py": "", "srt/module.py": text}.items():
        path = folder / "sglang" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def imported(folder: Path, text: str, replaced: dict[str, bytes | None] | None = None) -> CheckOutcome:
    write(folder, text)
    subject = SimpleNamespace(
        tree=SimpleNamespace(package=folder / "sglang", name="sglang"),
        files=("srt/module.py",),
        replaced=replaced or {},
    )
    return loading.check(cast("Subject", subject))


def test_a_module_that_prints_and_is_imported_is_fine(tmp_path: Path) -> None:
    outcome = imported(tmp_path, f"print({FAKE!r})\nimport not_installed_here\n")
    assert outcome.findings == ()
    assert outcome.notes == ("stand-ins for not_installed_here",)


def test_a_module_that_installs_the_event_loop_of_an_absent_package_is_fine(tmp_path: Path) -> None:
    text = "import asyncio\nimport not_installed_here as uvloop\n"
    outcome = imported(tmp_path, f"{text}asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())\n")
    assert outcome.findings == ()


def test_an_error_is_found_with_its_line_whatever_the_module_prints(tmp_path: Path) -> None:
    (finding,) = imported(tmp_path, f"print({FAKE!r})\n\nraise RuntimeError('broken')\n").findings
    assert (finding.file, finding.line) == ("srt/module.py", 3)
    assert "broken" in finding.message


def test_what_a_file_held_before_is_imported_in_its_place_and_not_its_byte_code(tmp_path: Path) -> None:
    assert imported(tmp_path, "now = 1\n").findings == ()
    before: dict[str, bytes | None] = {
        "srt/module.py": b"# coding: latin-1\nassert '\xe9' == '\\xe9'\nimport sglang.gone\n"
    }
    (finding,) = imported(tmp_path, "now = 1\n", before).findings
    assert (finding.line, finding.message) == (3, "ModuleNotFoundError: No module named 'sglang.gone'")


@pytest.mark.parametrize("end", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_module_that_ends_the_process_is_found_whatever_it_prints(tmp_path: Path, end: str) -> None:
    (finding,) = imported(tmp_path, f"import os\nprint({FAKE!r}, flush=True)\n{end}\n").findings
    assert "the import process ended early" in finding.message


def test_a_module_that_does_not_end_is_stopped_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_SECONDS", 2)
    started = "import subprocess\nsubprocess.Popen(['sleep', '600'])\nwhile True:\n    pass\n"
    (finding,) = imported(tmp_path, started).findings
    assert "not imported in 2 s" in finding.message


def test_a_program_that_a_module_leaves_behind_holds_nothing_up(tmp_path: Path) -> None:
    assert imported(tmp_path, "import subprocess\nsubprocess.Popen(['sleep', '600'])\n").findings == ()


PROGRAM = """
import signal, sys
from pathlib import Path
from types import SimpleNamespace
from patchkit.verify.checks import loading
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Under nohup, tests ignore it.
loading.find_spec = lambda name: object()
loading._SECONDS, loading._GRACE = int(sys.argv[2]), 1
tree = SimpleNamespace(package=Path(sys.argv[1]), name="sglang")
loading.check(SimpleNamespace(tree=tree, files=("srt/module.py",), replaced={}))
"""


ENDS = {
    "terminated": signal.SIGTERM,
    "hung up": signal.SIGHUP,
    "killed": signal.SIGKILL,
    "stopped": signal.SIGSTOP,
}


@pytest.mark.parametrize(
    ("busy", "how"),
    crossed(["while True: pass", "import re; re.match('(a+)+$', 'a' * 60 + 'b')"], ENDS, one_in=2),
)
def test_modules_end_with_the_process_that_imports_them_or_at_the_limit(
    tmp_path: Path, busy: str, how: str
) -> None:
    end, seconds = ENDS[how], 3 if how == "stopped" else 300
    require_list()
    begun = tmp_path / "begun"
    started = f"import os, subprocess\nsubprocess.Popen(['sleep', '600'])\nos.mkdir('{begun}')\n"
    write(tmp_path, f"{started}os.rename('{begun}', f'{begun}-{{os.getpgrp()}}')\n{busy}\n")
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "sglang"), str(seconds)])
    group = 0
    try:
        while not (paths := list(tmp_path.glob("begun-*"))):
            assert process.poll() is None
            time.sleep(0.02)
        group = int(paths[0].name.partition("-")[2])
        process.send_signal(end)
        assert ends(group)
    finally:
        process.kill()
        process.wait()
        if group and running(group):
            os.killpg(group, signal.SIGKILL)


@pytest.mark.parametrize(
    "call", ["create_connection(('127.0.0.1', {port}), 5)", "getaddrinfo('localhost', {port})"]
)
def test_a_module_gets_no_network(tmp_path: Path, call: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (finding,) = imported(tmp_path, f"import socket\nsocket.{call.format(port=port)}\n").findings
    assert "have no network access" in finding.message
