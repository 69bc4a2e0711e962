#!/usr/bin/env python3
"""Count what becomes of the launch lines of public documentation on trees of sglang.

usage: python scripts/count_launch_lines.py --docs CLONE TREE... [--at COMMIT] [--most N] [-o FILE]

Takes each server of the Markdown files, scripts and manifests in a repository (a bare one will do) and settles it on
each TREE as `patchkit doctor` does on a Hopper GPU, and on a Blackwell one if the first refuses it. Counts those that
are answered, those that the tree's own code refuses, with file and line, and others: the tree's code could not be
executed, or a file that is named is not there. Repeated lines count once; those of other devices and of diffusion do
not count.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from patchkit.doctor.execution.process import Execution  # noqa: E402
from patchkit.doctor.files import servers_of_file  # noqa: E402
from patchkit.doctor.options import Arguments  # noqa: E402
from patchkit.errors import PatchkitError  # noqa: E402
from patchkit.tree.tree import open_tree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.doctor.command_line import ServerCommand
    from patchkit.tree.tree import CheckoutTree

_FILES = re.compile(r"(^|/)(docs|docs_new|examples|benchmark|docker|README)\b.*\.(md|mdx|sh|ya?ml)$")
_OTHERS = re.compile(
    r"ascend|npu|xpu|musa|tpu|cpu_server|hpu|apple|amd_gpu|diffusion|multimodal_gen|deprecated", re.IGNORECASE
)
_DEVICES = frozenset(
    {"npu", "xpu", "cpu", "hpu", "musa", "tpu", "ascend", "intel_amx", "intel_xpu", "diffusion", "--num-gpus"}
)


def drawn(clone: Path, commit: str) -> Iterator[tuple[str, ServerCommand]]:
    """Yield each server of a repository's documents once, with its file and line."""
    git = ("git", "-C", str(clone))
    names = subprocess.run(
        (*git, "ls-tree", "-r", "--name-only", commit), capture_output=True, text=True, check=True
    )
    seen: set[object] = set()
    for name in names.stdout.splitlines():
        if _FILES.search(name) is None or _OTHERS.search(name):
            continue
        shown = subprocess.run((*git, "show", f"{commit}:{name}"), capture_output=True, check=True)
        for server in servers_of_file(name, shown.stdout.decode(errors="replace")):
            if server.options not in seen and not _DEVICES & {word.text for word in server.options}:
                seen.add(server.options)
                yield f"{name}:{server.line}", server


def settled(tree: CheckoutTree, lines: list[tuple[str, ServerCommand]]) -> Iterator[tuple[str, str, str]]:
    """Yield what becomes of each line on a tree: answered, refused or other, with the reason."""
    with Execution(tree.package, tree.name, Path.cwd()) as execution:
        for where, server in lines:
            outcome, why = "other", ""
            for gpu in ("h100", "b200"):
                try:
                    launch = Arguments(tree, execution, (gpu,)).launch(server)
                except PatchkitError as error:
                    why = str(error).replace("\n", " ")
                    outcome = "refused" if "this tree's server" in why else "other"
                    continue
                notes = [note for note in launch.notes if "were not executed" in note]
                outcome, why = ("other", notes[0]) if notes else ("answered", "")
                if not notes:
                    break
            yield where, outcome, why


def main() -> None:
    """Count, and print the figures and each line that is not answered."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--docs", type=Path, required=True, help="the repository with the documents")
    parser.add_argument("--at", default="HEAD", help="the commit")
    parser.add_argument("--most", type=int, help="as many lines, evenly drawn")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines = list(drawn(options.docs, options.at))
    if options.most and len(lines) > options.most:
        lines = [lines[place * len(lines) // options.most] for place in range(options.most)]
    answer: dict[str, object] = {"lines": len(lines)}
    for root in options.trees:
        tree = open_tree(root)
        found = list(settled(tree, lines))
        counts = Counter(outcome for _, outcome, _ in found)
        answer[str(tree.version)] = {
            "counts": counts,
            "not_answered": [one for one in found if one[1] != "answered"],
        }
        print(f"{tree.version}: {len(lines)} lines, {dict(counts)}", flush=True)
        for where, outcome, why in found:
            if outcome != "answered":
                print(f"  {where}: {outcome}: {why}", flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
