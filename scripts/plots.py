"""Draw plots from the results of a run; each plot is a function of its ``results.json``.

The same results give the same bytes with the same release of matplotlib, which ``constraints.txt`` pins: text is
converted to outlines of matplotlib's own font, and no date is written.
"""

from __future__ import annotations

import io
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import (
    FixedLocator,
    FormatStrFormatter,
    FuncFormatter,
    LogLocator,
    NullLocator,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
_INK, _FAINT = "#24292f", "#e8eaed"
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


class GainRow(NamedTuple):
    """A server: the ratio and its 95 % interval by batch, and how many times its own time the same tree took."""

    group: str
    label: str
    ratios: Mapping[int, tuple[float, tuple[float, float] | None]]
    spread: float


@matplotlib.rc_context(STYLE)
def gains(servers: Sequence[GainRow]) -> Figure:
    """Return the ratio of a step's time to the unpatched one's of each server, a bar for each batch size."""
    rows = _rows([row._asdict() for row in servers], ("group",))
    figure = Figure((_WIDTH, 1.0 + 0.27 * (rows[-1].y + 1)), layout="constrained")
    axes = figure.subplots()
    figure.suptitle("Time of a decode step, unpatched = 1", x=0.01, ha="left", size=10.0, weight="bold")
    _name_rows(axes, rows, "label")
    batches = sorted({batch for row in servers for batch in row.ratios})
    thick = 0.84 / len(batches)
    colours = dict(zip(batches, (_SPARE[2], COLOURS["patched"], *_SPARE[:2]), strict=False))
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        if row.group not in seen:
            seen.add(row.group)
            _headline(axes, row.y, *row.group)
        spread = row.result["spread"]
        axes.barh(row.y, spread - 1 / spread, 0.96, left=1 / spread, color=_FAINT, zorder=0)
        for place, (batch, (ratio, interval)) in enumerate(sorted(row.result["ratios"].items())):
            y = row.y + thick * (place - (len(row.result["ratios"]) - 1) / 2)
            whiskers = [[ratio - interval[0]], [interval[1] - ratio]] if interval else None
            axes.barh(
                *(y, ratio, 0.94 * thick), color=colours[batch], xerr=whiskers, ecolor=_INK, capsize=1.5,
                error_kw={"elinewidth": 0.8},
            )  # fmt: skip
            axes.text(0.01, y, f"{ratio:.2f}", va="center", size=7.0, color=_INK if place == 0 else "white")
    axes.axvline(1.0, color=_INK, linewidth=0.8)
    axes.set_xlim(0)
    axes.grid(axis="x")
    keys: list[Any] = [Patch(color=colours[batch], label=f"batch {batch}") for batch in batches]
    keys += [Patch(color=_FAINT, label="the same tree twice, on this machine")]
    figure.legend(handles=keys, loc="upper right", ncols=len(keys), frameon=False, fontsize=8.0)
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
