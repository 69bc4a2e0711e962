"""Write what README.md and docs/patches.md show of commands, patches and measurements from the thing itself.

usage: python scripts/generate_docs.py [--check]

The pages hold calls of this module's functions, in comments, in front of what those return; cog puts it
there. With ``--check`` nothing is written, and the script fails if a page would change. Needs what ``.[dev]``
installs, git, and the package index the first time.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from cogapp import Cog

from patchkit import patchset

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).parents[1]
PAGES = ("README.md", "docs/patches.md", "docs/benchmarks.md")
RELEASE = "0.5.12.post1"
HOME = "/home/you"
"""Where a session's temporary folder is said to be."""
UPSTREAM_MEASURED = {
    "26241": "mean time per output token 2.47 to 2.41 ms (-2.4 %), median 2.44 to 2.38 ms (-2.5 %), accept "
    "length unchanged at 3.94: Kimi-K2.5-NVFP4, TP 4, 80K context, EAGLE3 with 3 steps",
}
"""What the pull requests' reports say was measured; those of the others name no figure."""


class Session:
    """A shell in ``fork``, a git checkout of a release with a backend of its own, beside ``my-patches``."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="patchkit-docs-")).resolve()
        atexit.register(shutil.rmtree, self.home)
        sys.path.append(str(REPOSITORY / "tests"))
        from releases import unpack

        examples = REPOSITORY / "docs" / "examples"
        python = self.home / "fork" / "python"
        unpack(RELEASE, python)
        shutil.copy(examples / "acme_backend.py", python / "sglang/srt/layers/attention/acme_backend.py")
        shutil.copytree(examples / "acme-opt-out", self.home / "my-patches" / "acme-opt-out")
        self.run("git init -q && git add . && git commit -qm 'As it was'")

    def run(self, command: str) -> str:
        """Return what a command prints; RuntimeError with that if the command fails."""
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_NAME": "You" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "you@example.com" for who in ("AUTHOR", "COMMITTER")},
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.home / "fork",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"`{command}` ended with {done.returncode}: {done.stdout}")
        return done.stdout.replace(str(self.home), HOME)


_session = functools.cache(Session)


def session(*commands: str) -> str:
    """Return a code block of commands, each with what it prints; the fork stays as they leave it."""
    lines = ["```console"]
    for command in commands:
        lines += [f"$ {command}", *_session().run(command).splitlines()]
    return "\n".join([*lines, "```"])


def quoted(file: str, language: str) -> str:
    """Return a file of the repository as a code block."""
    return f"```{language}\n{(REPOSITORY / file).read_text(encoding='utf-8').rstrip()}\n```"


def patch_table() -> str:
    """Return the patches, what each brings along, and what upstream measured."""
    rows = []
    for patch in patchset.load():
        link = f"[{patch.id}]({patch.upstream})" if patch.upstream else patch.id
        tied = [f"requires {name}" for name in patch.requires] + [f"hardens {name}" for name in patch.hardens]
        rows.append([link, patch.title, ", ".join(tied), UPSTREAM_MEASURED.get(patch.id, "")])
    return _table(["patch", "what it does", "goes with", "upstream measured"], rows)


BENCHMARKS = REPOSITORY / "docs" / "benchmarks"


def _results(name: str) -> dict[str, Any]:
    return dict(json.loads((BENCHMARKS / name / "results.json").read_text(encoding="utf-8")))


def measured() -> str:
    """Return what ``scripts/bench_decode.py`` measured of a decode step."""
    rows = []
    for result in _results("decode")["results"]:
        ratio, profile = result["ratio"], result["profile"]
        cells = [result["layers"], result["batch"], result["tree"], f"{result['step']['median']:.3f}"]
        counts = [f"{profile[key]:.1f}" for key in ("synchronisations", "copies_to_host")]
        tokens = "identical" if result["identical"] else "differ"
        rows.append([*map(str, cells), f"{ratio['median']:.3f}", *counts, tokens])
    return _table(
        ["layers", "batch", "tree", "ms per step", "ratio", "host syncs", "copies to host", "tokens"], rows
    )


def compared(name: str) -> str:
    """Return what became of each scenario's tokens on each tree of one run."""
    results = _results(name)["results"]
    trees = list(dict.fromkeys(result["tree"] for result in results))
    rows: dict[str, list[str]] = {}
    for result in results:
        outcome = {None: "crashes", True: "identical", False: "differ"}[result["identical"]]
        rows.setdefault(result["scenario"], []).append(outcome)
    return _table(["scenario", *trees], [[scenario, *cells] for scenario, cells in rows.items()])


def launches(batch: int = 8, context: int = 8192) -> str:
    """Return launches and time of one metadata fill, by mode and contender."""
    rows = []
    for result in _results("metadata")["results"]:
        if (result["batch"], result["context"], result["swa"]) == (batch, context, False) and result[
            "activity"
        ]:
            host, ratio = result["host"]["median"], result["ratio"]
            activity = result["activity"]
            count = f"{activity['kernels'] + activity['copies']:.0f}"
            rows.append([result["mode"], result["contender"], count, f"{host:.1f}", f"{ratio['median']:.2f}"])
    return _table(["mode", "contender", "launches", "microseconds", "times patchkit's"], rows)


def run_of(name: str) -> str:
    """Return the machine, the date and the command of one run."""
    run = _results(name)
    machine = run["machine"]
    versions = {**machine, **run.get("versions", {})}
    with_what = ", ".join(f"{key} {versions[key]}" for key in ("torch", "triton") if key in versions)
    return f"{machine['gpu']}, {with_what}, {run['date'][:10]}:\n\n    {run['command']}"


def edit_kinds() -> str:
    """Return the kinds of edit, what each does, and its keys beside those that every edit has."""
    shared = {field.name for field in msgspec.structs.fields(patchset.EditSpec)}
    rows = []
    for kind in typing.get_args(patchset.AnyEdit):
        own = [field for field in msgspec.structs.fields(kind) if field.name not in shared]
        keys = ", ".join(f"`{field.encode_name}`" + ("" if field.required else "?") for field in own)
        rows.append([f"`{kind.__struct_config__.tag}`", _first_line(kind), keys])
    return _table(["kind", "what it does", "its keys"], rows)


def _first_line(documented: Any) -> str:
    return str(documented.__doc__).strip().splitlines()[0].replace("``", "`")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them; return 0 if they are as they should be."""
    how = ["--check", "--diff"] if "--check" in arguments else ["-r"]
    os.chdir(REPOSITORY)
    return int(Cog().main(["cog", *how, "-I", "scripts", *PAGES]) or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
