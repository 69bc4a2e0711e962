"""Draw plots from the results of a run; each plot is a function of its ``results.json``.

The same results give the same bytes with the same release of matplotlib, which ``constraints.txt`` pins: text is
converted to outlines of matplotlib's own font, and no date is written.
"""

from __future__ import annotations

import io
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FormatStrFormatter,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_runs import Spread
    from matplotlib.axes import Axes

    Result = Mapping[str, Any]

# The Okabe-Ito palette, which colour-blind readers can distinguish; grey is the reference.
COLOURS = {
    "unpatched": "#8c8c8c",
    "patched": "#0072b2",
    "patchkit": "#0072b2",
    "upstream": "#d55e00",
    "upstream-own": "#e69f00",
}
_SPARE = ("#009e73", "#cc79a7", "#56b4e9")
_MARKERS = "osD^vP"
_INK, _FAINT, _WAIT = "#24292f", "#e8eaed", "#e69f00"
# Inches; at 100 pixels per inch about the width of a page on GitHub, 800 pixels.
_WIDTH = 8.0
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.labelsize": 9.0,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "grid.color": _FAINT,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "patchkit",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


@matplotlib.rc_context(STYLE)
def svg(figure: Figure, title: str) -> str:
    """Return the figure as SVG, with a title that screen readers say."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


@dataclass(frozen=True)
class _Row:
    """The position of one bar in a plot of grouped bars, from the top."""

    y: float
    group: tuple[Any, ...]
    result: Result


def _rows(results: Sequence[Result], keys: Sequence[str]) -> list[_Row]:
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        groups.setdefault(tuple(result[key] for key in keys), []).append(result)
    rows, y = [], 0.0
    for group, members in groups.items():
        # Space for the group's heading.
        y += 1.35
        for result in members:
            rows.append(_Row(y, group, result))
            y += 1.0
    return rows


def _colour(name: str) -> str:
    return COLOURS.get(name, _SPARE[sum(name.encode()) % len(_SPARE)])


def _whiskers(spread: Mapping[str, float]) -> list[list[float]]:
    return [[spread["median"] - spread["lowest"]], [spread["highest"] - spread["median"]]]


def _bar(axes: Axes, row: _Row, name: str, value: float, *, left: float = 0.0, **options: Any) -> None:
    axes.barh(row.y, value - left, 0.78, left=left, color=_colour(name), **options)


def _name_rows(axes: Axes, rows: Sequence[_Row], key: str) -> None:
    axes.set_yticks([row.y for row in rows], [row.result[key] for row in rows])
    axes.set_ylim(rows[-1].y + 0.6, rows[0].y - 1.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _headline(axes: Axes, y: float, text: str) -> None:
    # Relative to the left edge of the names.
    axes.annotate(
        text, (0, y - 0.95), (-88, 0), ("axes fraction", "data"), "offset points", va="center", weight="bold",
        annotation_clip=False,
    )  # fmt: skip


@matplotlib.rc_context(STYLE)
def gains(rows: Sequence[tuple[str, Mapping[int, Mapping[int, Spread]]]]) -> Figure:
    """Return the ratios of a step's time to the unpatched one's: a panel per number of layers, a bar per batch size."""
    figure = Figure((_WIDTH, 1.1 + 0.42 * len(rows)), layout="constrained")
    layers = sorted({size for _, sizes in rows for size, ratios in sizes.items() if ratios}, reverse=True)
    panels = figure.subplots(1, len(layers), sharey=True, sharex=True, squeeze=False)[0]
    figure.suptitle(
        "Time of a patched decode step, unpatched = 1", x=0.01, ha="left", size=10.0, weight="bold"
    )
    for axes, size in zip(panels, layers, strict=True):
        timed = [(y, sizes[size]) for y, (_, sizes) in enumerate(rows) if sizes.get(size)]
        for place, batch in enumerate((1, 8)):
            spots = [(y + 0.36 * (place - 0.5), ratios[batch]) for y, ratios in timed if batch in ratios]
            medians = [spread.median for _, spread in spots]
            whiskers = [
                [spread.median - spread.lowest for _, spread in spots],
                [spread.highest - spread.median for _, spread in spots],
            ]
            axes.barh(
                *([y for y, _ in spots], medians, 0.34),
                color=COLOURS["patched"] if place else _SPARE[2],
                label=f"batch {batch}",
                xerr=whiskers,
                ecolor=_INK,
                capsize=2.0,
            )
            for y, spread in spots:
                axes.text(
                    *(0.03, y, f"{spread.median:.2f}"),
                    color="white" if place else _INK,
                    va="center",
                    size=8.0,
                )
        for y, (_, sizes) in enumerate(rows):
            if not sizes.get(size):
                axes.text(0.03, y, "not timed", va="center", size=8.0)
        axes.axvline(1.0, color=_colour("unpatched"))
        axes.set_title(f"{size} layers")
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(rows)), [name for name, _ in rows])
    panels[0].set_ylim(len(rows) - 0.45, -0.55)
    panels[0].set_xlim(0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="upper right", ncols=2, frameon=False)
    return figure


@matplotlib.rc_context(STYLE)
def decode_steps(results: Sequence[Result]) -> Figure:
    """Return the time of a decode step as a ratio to the first tree's, and its host syncs and copies."""
    timed = [result for result in results if result["ratio"] and not result.get("control")]
    rows = _rows(timed, ("scenario", "layers", "batch"))
    figure = Figure((_WIDTH, 0.6 + 0.165 * (rows[-1].y + 1)), layout="constrained")
    ratios, waits, copies = figure.subplots(1, 3, sharey=True, width_ratios=(6, 2, 2))
    lowest = min(row.result["ratio"]["lowest"] for row in rows)
    highest = max(row.result["ratio"]["highest"] for row in rows)
    low, high = math.floor(lowest * 50 - 0.2) / 50, math.ceil(highest * 50) / 50
    ratios.set_xlim(low, high + (high - low) * 0.36)
    ratios.set_xticks([t for t in MaxNLocator(5).tick_values(low, high) if low <= t <= high + 1e-9])
    ratios.axvline(1.0, color=_INK, linewidth=0.8, zorder=3)
    _name_rows(ratios, rows, "tree")
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        result, spread = row.result, row.result["ratio"]
        reference = row.group not in seen
        whiskers = {} if reference else {"xerr": _whiskers(spread), "ecolor": _INK, "capsize": 2.0}
        _bar(
            ratios, row, result["tree"], spread["median"], left=1.0, error_kw={"elinewidth": 0.9}, **whiskers
        )
        shown = f"{result['step']['median']:.2f} ms" + ("" if reference else f",  {spread['median']:.3f}")
        ratios.text(high + (high - low) * 0.02, row.y, shown, va="center", size=8)
        profile = result["profile"]
        for axes, key in ((waits, "synchronisations"), (copies, "copies_to_host")):
            if profile:
                _bar(axes, row, result["tree"], profile[key])
                axes.text(profile[key], row.y, f" {profile[key]:.1f}".removesuffix(".0"), va="center", size=8)
        if reference:
            seen.add(row.group)
            scenario, layers, batch = row.group
            if scenario == "straight":
                _headline(ratios, row.y, f"{layers} layers, batch {batch}")
            else:
                _headline(ratios, row.y, f"{scenario}, {layers} layers, batch {batch}")
    ratios.set_xlabel("time per decode step, ratio to unpatched (bars start at 1)")
    for axes, label in ((waits, "host syncs per step"), (copies, "copies to host\nper step")):
        axes.set_xlabel(label)
        axes.set_xlim(0, axes.get_xlim()[1] * 1.15)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_position(("data", 0))
    for axes in (ratios, waits, copies):
        axes.grid(axis="x")
    return figure


@matplotlib.rc_context(STYLE)
def timelines(results: Sequence[Result], batch: int, trees: Sequence[str]) -> Figure:
    """Return one decode step of the straight scenario by number of layers, the trees one above the other."""
    by_layers: dict[int, dict[str, Result]] = defaultdict(dict)
    for result in results:
        wanted = (result["scenario"], result["batch"]) == ("straight", batch) and result["tree"] in trees
        if wanted and result["profile"]:
            by_layers[result["layers"]][result["tree"]] = result["profile"]
    whole = {layers: profiles for layers, profiles in by_layers.items() if len(profiles) == len(trees)}
    figure = Figure((_WIDTH, 0.3 + 2.35 * len(whole)), layout="constrained")
    panels = figure.subplots(len(whole), 1, squeeze=False)[:, 0]
    for axes, (layers, profiles) in zip(panels, whole.items(), strict=True):
        ticks: dict[float, str] = {}
        for place, tree in enumerate(trees):
            profile, top = profiles[tree], 3.2 * place
            spans = {"GPU": profile["timeline_gpu"], "host": profile["timeline_waits"]}
            took = profile["milliseconds"]
            for lane, colour, y in (("GPU", _colour("patched"), top + 1.0), ("host", _WAIT, top + 2.0)):
                ticks[y] = "GPU runs" if lane == "GPU" else "host waits"
                axes.broken_barh([(0, took)], (y - 0.4, 0.8), facecolor=_FAINT)
                axes.broken_barh(
                    [(start / 1000, length / 1000) for start, length in spans[lane]], (y - 0.4, 0.8),
                    facecolor=colour, linewidth=0, gid=f"{layers}-{tree}-{lane}",
                )  # fmt: skip
            axes.plot([took, took], [top + 0.5, top + 2.5], color=_INK, linewidth=1.2)
            running, waiting = (sum(length for _, length in span) / 1000 for span in spans.values())
            axes.text(
                0, top, f"{tree}: {took:.3f} ms, the GPU idle for {max(took - running, 0):.3f} ms, "
                f"the host waiting for {waiting:.3f} ms", va="center",
            )  # fmt: skip
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(3.2 * len(trees) - 0.5, -0.6)
        axes.spines["left"].set_visible(False)
        axes.set_xlim(0)
        axes.set_title(f"{layers} layers, batch {batch}", weight="bold")
        axes.set_xlabel("milliseconds after the host began to launch the step")
    return figure


@matplotlib.rc_context(STYLE)
def fills(results: Sequence[Result]) -> Figure:
    """Return microseconds per metadata fill by mode and contender."""
    rows = _rows(results, ("mode",))
    figure = Figure((_WIDTH, 0.6 + 0.165 * (rows[-1].y + 1)), layout="constrained")
    axes = figure.subplots()
    _name_rows(axes, rows, "contender")
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        result, spread = row.result, row.result["host"]
        _bar(
            axes, row, result["contender"], spread["median"], xerr=_whiskers(spread), ecolor=_INK, capsize=2.0
        )
        launches = round(result["activity"]["kernels"] + result["activity"]["copies"])
        shown = f"{spread['median']:.0f} µs, {launches} {'launch' if launches == 1 else 'launches'}"
        axes.annotate(
            shown, (spread["highest"], row.y), (5, 0), textcoords="offset points", va="center", size=8
        )
        if row.group not in seen:
            seen.add(row.group)
            _headline(axes, row.y, str(result["mode"]))
    axes.set_xlim(0, max(row.result["host"]["highest"] for row in rows) * 1.2)
    axes.set_xlabel("microseconds per replay")
    axes.grid(axis="x")
    return figure


@matplotlib.rc_context(STYLE)
def fill_ratios(results: Sequence[Result], contenders: Sequence[str]) -> Figure:
    """Return each contender's time relative to patchkit's, by mode, batch and context."""
    modes = list(dict.fromkeys(result["mode"] for result in results))
    contexts = sorted({result["context"] for result in results})
    batches = sorted({result["batch"] for result in results})
    columns = 3
    lines = math.ceil(len(modes) / columns)
    figure = Figure((_WIDTH, 0.7 + 1.65 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels[len(modes) :]:
        axes.set_visible(False)
    for axes, mode in zip(panels, modes, strict=False):
        axes.axhline(1.0, color=_colour("patchkit"), linewidth=1.6)
        for place, contender in enumerate(contenders):
            # Lines below are visible at the edges.
            broad = len(contenders) - place
            for context, marker in zip(contexts, _MARKERS, strict=False):
                points = sorted(
                    (result["batch"], result["ratio"]["median"])
                    for result in results
                    if (result["mode"], result["contender"], result["context"]) == (mode, contender, context)
                )
                axes.plot(
                    [batch for batch, _ in points], [ratio for _, ratio in points], marker,
                    color=_colour(contender), linestyle="-", linewidth=1.3 * broad - 0.5, markersize=1.5 + 2 * broad,
                    gid=f"{mode}-{contender}-{context}".replace(" ", "-"),
                )  # fmt: skip
        axes.set_title(mode)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(batches))
        axes.xaxis.set_major_formatter(FormatStrFormatter("%d"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.tick_params(axis="x", labelsize=8)
        axes.grid()
    panels[0].set_ylim(0)
    panels[0].annotate(
        "patchkit", (batches[0], 1.0), (0, 3), textcoords="offset points", color=_colour("patchkit"), size=8
    )
    for axes in panels[max(0, len(modes) - columns) : len(modes)]:
        axes.set_xlabel("batch")
        # A panel above an empty place is not the last of its column.
        axes.tick_params(labelbottom=True)
    figure.supylabel("time per replay, times patchkit's", size=9)
    keys = [Line2D([], [], color=_colour(contender), label=contender) for contender in contenders]
    keys += [
        Line2D(
            [], [], color=_INK, linestyle="", marker=marker, markersize=4, label=f"context {context // 1024}k"
        )
        for context, marker in zip(contexts, _MARKERS, strict=False)
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False, fontsize=8)
    return figure


@matplotlib.rc_context(STYLE)
def fill_floor(results: Sequence[Result], empty_kernel: float) -> Figure:
    """Return the GPU time of patchkit's launch relative to the lower bound from its bytes."""
    ours = [result for result in results if result["device"] and result["floor"]]
    floors = [result["floor"] for result in ours]
    replay = statistics.median(result["events"]["median"] for result in ours)
    figure = Figure((_WIDTH, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    left, right = min(floors) / 1.5, max(floors) * 1.5
    lowest = empty_kernel / 1.4
    axes.plot([lowest, right], [lowest, right], color=_INK, linewidth=1)
    for y, what in ((empty_kernel, "an empty kernel"), (replay, "a replay with the host's part, median")):
        axes.plot([left, right], [y, y], "--", color=_INK, linewidth=0.8)
        axes.annotate(f"{what}: {y:.2g} µs", (left, y), (4, 3), textcoords="offset points", size=8)
    axes.annotate(
        "floor of its bytes",
        (empty_kernel * 2, empty_kernel * 2),
        (8, -6),
        textcoords="offset points",
        size=8,
    )
    axes.plot(
        floors, [result["device"] for result in ours], "o",
        color=_colour("patchkit"), markersize=4.5, alpha=0.5, markeredgewidth=0, label="one fill", gid="fills",
    )  # fmt: skip
    axes.set_xlim(left, right)
    axes.set_ylim(lowest, max(replay, *(result["device"] for result in ours)) * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("microseconds: bytes read and written, at the bandwidth of a large copy")
    axes.set_ylabel("microseconds of the device")
    axes.grid()
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.8), frameon=False, fontsize=8)
    return figure


@matplotlib.rc_context(STYLE)
def text_tools(results: Sequence[Result], files: int) -> Figure:
    """Return the results of each tool for ``files`` files: correct, wrong, or with a conflict."""
    figure = Figure(figsize=(_WIDTH, 0.36 * len(results) + 1.1), layout="constrained")
    axes = figure.subplots()
    places = range(len(results))
    start = [0] * len(results)
    shares = (
        ("correct", "clean, correct", "#0072b2"),
        ("wrong", "clean, wrong", "#d55e00"),
        ("left", "conflict", "#d0d4d9"),
    )
    for key, label, colour in shares:
        counts = [result[key] for result in results]
        axes.barh(places, counts, 0.7, left=start, color=colour, label=label)
        start = [index + count for index, count in zip(start, counts, strict=True)]
    for place, result in zip(places, results, strict=True):
        axes.annotate(str(result["correct"]), (4, place), va="center", color="white")
    axes.set_yticks(places, [result["tool"] for result in results])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, files)
    axes.set_xlabel("files")
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, borderaxespad=0.2)
    return figure


@matplotlib.rc_context(STYLE)
def ported(distances: Mapping[str, Result]) -> Figure:
    """Return the share of clean files, and of clean files that are wrong, of each tool by the tree's drift."""
    figure = Figure(figsize=(_WIDTH, 3.2), layout="constrained")
    clean, wrong = figure.subplots(1, 2)
    tools = list(next(iter(distances.values()))["tools"])
    spare = (*_SPARE, COLOURS["upstream"], COLOURS["upstream-own"])
    colours = {
        tool: COLOURS["patchkit"] if tool.startswith("patchkit") else spare[index % len(spare)]
        for index, tool in enumerate(tools)
    }
    for axes, key, title in (
        (clean, "landed", "clean, % of files"),
        (wrong, "wrong", "clean but wrong, % of files"),
    ):
        for index, (tool, marker) in enumerate(zip(tools, _MARKERS, strict=False)):
            shares = [
                100 * distance["tools"][tool][key] / max(1, distance["files"])
                for distance in distances.values()
            ]
            # Beside each other: some tools have the same shares.
            places = [place + 0.05 * (index - (len(tools) - 1) / 2) for place in range(len(shares))]
            axes.plot(
                places, shares, color=colours[tool], marker=marker, markersize=4, label=tool, clip_on=False
            )
        axes.set_xticks(range(len(distances)), list(distances))
        axes.set_xlabel("commits back")
        axes.set_title(title)
        axes.grid(axis="y")
        axes.set_xlim(-0.3, len(distances) - 0.7)
        axes.set_ylim(bottom=0)
    figure.legend(
        *clean.get_legend_handles_labels(), loc="outside lower center", ncols=len(tools), frameon=False
    )
    return figure
