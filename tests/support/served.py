"""A tree whose server is a few lines: it answers sglang's routes as `srt/behaviour.py` says, which patches change."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from support.toys import SOURCES, add_patch, rewriting, write_package

if TYPE_CHECKING:
    from pathlib import Path

BEHAVIOUR = "srt/behaviour.py"
# A step that sleeps ten times as long as the other does so on every machine.
SLOW, FAST = "STEP = 0.004", "STEP = 0.0004"
_BEHAVIOUR = f"""\
{SLOW}
OFFSET = 0
WAITS = 3
STARTS = True
SERVES = True
ANSWERS = True
STEADY = True
"""
_SERVER = """
import argparse, gzip, itertools, json, os, signal, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from sglang.srt import behaviour

STEPS = 2  # Tokens of each verify step.
runs = itertools.count()
profile = {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({"skip_tokenizer_init": "--skip-tokenizer-init" in sys.argv})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path == "/start_profile":
            profile.update(asked)
        self.answer(generate(asked) if self.path == "/generate" else {})

    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def generate(asked):
    count = asked["sampling_params"]["max_new_tokens"]
    steps = (count - 1) // STEPS
    number = next(runs)
    if not behaviour.SERVES and number > 6:
        print("Traceback (most recent call last):\\n  File \\"a.py\\", line 1\\nIndexError: no such slot", flush=True)
        os.killpg(0, signal.SIGKILL)
    if not behaviour.ANSWERS and number > 6:
        time.sleep(600)
    time.sleep(steps * behaviour.STEP)
    if profile:
        write_trace(profile.pop("output_dir"), profile.pop("num_steps"))
        profile.clear()
    prompts = asked.get("text") or asked["input_ids"]
    odd = 0 if behaviour.STEADY else number
    return [
        {
            "output_ids": [len(prompt) + place + (place > 9) * (behaviour.OFFSET + odd) for place in range(count)],
            "meta_info": {"finish_reason": {"type": "length"}, "spec_verify_ct": steps},
        }
        for prompt in prompts
    ]


def write_trace(folder, steps):
    events = []
    for step in range(steps):
        at = step * 1000.0
        for _ in range(behaviour.WAITS if step else 1):
            call = {"name": "cudaStreamSynchronize", "cat": "cuda_runtime", "args": {}, "ts": at + 10, "dur": 50}
            events.append({"ph": "X", "tid": 1, **call})
        # The prefill runs other kernels; one runs twice in a step.
        kernels = [("verify", 100), ("layer", 200), ("layer", 500)] if step else [("prefill", 100)]
        for name, place in kernels:
            events.append({"ph": "X", "tid": 7, "name": name, "cat": "kernel", "ts": at + place, "dur": 100})
    with gzip.open(os.path.join(folder, "1-TP-0.trace.json.gz"), "wt") as file:
        json.dump({"traceEvents": events}, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--max-total-tokens", type=int)
    options, _ = parser.parse_known_args()
    scheduler = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(os.environ["STAND_IN"], "a") as log:
        print(json.dumps([os.getpgid(0), options.port, sys.argv]), file=log)
    taken = os.environ["STAND_IN"] + ".taken"
    if os.path.exists(taken):
        os.remove(taken)
        scheduler.kill()
        sys.exit("OSError: [Errno 98] address already in use")
    if not behaviour.STARTS:
        scheduler.kill()
        sys.exit("RuntimeError: CUDA error: invalid device function")
    if os.environ.get("STAND_IN_ALONE") and len(open(os.environ["STAND_IN"]).readlines()) == 2:
        scheduler.kill()
        sys.exit("RuntimeError: Not enough memory.")
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


main()
"""


def write_served(package: Path) -> Path:
    """Write the tree."""
    files = {BEHAVIOUR: _BEHAVIOUR.encode(), "srt/__init__.py": b"", "launch_server.py": _SERVER.encode()}
    return write_package(package, {**SOURCES, **files})


def add_change(folder: Path, name: str, *changes: tuple[str, str]) -> None:
    """Write a patch that changes how the tree's server behaves."""
    edits = [rewriting(f"edit{number}", BEHAVIOUR, old, new) for number, (old, new) in enumerate(changes)]
    add_patch(folder, name, *edits)


def started(log: Path) -> list[tuple[int, int, list[str]]]:
    """Return the process group, the port and the words of each server that was started."""
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def write_smi(folder: Path, used: int = 10, total: int = 80000, busy: int = 0) -> Path:
    """Write an ``nvidia-smi`` that reports one GPU, and return its folder."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(
        textwrap.dedent(f"""\
            #!/bin/sh
            echo "0, GPU-0, Stand-in, {used}, {total}, {busy}"
        """)
    )
    program.chmod(0o755)
    return folder
