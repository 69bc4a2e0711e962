#!/usr/bin/env python3
"""Count what becomes of the launch lines of public documentation on trees of sglang, and compare with real settings.

usage: python scripts/count_launch_lines.py --docs CLONE [--docs CLONE]... TREE... [--deciding] [--most N]
       [--real PYTHON] [-o FILE]

Takes each server of the Markdown files, scripts and manifests in repositories (bare ones will do) and settles it on
each TREE as `patchkit doctor` does on a Hopper GPU, and on a Blackwell one if the first refuses it. Counts those that
are answered, those that the tree's own parser or code refuses, and others: the tree's code could not be executed.
Repeated lines count once; those of other devices and of diffusion do not count. --deciding leaves those that name a
speculative algorithm or an attention backend.

--real compares instead: PYTHON has torch and transformers (and what patchkit needs), and settles each line that is
known whole by the tree's own `prepare_server_args` on a GPU that is not there. The model is the same for both: one that
the line's name tells, else each kind of model in turn.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import types
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from patchkit.doctor.command_line import in_a_file  # noqa: E402
from patchkit.doctor.execution import fakes, kinds  # noqa: E402
from patchkit.doctor.execution.gpus import GPUS, USUAL  # noqa: E402
from patchkit.doctor.execution.named import by_name  # noqa: E402
from patchkit.doctor.execution.process import Execution  # noqa: E402
from patchkit.doctor.files import servers_of_file  # noqa: E402
from patchkit.doctor.options import Arguments, _model_path  # noqa: E402
from patchkit.errors import PatchkitError  # noqa: E402
from patchkit.tree.tree import open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.doctor.command_line import ServerCommand
    from patchkit.tree.tree import CheckoutTree

_FILES = re.compile(r"\.(md|mdx|sh|sbatch|slurm|ya?ml)$|(^|/)dockerfile[^/]*$", re.IGNORECASE)
_OTHERS = re.compile(
    r"ascend|npu|xpu|musa|tpu|cpu_server|hpu|apple|amd|rocm|diffusion|multimodal_gen|deprecated|(^|/)tests?/",
    re.IGNORECASE,
)
_DEVICES = frozenset(
    {"npu", "xpu", "cpu", "hpu", "musa", "tpu", "ascend", "intel_amx", "intel_xpu", "diffusion", "--num-gpus"}
)
_DECIDING = re.compile(r"--(speculative-algo|(prefill-|decode-)?attention-backend)")
_PLAIN = (bool, int, float, str, type(None))
# What differs in two starts of the same server.
_OF_A_START = re.compile(
    r"(.*_)?(path|port|seed|dir|url|addr|file)|served_model_name|model_config|random_seed"
)
_USED = re.compile(
    r".*attention_backend|speculative_.*|page_size|.*cuda_graph.*|disable_overlap_schedule|.*spec_v2.*"
)


def drawn(clone: Path, *, deciding: bool) -> Iterator[tuple[str, ServerCommand]]:
    """Yield each server of a repository's documents once, with its file and line."""
    git = ("git", "-C", str(clone))
    names = subprocess.run(
        (*git, "ls-tree", "-r", "--name-only", "HEAD"), capture_output=True, text=True, check=True
    )
    seen: set[object] = set()
    for name in names.stdout.splitlines():
        if _FILES.search(name) is None or _OTHERS.search(name):
            continue
        # The largest files of a snapshot may be absent.
        shown = subprocess.run((*git, "show", f"HEAD:{name}"), capture_output=True, check=False)
        for server in map(in_a_file, servers_of_file(name, shown.stdout.decode(errors="replace"))):
            texts = [word.text for word in server.options]
            if (
                server.options in seen
                or _DEVICES & {*texts}
                or (deciding and not any(map(_DECIDING.match, texts)))
            ):
                continue
            seen.add(server.options)
            yield f"{clone.parent.name}/{name}:{server.line}", server


def settled(tree: CheckoutTree, lines: Sequence[tuple[str, ServerCommand]]) -> Iterator[tuple[str, str, str]]:
    """Yield what becomes of each line on a tree: answered, refused by its parser or its code, or other, and why."""
    with Execution(tree.package, tree.name, Path.cwd()) as execution:
        for where, server in lines:
            outcome, why = "other", ""
            for gpu in USUAL:
                try:
                    launch = Arguments(tree, execution, (gpu,)).launch(server)
                except PatchkitError as error:
                    why = str(error).replace("\n", " ")
                    kinds_of = {"server refuses": "parser", "server raises": "code"}
                    outcome = next((kind for text, kind in kinds_of.items() if text in why), "other")
                    continue
                notes = [note for note in launch.notes if "were not executed" in note]
                outcome, why = ("other", notes[0]) if notes else ("answered", "")
                if not notes:
                    break
            yield where, outcome, why


# The comparison.


def asked(lines: Sequence[tuple[str, ServerCommand]]) -> Iterator[tuple[str, ServerCommand, dict[str, Any]]]:
    """Yield each line that is known whole, with the configuration of its model."""
    for place, (where, server) in enumerate(lines):
        named = by_name(_model_path(server.options))
        config = (named.kind if named is not None else kinds.KINDS[place % len(kinds.KINDS)]).config
        if server.is_alone and all(
            word.known and not word.text.startswith("--config") for word in server.options
        ):
            yield where, server, config


def compared(tree: CheckoutTree, lines: Sequence[tuple[str, ServerCommand]], python: str) -> dict[str, Any]:
    """Return how many settings of the lines differ on a tree from the real ones, and each difference."""
    found: dict[str, Any] = {"pairs": 0, "settings": 0, "used": 0, "both_refuse": 0, "differences": []}
    requests = list(asked(lines))
    for gpu in USUAL:
        sent = "".join(
            json.dumps([[word.text for word in server.options], dict(server.environment), config]) + "\n"
            for _, server, config in requests
        )
        command = (python, __file__, "--serve-real", gpu, str(tree.package.parent), tree.name)
        ended = subprocess.run(command, input=sent, capture_output=True, text=True, check=False)
        answers = [json.loads(line) for line in ended.stdout.splitlines()]
        if len(answers) != len(requests) + 1:
            raise SystemExit(f"{tree.version}: the real settings ended early: {ended.stderr[-2000:]}")
        found["absent"] = answers.pop()
        with Execution(tree.package, tree.name, Path.cwd()) as execution:
            for (where, server, config), real in zip(requests, answers, strict=True):
                text = json.dumps(config).encode()
                arguments = Arguments(tree, execution, (gpu,), {"model": text, "draft": text})
                ours: dict[str, Any] = {}
                refused = ""
                try:
                    launch = arguments.launch(server)
                    ours = {**launch.cases[0].settings}
                    refused = next((note for note in launch.notes if "not executed" in note), "")
                except PatchkitError as error:
                    refused = str(error)
                found["pairs"] += 1
                if refused or isinstance(real, str):
                    found["both_refuse"] += bool(refused) and isinstance(real, str)
                    different = [] if refused and isinstance(real, str) else [("", refused, str(real)[:300])]
                else:
                    shared = [name for name in sorted(ours.keys() | real) if not _OF_A_START.fullmatch(name)]
                    found["settings"] += len(shared)
                    found["used"] += sum(_USED.fullmatch(name) is not None for name in shared)
                    different = [
                        (name, ours.get(name, "absent"), real.get(name, "absent"))
                        for name in shared
                        if ours.get(name, "absent") != real.get(name, "absent")
                    ]
                for name, one, other in different:
                    is_used = not name or _USED.fullmatch(name) is not None
                    found["differences"].append([where, gpu, config["model_type"], name, is_used, one, other])
    return found


def serve_real(gpu_name: str, folder: str, name: str) -> None:
    """Answer each launch of stdin with its real settings, or with the text of what it raises."""
    import torch

    # A torchvision for CUDA has no operators on a CPU, but is imported if these are declared.
    for operator in ("nms", "qnms"):
        signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{operator}", signature)
    import transformers  # type: ignore[import-not-found]  # noqa: F401  # It is imported as it is, before anything stands in.
    import triton

    gpu = GPUS[gpu_name]
    sys.path.insert(0, folder)
    finder = fakes.SettingsFinder(name, absent=fakes.Installed.absent | {"aiter"})
    sys.meta_path.append(finder)
    installed = importlib.metadata.version

    def version(package: str) -> str:
        try:
            return installed(package)
        except importlib.metadata.PackageNotFoundError:
            if re.match("flashinfer|sgl|nvidia|apache|quack", package):
                return "99.0.0"
            raise

    importlib.metadata.version = version  # type: ignore[assignment]
    torch.version.cuda = "13.0"
    fakes.have_gpu(torch.cuda, gpu)
    target = types.SimpleNamespace(backend="cuda", arch=gpu.capability[0] * 10, warp_size=32)
    triton.runtime.driver._active = types.SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        get_active_torch_device=lambda: "cuda",
    )
    fakes.have_programs(gpu, subprocess.run)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module = importlib.import_module(f"{name}.srt.server_args")
    with tempfile.TemporaryDirectory() as private:
        for line in sys.stdin:
            read, write = os.pipe()
            child = os.fork()
            if not child:
                os.chdir(private)
                try:
                    answer: Any = _real(module, name, *json.loads(line))
                except BaseException as error:
                    answer = f"{type(error).__name__}: {error}"
                with os.fdopen(write, "w") as told:
                    json.dump(answer, told)
                os._exit(0)
            os.close(write)
            with os.fdopen(read) as told:
                out.write((told.read() or '"ended early"') + "\n")
            os.waitpid(child, 0)
    out.write(json.dumps(sorted(finder.absent)) + "\n")
    out.flush()


def _real(
    module: Any, name: str, options: list[str], environment: dict[str, str], config: dict[str, Any]
) -> dict[str, Any]:
    Path("model").mkdir(exist_ok=True)
    Path("model/config.json").write_text(json.dumps(config), encoding="utf-8")
    model = str(Path("model").absolute())
    os.environ.update(environment)
    fakes.have_adapters(re.findall(r"[\w.-]+", " ".join(options)))
    drafts = [word for word in options if re.match("--speculative-draft(-model(-path)?)?(=|$)", word)]
    argparse.ArgumentParser.error = _raise  # type: ignore[method-assign,assignment]
    settings = module.prepare_server_args(
        [*options, "--model-path", model, *(["--speculative-draft-model-path", model] if drafts else [])]
    )
    getattr(settings, "resolve_once", lambda: None)()
    view = settings
    with suppress(ImportError):
        overrides = importlib.import_module(f"{name}.srt.arg_groups.overrides")
        view = getattr(overrides, "resolving_view", getattr(overrides, "resolved_view", lambda each: each))(
            settings
        )
    if hasattr(settings, "check_server_args"):
        settings.check_server_args()
    declared = (getattr(type(settings), where, ()) for where in ("__dataclass_fields__", "__annotations__"))
    names = dict.fromkeys([*(name for names in declared for name in names), *vars(settings)])
    found = {name: getattr(view, name, None) for name in names if not name.startswith("_")}
    return {
        each: getattr(value, "value", value) for each, value in found.items() if isinstance(value, _PLAIN)
    }


def _raise(_: object, message: str) -> None:
    raise ValueError(message)


def main() -> None:
    """Count or compare, and print the figures and each line that is not answered or differs."""
    if sys.argv[1:2] == ["--serve-real"]:
        serve_real(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument(
        "--docs", type=Path, action="append", required=True, help="a repository with documents"
    )
    parser.add_argument("--deciding", action="store_true", help="only lines with speculation or a backend")
    parser.add_argument("--most", type=int, help="as many lines of each repository, evenly drawn")
    parser.add_argument("--real", metavar="PYTHON", help="compare with the real settings in this environment")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines = []
    for clone in options.docs:
        found = list(drawn(clone, deciding=options.deciding))
        if options.real:
            found = [(where, server) for where, server, _ in asked(found)]
        most = min(options.most or len(found), len(found))
        lines += [found[place * len(found) // most] for place in range(most)]
    answer: dict[str, Any] = {
        "repositories": dict(Counter(where.partition("/")[0].replace("+", "/") for where, _ in lines)),
        "lines": len(lines),
        "trees": {},
    }
    for root in options.trees:
        tree = open_tree(root)
        if options.real:
            answer["trees"][root.name] = result = compared(tree, lines, options.real)
            print(
                f"{root.name}: { ({key: value for key, value in result.items() if key != 'differences'}) }",
                flush=True,
            )
            for each in result["differences"]:
                print(" ", *each, flush=True)
            continue
        outcomes = list(settled(tree, lines))
        counts = dict(Counter(outcome for _, outcome, _ in outcomes))
        others = [one for one in outcomes if one[1] != "answered"]
        answer["trees"][root.name] = {"counts": counts, "not_answered": others}
        print(f"{root.name}: {len(lines)} lines, {counts}", flush=True)
        for one in others:
            print(" ", ": ".join(one), flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
