"""Run an sglang engine in this process: read commands line by line, and reply in JSON.

usage: bench_engine.py SETTINGS.json REPLIES, where REPLIES is the number of an inherited file descriptor.

The runs of which a batch was launched are recorded beside the settings.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from bench_options import adapted
from bench_probe import RECORD, Ticket, has_launched
from bench_reach import PACKAGE, REACHED

# Seconds for the last batch to end before the cache can be flushed.
DRAIN = 10.0


def flush(engine: Any) -> None:
    """Empty the cache before a run. Raise RuntimeError if the engine does not become idle."""
    until = time.monotonic() + DRAIN
    while not engine.flush_cache().success:
        if time.monotonic() > until:
            raise RuntimeError(
                f"The engine was not idle {DRAIN:.0f} s after its last run: see the scheduler's log."
            )
        time.sleep(0.05)


def addresses(mode: str | None, count: int) -> dict[str, Any]:
    """Return where requests come from: for a decode server the address from which sglang transfers nothing."""
    if mode != "decode":
        return {}
    return {"bootstrap_host": ["2.2.2.2"] * count, "bootstrap_room": list(range(count))}


def generate(engine: Any, command: dict[str, Any], run: int, record: str, mode: str | None) -> dict[str, Any]:
    """Run the requests of one command, and return their outputs.

    ``mode``: sglang's ``disaggregation_mode``, if the server has one.
    """
    requests = command["requests"]
    flush(engine)
    replies = engine.generate(
        input_ids=[request["prompt"] for request in requests],
        # The end token is not ignored: for a request that ignores it, sglang reserves the whole cache that it may
        # need, and would never retract one.
        sampling_params=[sampling(request) | request["penalties"] for request in requests],
        rid=[
            str(Ticket(run, index, len(requests), request["enters"], request["aborted"], command["pause"]))
            for index, request in enumerate(requests)
        ],
        return_logprob=command["logprobs"],
        top_logprobs_num=2 if command["logprobs"] else 0,
        **addresses(mode, len(requests)),
    )
    if not has_launched(record, run):
        raise RuntimeError("The probe did not find the requests in this tree's scheduler: adapt its gate.")
    return {"outputs": [output(reply) for reply in replies]}


def sampling(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request's sampling parameters; a grammar's regular expression is the number of tokens that it allows."""
    grammar = {"regex": str(request["grammar"])} if request["grammar"] else {}
    return {"temperature": request["temperature"], "max_new_tokens": request["new_tokens"], **grammar}


def output(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a request's tokens, the reason of its end, its verify steps, and log probabilities if requested."""
    meta = reply["meta_info"]
    return {
        "tokens": list(reply["output_ids"]),
        "finish": meta["finish_reason"]["type"],
        "steps": meta.get("spec_verify_ct", 0),
        "logprobs": [entry[0] for entry in meta.get("output_token_logprobs", ())],
    }


def versions() -> dict[str, str]:
    """Return the versions that tokens depend on."""
    import torch

    gpu = driver = "none"
    if torch.cuda.is_available():
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        gpu, driver = torch.cuda.get_device_name(), pynvml.nvmlSystemGetDriverVersion()
    return {
        "gpu": gpu,
        "driver": driver,
        "cuda": torch.version.cuda or "none",
        "torch": torch.__version__,
        "triton": installed("triton"),
        "python": platform.python_version(),
    }


def installed(package: str) -> str:
    """Return the package's version, "none" without it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def main() -> None:
    """Start the engine, then run commands until the input ends."""
    settings = Path(sys.argv[1])
    descriptor = int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    replies = os.fdopen(descriptor, "w")

    def reply(content: dict[str, Any]) -> None:
        replies.write(json.dumps(content) + "\n")
        replies.flush()

    sglang: Any = importlib.import_module("sglang")
    # Enables the probe in the scheduler's process.
    record = os.environ[RECORD] = str(settings.with_name("launches"))
    os.environ[PACKAGE] = str(Path(sglang.__file__).parent)
    os.environ[REACHED] = str(settings.with_name("reached"))
    arguments = importlib.import_module("sglang.srt.server_args").ServerArgs
    known = list(inspect.signature(arguments).parameters)
    options = json.loads(settings.read_text())
    engine = sglang.Engine(**adapted(options, known))
    reply({"sglang": sglang.__file__, "versions": versions()})
    for run, line in enumerate(sys.stdin):
        reply(generate(engine, json.loads(line), run, record, options.get("disaggregation_mode")))
    engine.shutdown()


if __name__ == "__main__":
    main()
