"""Write the generated parts of the pages: output of commands, patches and measurements.

usage: python scripts/generate_docs.py [--check]

The pages contain calls of this module's functions in comments, and cog inserts the results after them. Plots are
drawn from the same measurements. With ``--check`` nothing is written, and the script fails if a page or a plot
would change. Requires the dependencies of ``.[dev]``, git, and the package index on the first run.
"""

from __future__ import annotations

import atexit
import functools
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import gpu_runs
import msgspec
import plots
from click_man.core import generate_man_page
from cogapp import Cog

from patchkit import __version__
from patchkit.bench.recorded import Recorded, recorded
from patchkit.cli import bench
from patchkit.cli import main as main_command
from patchkit.cli.schemas import ANSWERS, json_schema
from patchkit.cli.schemas import schema as schema_of
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.kinds import KINDS
from patchkit.errors import PatchkitError
from patchkit.patchset import configuration, load, runs, schema
from patchkit.patchset.select import GROUPS
from patchkit.plan.status import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from matplotlib.figure import Figure

REPOSITORY = Path(__file__).parents[1]
SCHEMA = REPOSITORY / "docs" / "patch.schema.json"
KIND_PAGES = REPOSITORY / "docs" / "kinds"
MAN_PAGES = REPOSITORY / "docs" / "man"
REFERENCE = REPOSITORY / "docs" / "reference"
RELEASED = "2026-11-28"
"""The day of the present version, on the manual pages."""
PAGES = (
    "README.md",
    "docs/audit.md",
    "docs/authoring.md",
    "docs/configuration.md",
    "docs/limits.md",
    "docs/maintaining.md",
    "docs/port.md",
    "docs/benchmarks.md",
    "docs/drift.md",
    "docs/reliability.md",
)
RELEASE = "0.5.12.post1"
UPSTREAM = "https://github.com/sgl-project/sglang"
HOME = "/home/you"
"""Replaces the session's temporary folder in its output."""


class Session:
    """A shell in ``fork``, a git checkout of a release with an additional backend, beside ``my-patches``."""

    def __init__(self) -> None:
        # As long on every machine, and short: where a line of a terminal is broken depends on it.
        self.home = Path(tempfile.mkdtemp(prefix="pk", dir="/tmp")).resolve()
        atexit.register(shutil.rmtree, self.home)
        sys.path.append(str(REPOSITORY / "tests"))
        from support.releases import unpack

        examples = REPOSITORY / "docs" / "examples"
        python = self.home / "fork" / "python"
        unpack(RELEASE, python)
        shutil.copy(examples / "acme_backend.py", python / "sglang/srt/layers/attention/acme_backend.py")
        shutil.copytree(examples / "acme-opt-out", self.home / "my-patches" / "acme-opt-out")
        self.run("git init -q && git add . && git commit -qm 'As it was'")

    def run(self, command: str) -> str:
        """Return a command's output. Raise RuntimeError with it if the command fails."""
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "GIT_CONFIG_NOSYSTEM": "1",
            # Lines are as on a terminal of 80 columns, without colours.
            "FORCE_COLOR": "1",
            "TERM": "dumb",
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
        is_adapted = command.startswith("patchkit port ") and done.returncode == 1
        if done.returncode and not is_adapted:
            raise RuntimeError(f"`{command}` ended with {done.returncode}: {done.stdout}")
        return done.stdout.replace(str(self.home), HOME)


_session = functools.cache(Session)


def session(*commands: str) -> str:
    """Return a code block of commands with their output; changes of the fork persist."""
    lines = ["```console"]
    for command in commands:
        lines += [f"$ {command}", *_session().run(command).strip("\n").splitlines()]
    return "\n".join([*lines, "```"])


def port_session(*commands: str) -> str:
    """Return a session in which the fork's backend has drifted from that in ``../theirs``, which a diff was made on."""
    backend = "python/sglang/srt/layers/attention/acme_backend.py"
    drift = (
        "s/runner/model_runner/g",
        "s/^        self.seq_lens = /        self.steps += 1\\n&/",
        "s/^        self.device = /        self.steps = 0\\n&/",
        "s/torch.empty(/torch.zeros(/",
    )
    shutil.copy(REPOSITORY / "docs" / "examples" / "port" / "narrow-indices.diff", _session().home)
    _session().run("cp -r python ../theirs")
    _session().run(f"sed -i '{';'.join(drift)}' {backend} && git commit -qam 'It counts its steps'")
    shown = session(*commands)
    _session().run("git reset -q --hard HEAD^")
    return shown


def quoted(file: str, language: str) -> str:
    """Return a file of the repository as a code block."""
    return f"```{language}\n{(REPOSITORY / file).read_text(encoding='utf-8').rstrip()}\n```"


BENCHMARKS = REPOSITORY / "docs" / "benchmarks"
REPLAY = (8, 8192)
"""Batch and context of the metadata fills that are shown in detail."""


def _results(name: str) -> dict[str, Any]:
    return dict(json.loads((BENCHMARKS / name / "results.json").read_text(encoding="utf-8")))


def _text_tools() -> dict[str, Any]:
    results: dict[str, Any] = json.loads((BENCHMARKS / "text-tools.json").read_text(encoding="utf-8"))
    return results


def text_tools() -> str:
    """Return the results of ``scripts/compare_text_tools.py``, one row per tool."""
    results = _text_tools()
    columns = {"clean": "clean", "correct": "correct", "wrong": "wrong", "conflict": "left"}
    rows = [[result["tool"], *(str(result[key]) for key in columns.values())] for result in results["tools"]]
    kinds = Counter(tree["kind"] for tree in results["trees"])
    trees = ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
    return f"{results['files']} files in {len(results['trees'])} trees ({trees}):\n\n" + _table(
        ["tool", *columns], rows
    )


def _ported() -> dict[str, Any]:
    results: dict[str, Any] = json.loads((BENCHMARKS / "port.json").read_text(encoding="utf-8"))
    return results


def _audits() -> dict[str, Any]:
    results: dict[str, Any] = json.loads((BENCHMARKS / "audit.json").read_text(encoding="utf-8"))
    return results


def audited() -> str:
    """Return what ``scripts/bench_audit.py`` found in each tree, and its CPU seconds."""
    keys = ("files", "certain", "likely", "possible")
    rows = [
        [tree["name"], *(str(tree[key]) for key in keys), f"{tree['cpu_s']:.1f}"]
        for tree in _audits()["trees"]
    ]
    return _table(["tree", *keys, "CPU seconds"], rows)


def audited_beside_pyright() -> str:
    """Return the findings, known defects and CPU seconds of the audit and of pyright on one tree."""
    audits = _audits()
    compared = audits["compared"]
    (tree,) = (tree for tree in audits["trees"] if tree["name"] == compared["tree"])
    checker = compared["pyright"]
    rows = [
        [
            "`patchkit audit`",
            f"{tree['certain'] + tree['likely']} certain or likely, {tree['possible']} possible",
            f"{len(compared['audit']['known'])} of {len(compared['known'])}",
            f"{tree['cpu_s']:.1f}",
        ],
        [
            "pyright (standard)",
            f"{checker['findings']:,}, {checker['about_none']:,} of them about None",
            f"{len(checker['known'])} of {len(compared['known'])}",
            f"{checker['cpu_s']:.1f}",
        ],
    ]
    return _table([f"{compared['tree']}: tool", "findings", "known defects", "CPU seconds"], rows)


def ported_backwards() -> str:
    """Return what ``scripts/bench_port.py backwards`` measured, one row per tool and one column per distance."""
    backwards = _ported()["backwards"]
    columns = backwards["distances"]
    tools = list(next(iter(columns.values()))["tools"])
    rows = [
        [tool, *(_share(column["tools"][tool], column["files"]) for column in columns.values())]
        for tool in tools
    ]
    missing = [column.get("lacking", {}).get("a statement", 0) for column in columns.values()]
    ours = [
        f"{each['tools']['patchkit port']['landed'] / max(1, each['files'] + more):.0%}".replace("%", " %")
        for each, more in zip(columns.values(), missing, strict=True)
    ]
    rows.append(["patchkit port, a missing statement counted as a conflict", *ours])
    rows.append(["files", *(str(column["files"]) for column in columns.values())])
    for lacking in ("the file", "a class or function", "a statement"):
        counts = (column.get("lacking", {}).get(lacking, 0) for column in columns.values())
        rows.append([f"not counted: the tree lacks {lacking}", *map(str, counts)])
    head = ["tool: clean files (wrong)", *(f"{distance} back" for distance in columns)]
    return f"{backwards['commits']} commits, seed {backwards['seed']}:\n\n" + _table(head, rows)


def _share(tally: dict[str, Any], files: int) -> str:
    wrong = f" ({tally['wrong']})" if tally["wrong"] else ""
    return f"{tally['landed'] / max(1, files):.0%}{wrong}".replace("%", " %")


def ported_left() -> str:
    """Return the number of files with a conflict by its reason and by distance."""
    kinds = {
        "conflict": "the tree has other code at the site",
        "unmet": "the new code uses a name that the tree does not define",
        "no-site": "the tree has no such file, class or function",
    }
    columns = _ported()["backwards"]["distances"]
    rows = [
        [reason, *(str(column["left"].get(kind, 0)) for column in columns.values())]
        for kind, reason in kinds.items()
    ]
    return _table(["reason of the conflict", *(f"{distance} back" for distance in columns)], rows)


def ported_elsewhere() -> str:
    """Return the comparison of ports with the patches that a project keeps for each release."""
    humans = _ported()["humans"]
    ours, steps = "patchkit port", humans["steps"]
    rows = [[f"{step['from']} to {step['to']}", *_kept(Counter(step["edits"][ours]))] for step in steps]
    edits = {tool: Counter[str]() for tool in steps[0]["tools"]}
    files = {tool: Counter[str]() for tool in edits}
    for step in steps:
        for tool, tally in step["tools"].items():
            edits[tool].update(step["edits"][tool])
            files[tool].update({key: tally[key] for key in ("landed", "wrong")})
    rows.append(["all", *_kept(edits[ours])])
    count, unfit = (sum(step[key] for step in steps) for key in ("files", "unfit"))
    tools = [
        [
            tool,
            _share(dict(tally), count),
            *(str(edits[tool][key]) for key in ("equal", "different", "missing")),
        ]
        for tool, tally in files.items()
    ]
    return (
        _table(["step", "kept", "equal", "different", "missing", "changed by people"], rows)
        + f"\n\nAll steps together, {count} files; {unfit} parts of a patch do not fit its release and are skipped:\n\n"
        + _table(["tool", "clean files (wrong)", "kept edits: equal", "different", "missing"], tools)
    )


def _kept(edits: Counter[str]) -> list[str]:
    """Return the number of edits that people kept, and their outcomes."""
    kept = edits["equal"] + edits["different"] + edits["missing"]
    return [str(kept), *(str(edits[key]) for key in ("equal", "different", "missing", "theirs"))]


PEOPLES = ("picks", "branches", "fresh", "series")
"""The sets of ports that are compared with what people did."""


def ported_beside_people() -> str:
    """Return how ports of picks and of folders of patches compare with what people did."""
    told = []
    for name in PEOPLES:
        sample = _ported()[name]
        tools: dict[str, Counter[str]] = {}
        for row in sample["repositories"].values():
            for tool, outcomes in row["tools"].items():
                tools.setdefault(tool, Counter()).update(outcomes)
        cells = [
            [tool, *(str(found[key]) for key in ("equal", "different", "broken", "conflict"))]
            for tool, found in tools.items()
        ]
        judged = Counter(
            (each["judgement"], each["said"])
            for row in sample["repositories"].values()
            for each in row["different"]
        )
        kinds = ("right", "unsure", "wrong")
        all_of, said = (
            ", ".join(
                f"{judged[kind, True] + (0 if only_said else judged[kind, False])} {kind}" for kind in kinds
            )
            for only_said in (False, True)
        )
        again = Counter(_ported()["mended"].get(name, {}))
        mended = (
            f" After the mends {again['equal']} are equal, {again['different']} different." if again else ""
        )
        rows = ", ".join(f"{row['changes']} of {name}" for name, row in sample["repositories"].items())
        told.append(
            f"`{name}`: {rows}; {tools['patchkit port'].total()} files.\n\n"
            + _table(["tool: files", "equal", "different", "broken", "conflict"], cells)
            + f"\n\nThe different ones of `patchkit port`: {all_of}; of these are reported: {said}.{mended}"
        )
    return "\n\n".join(told)


def ported_drafts() -> str:
    """Return the outcomes of commits as patches of their own on trees of another month."""
    sample = _ported()["drafts"]
    names = {
        "before": "a month before the commit",
        "later": "a month later",
        "without": "a month later, without the commit, as far as git's merge can take it out",
    }
    rows = [
        [name, *(str(sample[key].get(outcome, 0)) for outcome in ("right", "conflict", "different"))]
        for key, name in names.items()
    ]
    return _table(["the tree", "right", "conflict", "different"], rows)


def launch_lines() -> str:
    """Return how many public launch lines ``doctor`` answers, and how its settings compare with real ones."""
    found = json.loads((BENCHMARKS / "launch-lines.json").read_text(encoding="utf-8"))
    held, real, recipes = found["held_out"], found["real"], found["recipes"]
    told = []
    for when, trees in held["runs"].items():
        lines, ours = (sum(tree[key] for tree in trees.values()) for key in ("lines", "other"))
        own = sum(tree["parser"] + tree["code"] for tree in trees.values())
        told.append(f"{when} {ours} of {lines} ({ours / lines:.1%}), and {own} that the tree itself refuses")
    keys = ("pairs", "used", "different", "ended_otherwise")
    pairs, used, different, ended = (f"{sum(tree[key] for tree in real['trees'].values()):,}" for key in keys)
    text = (
        f"- Of launch lines with speculation or an attention backend from {len(held['commits'])} public repositories, "
        f"chosen before `doctor` had read them, it has no answer for {'; '.join(told)} "
        f"(on {' and '.join(held['runs']['at first'])}). A real `ServerArgs`, with torch and transformers, resolved "
        f"{pairs} launches on {', '.join(real['trees'])}: of {used} settings that `doctor` uses {different} differ, "
        f"and {ended} launches end otherwise. {recipes['recipes']} recipes on one tree take {recipes['cpu_s']} CPU "
        "seconds. `scripts/count_launch_lines.py` counts and compares; `docs/benchmarks/launch-lines.json` has the "
        "kinds of what is refused and differs."
    )
    return textwrap.fill(text, 140, subsequent_indent="  ", break_on_hyphens=False)


def merged_again() -> str:
    """Return what the merge driver made of other projects' merges, by repository."""
    results = json.loads((BENCHMARKS / "merge-driver.json").read_text(encoding="utf-8"))
    rows = [
        [name, *(f"{found[key]:,}" for key in _MERGED)]
        for sample in results.values()
        for name, found in sample["repositories"].items()
    ]
    told = []
    for sample in results.values():
        total = {key: sum(row[key] for row in sample["repositories"].values()) for key in _MERGED}
        shares = [
            f"{total['clean'] / total['files']:.0%} of the files in conflict",
            f"{total['picks_clean'] / total['python']:.0%} of the picks in which only Python files are in conflict",
            f"{total['picks_clean'] / total['picks']:.0%} of all picks",
        ]
        judged: dict[str, int] = sample["judged"]
        told.append(
            f"- {', '.join(sample['repositories'])}, seed {sample['seed']}: {', '.join(shares)} are clean. Of the "
            f"{sum(judged.values())} clean files that differ from the people's, {judged['right']} are right, "
            f"{judged['unsure']} unsure and {judged['wrong']} wrong."
        )
    return "\n".join([_table(["repository", *_MERGED.values()], rows), "", *told])


_MERGED = {
    "picks": "picks in conflict",
    "python": "only Python files",
    "picks_clean": "clean picks",
    "files": "files in conflict",
    "clean": "clean",
    "equal": "equal to people's",
    "order": "in another order",
}
"""The columns of the figures on merges, by the key of a figure."""


def controls() -> str:
    """Return what became of controls, copies of a patched tree with one fault, by fault."""
    ends: dict[str, Counter[str]] = {}
    for file in sorted(BENCHMARKS.rglob("*.json")):
        run = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(run, dict) and "bench_decode.py" in str(run.get("command")):
            faulty = {tree["name"] for tree in run["trees"] if tree.get("control")}
            for result in run["results"]:
                if result["tree"] in faulty:
                    end = {None: "crashes", True: "identical", False: "differs"}[result["identical"]]
                    ends.setdefault(result["tree"].rpartition("/")[2], Counter())[end] += 1
    shown = ("differs", "crashes", "identical")
    return _table(
        ["fault", "tokens differ", "crashes", "tokens identical"],
        [[f"`{name}`", *(str(found[end]) for end in shown)] for name, found in sorted(ends.items())],
    )


def masks_written() -> str:
    """Return in one sentence how many batches wrote past the end of a tree mask, by ``check_tree_mask.py``."""
    over: Counter[bool] = Counter()
    batches: Counter[bool] = Counter()
    failed: Counter[bool] = Counter()
    for outcome in json.loads((BENCHMARKS / "masks.json").read_text(encoding="utf-8"))["outcomes"]:
        patched = outcome["tree"] != "unpatched"
        batches[patched] += 1
        over[patched] += bool(outcome["overflow"])
        failed[patched] += bool(outcome["error"])
    return (
        f"Of {batches[True]} batches of patched trees {over[True]} wrote past the end of a verify's tree mask and "
        f"{failed[True]} failed; of {batches[False]} of the unpatched release {over[False]} wrote past it and "
        f"{failed[False]} failed."
    )


def _fills() -> list[dict[str, Any]]:
    """The metadata measurements without a sliding window."""
    return [result for result in _results("metadata")["results"] if not result["swa"]]


def _replays() -> list[dict[str, Any]]:
    return [
        result for result in _fills() if (result["batch"], result["context"]) == REPLAY and result["activity"]
    ]


def many_refs() -> str:
    """Return the results of ``scripts/bench_matrix.py`` by kind of refs, and the time of a further ref."""
    measured = json.loads((BENCHMARKS / "matrix.json").read_text(encoding="utf-8"))
    keys = ("refs", "states", "examined")
    rows = [
        [
            *(kind, run["run"], *(str(run[key]) for key in keys)),
            *(f"{run['cpu_s']:.1f}", f"{run['wall_s']:.1f}", f"{run['peak_mb']:.0f}"),
        ]
        for kind, runs in (("commits", measured["runs"]), ("branches", measured["diverged"]))
        for run in runs
    ]
    commit, day = measured["last"]
    more = measured["further"]
    besides = _besides(measured["load"])
    return (
        f"`patchkit matrix` over the last {measured['runs'][0]['refs']} commits of upstream's main up to {commit} "
        f"({day}), each as a branch, and over {measured['diverged'][0]['refs']} branches that leave main at any "
        "commit; three of five change files that patches edit. "
        f"{measured['date'][:10]}, {measured['jobs']} processes on {measured['cores']} cores, "
        f"which {besides}:\n\n"
        f"    {measured['command']}\n\n"
        + _table(["kind", "run", *keys, "CPU s", "wall s", "MB of a process"], rows)
        + f"\n\nA further ref whose files are cached takes {1000 * more['median_s']:.1f} ms in the median, "
        f"{1000 * more['most_s']:.1f} ms at most, over {more['refs']} refs, each with a package folder that no other "
        "ref has."
    )


def _besides(load: float) -> str:
    """Return the other load of a machine at the start of a measurement, in words."""
    return f"ran {load:.0f} other processes" if load >= 0.5 else "were otherwise idle"


def kill_rates() -> str:
    """Return the share of small faults, inserted one at a time, that a test finds, by sample.

    Of a sample that someone else judged also that of those that are not equivalent, with the tests written since.
    """
    folder = BENCHMARKS / "mutation"
    files = [path for path in sorted(folder.rglob("*.json")) if path.stem != "judged"]
    runs = sorted(
        (json.loads(path.read_text(encoding="utf-8")) for path in files), key=lambda run: run["date"]
    )
    notes = json.loads((folder / "tool" / "judged.json").read_text(encoding="utf-8"))
    judged = {(note["file"], note["diff"]): note for note in notes if "judgement" in note}
    rows = []
    for run in runs:
        survivors = [
            judged.get((each["file"], each["diff"])) for each in run["results"] if not each["killed"]
        ]
        sound = [
            survivor
            for survivor in survivors
            if survivor is not None and survivor["judgement"] != "equivalent"
        ]
        since = run["killed"] + sum(bool(each["killed_since"]) for each in sound)
        today = "" if None in survivors or not survivors else f"{since} of {run['killed'] + len(sound)}"
        sample = re.search(r"--(?:room|only) (\S+)", run["command"])
        name = sample[1] if sample else "patches and runtime"
        rows.append([name, str(run["seed"]), run["date"][:10], f"{run['killed']} of {run['mutants']}", today])
    return _table(["code", "seed", "date", "found by a test", "not equivalent, today"], rows)


@dataclass(frozen=True)
class Plot:
    """A plot: its title and alternative text, and the function that draws it."""

    shows: str
    draw: Callable[[], Figure]


def pictures() -> dict[str, Plot]:
    """Return the plots of the existing runs, by name."""
    metadata = _results("metadata")
    contenders = tuple(metadata["trees"])
    batch, context = REPLAY
    return {
        "gains": Plot(
            "Bars: time of a decode step of the patched tree over the unpatched one by release, server and batch, with "
            "whiskers for the 95 % interval, and how far apart the same tree twice was",
            lambda: plots.gains(gain_rows()),
        ),
        "metadata-fills": Plot(
            f"Bars: microseconds per replay by mode and contender at batch {batch}, context {context}",
            lambda: plots.fills(_replays()),
        ),
        "metadata-ratios": Plot(
            "Lines, a panel a mode: time per replay over patchkit's against batch, for each context length",
            lambda: plots.fill_ratios(_fills(), contenders),
        ),
        "text-tools": Plot(
            "Bars by tool: files that are clean and correct, clean and wrong, and files with a conflict, in all trees",
            lambda: plots.text_tools(_text_tools()["tools"], _text_tools()["files"]),
        ),
        "port": Plot(
            "Lines by tool: the share of clean files and of clean but wrong files, by the age of the tree in commits",
            lambda: plots.ported(_ported()["backwards"]["distances"]),
        ),
        "metadata-floor": Plot(
            "Points: the device's time of patchkit's launch against the least that its bytes can take",
            lambda: plots.fill_floor(metadata["results"], metadata["ceilings"]["empty_kernel_us"]),
        ),
    }


def plot(name: str, folder: str = "benchmarks") -> str:
    """Return a plot as Markdown, for a page from which ``folder`` is the path to the plots."""
    return f"![{pictures()[name].shows}]({folder}/{name}.svg)"


def stale_pictures(*, write: bool) -> list[str]:
    """Return the names of the plots that are out of date; with ``write``, update them."""
    drawn = {f"{name}.svg": plots.svg(picture.draw(), picture.shows) for name, picture in pictures().items()}
    kept = {file.name: file.read_text(encoding="utf-8") for file in BENCHMARKS.glob("*.svg")}
    stale = sorted(name for name in drawn.keys() | kept.keys() if drawn.get(name) != kept.get(name))
    for name in stale if write else ():
        if name in drawn:
            (BENCHMARKS / name).write_text(drawn[name], encoding="utf-8")
        else:
            (BENCHMARKS / name).unlink()
    return stale


def _card(gpu: str) -> str:
    """Return a GPU's name without its vendor and its memory."""
    return re.sub(r" \d+GB\b.*", "", gpu.removeprefix("NVIDIA "))


BACKEND_NAMES = {
    "fa3": "FlashAttention-3",
    "flashinfer": "FlashInfer",
    "triton": "Triton",
    "trtllm_mha": "TRTLLM MHA",
    "trtllm_mla": "TRTLLM MLA",
}


NO_BREAK = "&nbsp;"
BUSY = " whose machine had other busy GPUs"


def _benchmarks() -> list[Recorded]:
    """Return the recorded answers of ``bench``, by release and server, larger models first."""

    def place(each: Recorded) -> tuple[Any, ...]:
        reference, measured = (gpu_runs.order(tree.version or "") for tree in each.answer.trees)
        return measured, reference, _server(each), -each.layers, len(each.answer.trees[1].patches), each.name

    return sorted(recorded(BENCHMARKS / "bench"), key=place)


def _server(found: Recorded) -> str:
    """Return a server in words: its backend, and its model, top-k and prompts if they are not the usual ones."""
    backends = " and ".join(BACKEND_NAMES.get(name, name) for name in found.backend.split("+"))
    model = "" if found.model == "Llama" else found.model
    drafts = {1: "", None: "no drafts"}.get(found.top_k, f"top-k {found.top_k}")
    prompts = "" if "--skip-tokenizer-init" in found.answer.command else "text"
    return ", ".join(filter(None, (backends, model, drafts, prompts)))


def _compared_releases(found: Recorded) -> str:
    reference, measured = (tree.version or "unknown" for tree in found.answer.trees)
    return measured if reference == measured else f"{measured} over {reference}"


def _default() -> set[str]:
    return {patch.id for patch in load.patches() if patch.default}


def _given(found: Recorded) -> str:
    """Return the patches of the second tree in words, and of the first if it has any."""

    def named(patches: Sequence[str]) -> str:
        opted = [patch for patch in patches if patch not in default]
        usual = f"{len(patches) - len(opted)} default"
        return _listed([usual, *opted]) if len(opted) < 3 else f"{usual} and {len(opted)} opt-in"

    default = _default()
    first, second = (tree.patches for tree in found.answer.trees)
    if found.answer.is_same_tree:
        return "the same tree twice"
    return f"{named(second)}, over {named(first)}" if first else named(second)


def _machines(found: Sequence[Recorded]) -> dict[str, list[Recorded]]:
    """Return answers by the GPUs that they were measured on, in words; first of machines that did nothing else."""
    machines: dict[str, list[Recorded]] = {}

    def was_alone(each: Recorded) -> bool:
        # What is in use is counted before and after, and the other GPU's measurement may have ended by then.
        return each.answer.was_alone and not any(
            "other GPU was measured" in note for note in each.answer.notes
        )

    for each in sorted(found, key=lambda each: not was_alone(each)):
        (name, count), *_ = Counter(map(_card, each.answer.gpus)).items()
        machine = f"one {name}" if count == 1 else f"{count} {name}s"
        machines.setdefault(f"{machine}{'' if was_alone(each) else BUSY}", []).append(each)
    return machines


def _same_tree(found: Sequence[Recorded]) -> str:
    """Return in a clause what the same tree twice came out at."""
    apart = [batch.ratio for each in found if each.answer.is_same_tree for batch in each.answer.batches]
    return f"the same tree twice came out at {_span(apart)}" if apart else "no tree ran beside itself"


def benched() -> str:
    """Return a table for each kind of machine with a row for each recorded answer, and a line in it for each batch."""

    def row(found: Recorded) -> list[str]:
        lines = []
        for batch in found.answer.batches:
            at = "({:.3f} to {:.3f})".format(*batch.interval) if batch.interval else ""
            busy = " / ".join(f"{cost.gpu_busy:.0%}" if cost else NEVER for cost in batch.costs)
            gain = "none" if batch.interval else "not known"
            if found.differs(batch):
                gain = f"{abs(1 - batch.ratio):.1%} {'less' if batch.ratio < 1 else 'more'}"
            lines.append([
                *(f"{batch.batch}: {batch.ratio:.3f} {at}".strip(), gain),
                *(" / ".join(f"{each:.2f}" for each in batch.step_ms), busy, str(batch.pairs), batch.tokens),
            ])  # fmt: skip
        server = (_compared_releases(found), _server(found), str(found.layers), _given(found))
        # Lines of a row stay beside each other if none is broken.
        figures = ("<br>".join(line).replace(" ", NO_BREAK) for line in zip(*lines, strict=True))
        return [*server, *figures]

    head = "release|server|layers|patches|batch: ratio (95 % interval)|gain|ms a step|GPU busy|pairs|tokens"
    return "\n\n".join(
        f"On {machine}; {_same_tree(found)}:\n\n{_table(head.split('|'), [row(each) for each in found])}"
        for machine, found in _machines(_benchmarks()).items()
    )


def gain_rows() -> list[plots.GainRow]:
    """Return the ratios of all recorded answers as rows of a plot, by machine and release."""
    default = _default()
    rows = []
    for machine, answers in _machines(_benchmarks()).items():
        for found in answers:
            label = f"{_server(found)}, {found.layers} layers"
            opted = len(set(found.answer.trees[1].patches) - default)
            label += (
                ", the same tree twice" if found.answer.is_same_tree else f", {opted} opt-in" if opted else ""
            )
            ratios = {batch.batch: (batch.ratio, batch.interval) for batch in found.answer.batches}
            heading = f"{_compared_releases(found)}, {machine.removeprefix('one ')}"
            rows.append(plots.GainRow(heading, label, ratios, found.spread))
    return rows


def bench_said(name: str) -> str:
    """Return a recorded answer of ``bench`` as it is printed, in a code block."""
    (found,) = (each.answer for each in _benchmarks() if each.name == name)
    with redirect_stdout(io.StringIO()) as printed:
        bench.say(found, 256)
    return f"```\n{printed.getvalue().rstrip()}\n```"


def gained_in_brief() -> str:
    """Return what servers gained with the default patches by size and release, and what the same tree came out at."""
    default = _default()
    parts = []
    for machine, answers in _machines(_benchmarks()).items():
        spans: dict[tuple[int, str], list[float]] = {}
        servers = [
            found
            for found in answers
            if found.is_of(default) and all(batch.interval for batch in found.answer.batches)
        ]
        undecided = 0
        for found in sorted(servers, key=lambda each: -each.layers):
            decided = [batch.ratio for batch in found.answer.batches if found.differs(batch)]
            undecided += not decided
            if decided:
                spans.setdefault((found.layers, _compared_releases(found)), []).extend(decided)
        told = [
            f"{_listed([f'{_span(ratios)} on {release}' for (_, release), ratios in same])} with {layers} layers"
            for layers, same in itertools.groupby(spans.items(), key=lambda row: row[0][0])
        ]
        whose = "the others'" if undecided else "their"
        others = f" Of the unpatched time, {whose} step takes {'; '.join(told)}." if told else ""
        if servers:
            same = f"{undecided} of {len(servers)} servers show{'s' * (undecided == 1)} no difference"
            result = same if undecided else f"all {len(servers)} servers gain"
            parts.append(f"On {machine}, {result}.{others} There {_same_tree(answers)}.")
    return " ".join(
        ["`patchkit bench` timed servers with default patches alone and synthetic weights.", *parts]
    )


def _span(ratios: Sequence[float]) -> str:
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return low if low == high else f"{low} to {high}"


def ported_in_brief() -> str:
    """Return how many of the edits that people kept each tool makes as they did, and how many are wrong unsaid."""
    made: dict[str, Counter[str]] = {}
    steps = _ported()["humans"]["steps"]
    for step in steps:
        for tool in ("patchkit port", "git am -3"):
            made.setdefault(tool, Counter()).update(step["edits"][tool])
    kept = sum(made["patchkit port"][end] for end in ("equal", "different", "missing"))
    samples = [row for name in PEOPLES for row in _ported()[name]["repositories"].values()]
    ends = sum((Counter(row["tools"].get("patchkit port")) for row in samples), Counter[str]())
    judged = Counter((each["judgement"], each["said"]) for row in samples for each in row["different"])
    right, unsure, wrong = (judged[kind, True] + judged[kind, False] for kind in ("right", "unsure", "wrong"))
    return (
        f"Another project moved its patch over {len(steps)} releases of sglang by hand. `patchkit port` makes "
        f"{made['patchkit port']['equal']} of these {kept} changes as that project did, `git am -3` "
        f"{made['git am -3']['equal']}. Of {ends.total()} files into which people of other forks had moved a change by "
        f"hand, `patchkit port` makes {ends['equal']} equal to theirs and {ends['different']} different, of which "
        f"{right} are right too, {unsure} unclear and {wrong} wrong, {judged['wrong', False]} of them without a "
        f"warning; {ends['conflict']} are conflicts ([docs/drift.md](docs/drift.md))."
    )


NEVER = "-"
"""In a table: not measured, or never run."""


def ran_by_release() -> str:
    """Return a section per release that ran on a GPU, and the names of the other releases."""
    places = gpu_runs.latest(gpu_runs.outcomes(BENCHMARKS))
    ran = sorted({place.release for place in places}, key=gpu_runs.order)
    parts = [
        _ran_on(release, {place: found for place, found in places.items() if place.release == release})
        for release in ran
    ]
    built = gpu_runs.constructed()
    others = [release for release in gpu_runs.RELEASES if release not in ran]
    for heading, names in (
        ("Constructed on a CPU and never run", [release for release in others if release in built]),
        ("Never run", [release for release in others if release not in built]),
    ):
        if names:
            parts.append(f"{heading}: {', '.join(names)}.")
    return "\n\n".join(parts)


def ran_in_brief() -> str:
    """Return a row per model family and backend with default patches: the releases by what became of the tokens."""
    places = gpu_runs.latest(gpu_runs.outcomes(BENCHMARKS))
    ends: dict[tuple[str, str], dict[str, str]] = {}
    for place, found in places.items():
        if not place.backend.endswith(gpu_runs.OPT_IN):
            by_release = ends.setdefault((f"{place.family}, {place.algorithm}", place.backend), {})
            by_release[place.release] = _worst(each.end for each in found.values())
    rows = [
        [*server, *(_releases([name for name, end in found.items() if end == wanted]) for wanted in ENDS)]
        for server, found in sorted(ends.items())
    ]
    return _table(["model family, speculation", "backend", *ENDS.values()], rows)


ENDS = {
    gpu_runs.IDENTICAL: "all tokens identical",
    gpu_runs.DIFFER: "some differ",
    gpu_runs.NOT_COMPARED: "served where the unpatched release fails",
}
"""What became of the tokens of a release's runs, in words."""


def _worst(ends: Iterable[str]) -> str:
    """Return what a release's runs show, by their ends: a difference, else that tokens were the same, if any were."""
    found = set(ends)
    return next(end for end in (gpu_runs.DIFFER, gpu_runs.IDENTICAL, *found) if end in found)


_Found = dict[gpu_runs.Scenario, gpu_runs.Outcome]


def _ran_on(release: str, places: dict[gpu_runs.Place, _Found]) -> str:
    """Return the section of one release: its table, and every outcome that differs from the unpatched tree's."""
    table = _table(
        ["model family, speculation", "backend", "outcome", "latest result"],
        [
            [f"{place.family}, {place.algorithm}", place.backend, *_came_out(found)]
            for place, found in sorted(places.items())
        ],
    )
    lines = [line for place, found in sorted(places.items()) for line in _not_identical(place, found)]
    return "\n\n".join([f"## {release}", table, *(["\n".join(lines)] if lines else [])])


def _not_identical(place: gpu_runs.Place, found: _Found) -> list[str]:
    """Return the list item of one place with the scenarios in each outcome but identical; empty if there is none."""
    others: dict[tuple[str, str], list[str]] = {}
    for outcome in found.values():
        if outcome.end != gpu_runs.IDENTICAL:
            others.setdefault((outcome.end, outcome.detail), []).append(f"`{outcome.scenario.label}`")
    items = [f"  - {', '.join(labels)}: {': '.join(filter(None, what))}" for what, labels in others.items()]
    return [f"- {place.family}, {place.algorithm}, {place.backend}:", *items] if items else []


def _came_out(found: _Found) -> tuple[str, str]:
    """Return the cells of a row: identical tokens in how many scenarios, and the latest date with its GPU."""
    names = {scenario.name for scenario in found}
    otherwise = {
        outcome.scenario.name: outcome.end for outcome in found.values() if outcome.end != gpu_runs.IDENTICAL
    }
    if names == otherwise.keys():
        tokens = ", ".join(sorted(set(otherwise.values())))
    else:
        tokens = "tokens identical" + (
            f" in {len(names - otherwise.keys())} of {len(names)}" if otherwise else ""
        )
    last = max(found.values(), key=lambda outcome: outcome.date)
    return tokens, f"{last.date[:10]}, {_card(last.gpu)}"


def ran_by_patch() -> str:
    """Return a row per patch: the releases on which its code ran, changed tokens, or was only constructed."""
    known, built = _known(), gpu_runs.constructed()
    rows = []
    for patch in known.patches:
        executed = {run.release for run in known.where(patch) or ()}
        ran = {release for release in gpu_runs.RELEASES if known.ran(patch, release)}
        only_built = {release for release in built if patch in built[release]} - executed
        rows.append([patch, _releases(ran), _releases(executed - ran), _releases(only_built)])
    return _table(["patch", "ran on", "ran with other tokens on", "constructed on"], rows)


VERDICTS = {"has": "has it", "mended": "mended", "none": "does not concern it"}
"""What a change of ``patches/later.toml`` means for the form that the patches insert."""


@functools.cache
def reviewed_later() -> dict[str, Any]:
    """Return ``patches/later.toml``: upstream's later changes of functions that default patches insert or change."""
    return dict(msgspec.toml.decode((REPOSITORY / "patches" / "later.toml").read_bytes()))


def later() -> str:
    """Return how far upstream's releases were reviewed, and a row for each later fix of these functions."""
    found = reviewed_later()
    count = len({name for names in found["functions"].values() for name in names if name})
    rows = [
        [
            f"[{change['pull']}]({UPSTREAM}/pull/{change['pull']})" if "pull" in change else "",
            change["release"],
            change["does"],
            ", ".join(f"`{name}`" for name in change["in"]),
            f"{VERDICTS[change['verdict']]}: {change['why']}",
        ]
        for change in found["change"]
    ]
    declined = [
        [f"[{each['pull']}]({UPSTREAM}/pull/{each['pull']})", each["release"], each["does"], each["why"]]
        for each in found["declined"]
    ]
    said = f"{count} functions and classes, reviewed up to {found['reviewed']}; {len(rows)} changes that are fixes."
    return "\n\n".join(
        [
            *(said, _table(["upstream", "release", "change", "in", "our form"], rows)),
            *("## Speedups without a patch", _table(["upstream", "release", "change", "why"], declined)),
        ]
    )


def never_run() -> str:
    """Return the patches of which no statement was executed on a GPU, and which of these were constructed on a CPU."""
    known, built = _known(), frozenset().union(*gpu_runs.constructed().values())
    defaults = {name_of(patch, part): patch.default for patch in load.patches() for part in patch.all_parts}
    never = [name for name in defaults if not known.where(name)]
    named = {
        default: _listed([name for name in never if defaults[name] is default]) for default in (True, False)
    }
    constructed = _listed([name for name in never if name in built])
    return (
        f"No recorded run on a GPU executed code of the default patches {named[True]}, "
        f"or of the opt-in patches {named[False]}. "
        f"The patched objects of {constructed} were constructed on a CPU."
    )


def groups() -> str:
    """Return the groups of patches, with what a server gains from each."""
    return _table(["group", "what a server gains"], [[f"`@{name}`", gain] for name, gain in GROUPS.items()])


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "none"


def _releases(named: Collection[str]) -> str:
    """Return releases of the page as ranges of consecutive ones; ``NEVER`` for none."""
    ranges = [
        list(group) for inside, group in itertools.groupby(gpu_runs.RELEASES, named.__contains__) if inside
    ]
    return ", ".join(" to ".join(dict.fromkeys((each[0], each[-1]))) for each in ranges) or NEVER


def _known() -> runs.KnownRuns:
    names = [name_of(patch, part) for patch in load.patches() for part in patch.all_parts]
    return gpu_runs.known(gpu_runs.outcomes(BENCHMARKS), names)


def edit_kinds() -> str:
    """Return the kinds of edit, with their own keys."""
    shared = {field.name for field in msgspec.structs.fields(Kind)}
    rows = []
    for name, kind in KINDS.items():
        own = [field for field in msgspec.structs.fields(kind) if field.name not in shared]
        keys = ", ".join(f"`{field.encode_name}`" + ("" if field.required else "?") for field in own)
        rows.append([f"[`{name}`](kinds/{name}.md)", _first_line(kind), keys])
    return _table(["kind", "what it does", "its keys"], rows)


def data() -> dict[Path, str]:
    """Return the content of the generated files that are not pages."""
    known = {REPOSITORY / "patches" / runs.NAME: gpu_runs.written(_known())}
    return known | schemas() | kind_pages() | reference_pages() | man_pages()


TESTED = """\
# What ran on a GPU

`scripts/bench_decode.py` compared an engine of the patched release with one of the unpatched release, request
by request. A row has the number of scenarios with identical tokens, and the date and the GPU of the latest
result. The scenarios of a row whose tokens are not identical are listed below its table. *With opt-in
patches* means these in addition to the default ones. What is not listed never ran; `patchkit status` shows a
patch that has nothing to do on a release as `upstream` or `not-applicable`."""
BY_PATCH = """\
## Patch by patch

A patch ran on a release if an engine that gave the unpatched one's tokens, or that served requests on which
the unpatched one failed, executed at least one statement of it. *Constructed*: on a CPU, a test created the
objects that contain the patched code; no kernel ran. The first results did not record which patches'
statements were executed: they count for their release, but not for a patch."""
LATER = """\
# Later changes of what the patches backport

Upstream went on to change the functions that the default patches insert or change in older releases. These
are its later fixes of them, and whether the patches' form of the function needs them too; renames,
refactorings and new features are left out. Changes until July 2026 were read in upstream's history, later
ones in the releases, where the number of the pull request is not known. `patches/later.toml` has this list."""


def reference_pages() -> dict[Path, str]:
    """Return the pages that are nothing but results of runs, and reviews of upstream's history."""
    pages = {"tested": (TESTED, ran_by_release(), BY_PATCH, ran_by_patch()), "later": (LATER, later())}
    return {REFERENCE / f"{name}.md": "\n\n".join(parts) + "\n" for name, parts in pages.items()}


def man_pages() -> dict[Path, str]:
    """Return a manual page for the program and for each command, of what its help says."""
    top = click.Context(main_command, info_name="patchkit")
    commands = [
        click.Context(command, info_name=name, parent=top) for name, command in main_command.commands.items()
    ]
    with warnings.catch_warnings():
        # click-man shortens help by a name that click will not have in its next version.
        warnings.simplefilter("ignore", DeprecationWarning)
        return {
            MAN_PAGES / f"{context.command_path.replace(' ', '-')}.1": generate_man_page(
                context, __version__, RELEASED
            )
            for context in (top, *commands)
            if not context.command.hidden
        }


def schemas() -> dict[Path, str]:
    """Return the JSON Schemas of patch files, configurations and ``--json`` answers."""
    found = {
        SCHEMA: json_schema(schema.PatchFile),
        SCHEMA.with_name("configuration.schema.json"): json_schema(configuration.Configuration),
    }
    found |= {SCHEMA.parent / "schemas" / f"{name}.json": schema_of(name) for name in ANSWERS}
    return {path: json.dumps(content, indent=1) + "\n" for path, content in found.items()}


def kind_pages() -> dict[Path, str]:
    """Return a page per kind of edit: its description, keys and examples, which are its tests."""
    return {KIND_PAGES / f"{name}.md": _kind_page(name, kind) for name, kind in KINDS.items()}


def _kind_page(name: str, kind: type[Kind]) -> str:
    shared = {field.name for field in msgspec.structs.fields(Kind)}
    own = [field for field in msgspec.structs.fields(kind) if field.name not in shared]
    keys = ", ".join(f"`{field.encode_name}`" + ("" if field.required else "?") for field in own)
    description = textwrap.dedent(f"    {kind.__doc__}").strip().replace("``", "`")
    parts = [
        f"# `{name}`",
        description,
        f"Keys: {keys}. A key with a question mark is optional; [all kinds](../authoring.md#keys-of-an-edit).",
    ]
    for heading, group in (
        ("Changes", kind.VALID),
        ("Already applied", kind.NO_OP),
        ("Refused", kind.INVALID),
    ):
        if group:
            parts += [f"## {heading}", *(_shown(name, example) for example in group)]
    return "\n\n".join(parts) + "\n"


def _shown(kind: str, example: Example) -> str:
    table = textwrap.dedent(example.edit).strip("\n")
    lines = [example.shows, "", "```toml", f'kind = "{kind}"', *table.splitlines(), "```"]
    for title, text in (("", example.before), ("becomes", example.after)):
        if text.strip():
            lines += ["", title, ""] if title else [""]
            lines += ["```python", *textwrap.dedent(text).strip().splitlines(), "```"]
    if example.refusal:
        lines += ["", f"Refused: {example.refusal}"]
    return "\n".join(lines)


def _first_line(documented: Any) -> str:
    return str(documented.__doc__).strip().splitlines()[0].replace("``", "`")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str]) -> int:
    """Write or check the pages, their plots and the data; return 0 if they are up to date."""
    check = "--check" in arguments
    how = ["--check", "--diff"] if check else ["-r"]
    os.chdir(REPOSITORY)
    try:
        is_old = {
            path: text for path, text in data().items() if not path.exists() or path.read_text() != text
        }
    except PatchkitError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    # The data comes first: commands that pages show read it.
    for path, text in is_old.items():
        print(f"{path.relative_to(REPOSITORY)} {'would change' if check else 'written'}")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    gone = sorted({*KIND_PAGES.glob("*.md"), *REFERENCE.glob("*.md"), *MAN_PAGES.glob("*.1")} - data().keys())
    for path in gone:
        print(f"{path.relative_to(REPOSITORY)} {'would go' if check else 'removed'}")
        if not check:
            path.unlink()
    failed = int(Cog().main(["cog", *how, "-I", "scripts", *PAGES]) or 0)
    stale = stale_pictures(write=not check)
    for name in stale:
        print(f"docs/benchmarks/{name} {'would change' if check else 'written'}")
    return failed or int(check and bool(stale or is_old or gone))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
