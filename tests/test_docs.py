"""The pages agree with the commands' output and the code."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import matplotlib
import msgspec
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.container import BarContainer
from support.answers import record
from support.sweeps import swept

from patchkit.cli import main
from patchkit.cli.main import EXIT_CODES
from patchkit.codemods.kind import Kind, Site
from patchkit.codemods.kinds import KINDS
from patchkit.codemods.language.variants import Variant
from patchkit.patchset import configuration, header, load, schema
from patchkit.plan.status import State
from patchkit.tree.fork import CONFIGURATION

REPOSITORY = Path(__file__).parents[1]
sys.path.append(str(REPOSITORY / "scripts"))

import generate_docs  # noqa: E402
import plots  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

PAGES = [REPOSITORY / page for page in generate_docs.PAGES]
FOLDERS = (".", "docs", "docs/kinds", "docs/reference", "skills/patchkit", "tests")
EVERY_PAGE = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).glob("*.md"))
SERVER_OPTIONS = {
    "--config",
    "--enable-deterministic-inference",
    "--max-total-tokens",
    "--model-path",
    "--speculative-eagle-topk",
}
"""Options of sglang's server that pages name."""
STRUCTS: tuple[type[msgspec.Struct], ...] = (
    schema.PatchFile,
    header.FactTable,
    Kind,
    Site,
    Variant,
    *KINDS.values(),
)


def words_of(page: str) -> set[str]:
    """Return what a page sets as code within its sentences and tables."""
    return set(re.findall(r"`([^`\n]+)`", (REPOSITORY / page).read_text(encoding="utf-8")))


@pytest.mark.release
def test_the_pages_show_what_the_commands_print(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert generate_docs.main(["--check"]) == 0, (
        f"type python scripts/generate_docs.py\n{capsys.readouterr().out}"
    )


@pytest.mark.release
def test_a_command_that_fails_cannot_become_part_of_a_page() -> None:
    with pytest.raises(RuntimeError, match="no patch is called '99999'"):
        generate_docs.session("patchkit show 99999")


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def headings_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_links_to_a_heading_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\(((?!https?:)[^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    homes = {link: page.parent / link if link else page for link, _ in links}
    assert [(link, anchor) for link, anchor in links if anchor not in headings_of(homes[link])] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "tests/README.md"])
def test_places_that_a_page_names_exist(page: str) -> None:
    named = {
        word
        for word in words_of(page)
        if re.fullmatch(r"(?:patchkit|tests|docs|scripts|patches)/[\w./]*", word)
    }
    assert named
    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []


def test_the_architecture_names_every_room() -> None:
    rooms = {f"patchkit/{path.parent.name}/" for path in (REPOSITORY / "patchkit").glob("*/__init__.py")}
    assert rooms - words_of("docs/architecture.md") == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"\bscripts/[\w./]*\w", page.read_text(encoding="utf-8")))
    assert [name for name in sorted(named) if not (REPOSITORY / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    options = {
        option for command in main.commands.values() for param in command.params for option in param.opts
    }
    assert set(
        re.findall(r"\bpatchkit ([a-z]+)\b(?= \w|`|$)", "\n".join(re.findall(r"`[^`\n]+`", text)))
    ) <= set(main.commands)
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= options | SERVER_OPTIONS


def typed_in(page: Path) -> list[list[str]]:
    """Return the words of each patchkit command that a page shows in a block or a sentence, without what follows."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^(?:\$ |    )(patchkit .*)$", text, re.MULTILINE)
    words = [shlex.split(line, comments=True) for line in lines]
    words += [shlex.split(code) for code in re.findall(r"`(patchkit [^`\n]+)`", text)]
    ends = {"|", "&&", ">", ">>", "..."}
    return [list(itertools.takewhile(lambda word: word not in ends, each)) for each in words]


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_commands_that_a_page_shows_have_the_options_and_words_that_they_take(page: Path) -> None:
    for _, name, *words in typed_in(page):
        if not re.fullmatch("[a-z][a-z-]*", name):
            continue
        command = main.commands[name]
        context = click.Context(command, info_name=name)
        values, left, _ = command.make_parser(context).parse_args(words)
        assert not left, (name, words)
        assert values.keys() <= {param.name for param in command.params}


def test_the_extension_that_the_page_shows_is_one(tmp_path: Path) -> None:
    (extension,) = (
        block
        for block in re.findall(
            r"```toml\n(.*?)```", (REPOSITORY / "docs/authoring.md").read_text(), re.DOTALL
        )
        if "extends" in block
    )
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "patch.toml").write_text(extension)
    assert len(load.patches([tmp_path]).ids) == len(load.patches().ids)


def test_every_key_of_a_patch_is_explained() -> None:
    keys = {field.encode_name for struct in STRUCTS for field in msgspec.structs.fields(struct)}
    assert keys - words_of("docs/authoring.md") == set()


def test_the_readme_lists_every_exit_code() -> None:
    (listed,) = re.findall(r"Exit codes: ([^.]*)\.", (REPOSITORY / "README.md").read_text())
    assert [int(code) for code in re.findall(r"\b\d+", listed)] == list(EXIT_CODES)


def test_every_key_of_a_configuration_and_every_group_is_explained() -> None:
    words = words_of("docs/configuration.md")
    assert {*configuration.Configuration.__struct_fields__, *load.patches().groups} - words == set()


def test_the_example_of_a_configuration_is_one_and_names_patches_that_there_are() -> None:
    text = (REPOSITORY / "docs" / "examples" / "fork" / CONFIGURATION).read_bytes()
    example = msgspec.toml.decode(text, type=configuration.Configuration)
    assert load.patches().named(example.left_out) == example.left_out


def test_every_kind_of_edit_is_listed_with_its_keys() -> None:
    table = generate_docs.edit_kinds().splitlines()[2:]
    assert len(table) == len(KINDS)
    assert "| [`none-guard`](kinds/none-guard.md) |" in "\n".join(table)
    assert all(row.count("|") == 4 and "``" not in row for row in table)


def test_every_state_is_explained() -> None:
    assert {state.value for state in State} - words_of("docs/authoring.md") == set()


def results_of(name: str) -> list[dict[str, Any]]:
    file = generate_docs.BENCHMARKS / name / "results.json"
    return list(json.loads(file.read_text(encoding="utf-8"))["results"])


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the measurements that the functions under test read, to be changed."""
    folder = tmp_path / "benchmarks"
    shutil.copytree(generate_docs.BENCHMARKS, folder)
    monkeypatch.setattr(generate_docs, "BENCHMARKS", folder)
    return folder


def change(folder: Path, name: str, edit: Callable[[list[dict[str, Any]]], object]) -> None:
    """Let ``edit`` have one run's results."""
    file = folder / name / "results.json"
    run = json.loads(file.read_text(encoding="utf-8"))
    edit(run["results"])
    file.write_text(json.dumps(run), encoding="utf-8")


REPORTED = {
    "26738": (
        "triton_backend.py:542",
        "triton_backend.py:609",
        "triton_backend.py:644",
        "overlap_utils.py:35",
    ),
    "40234": ("metrics_reporter.py:273",),
    "29589": ("eagle_utils.py:151", "multi_layer_eagle_draft_extend_cuda_graph_runner.py:581"),
    "31364": ("cuda_graph_runner.py:1253", "eagle_draft_extend_cuda_graph_runner.py:548"),
}
"""Where upstream's crashes are, of those of which an audited tree has the code."""


def test_crashes_that_the_audit_reports_are_among_its_findings() -> None:
    measured = json.loads((generate_docs.BENCHMARKS / "audit.json").read_text(encoding="utf-8"))["trees"]
    found = {
        each["place"].rpartition("/")[2]
        for tree in measured
        for each in tree["findings"]
        if each["confidence"] in {"certain", "likely"}
    }
    page = (REPOSITORY / "docs" / "audit.md").read_text(encoding="utf-8")
    assert [crash for crash in REPORTED if crash not in page] == []
    assert {place for places in REPORTED.values() for place in places} - found == set()
    (defects,) = re.findall(r"all (\d+) of (\w+) are defects", page)
    (tree,) = (tree for tree in measured if tree["name"] == defects[1])
    assert tree["certain"] + tree["likely"] == int(defects[0])


def words_in(page: Path) -> tuple[int, int]:
    """Return how many words of a page were written by hand, and how many a script or a command wrote."""
    text = page.read_text(encoding="utf-8")
    by_hand = re.sub(r"<!-- \[\[\[cog.*?<!-- \[\[\[end\]\]\] -->", "", text, flags=re.DOTALL)
    written = re.findall(r"\]\]\] -->\n(.*?)<!-- \[\[\[end\]\]\] -->", text, re.DOTALL)
    return len(by_hand.split()), sum(len(part.split()) for part in written)


def test_the_pages_are_short_enough_to_be_read() -> None:
    counted = [words_in(page) for page in [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]]
    by_hand, written = map(sum, zip(*counted, strict=True))
    assert by_hand < 12_500
    assert written < 6_500


def test_what_became_of_a_control_is_counted_over_all_runs(benchmarks: Path) -> None:
    runs = {file: json.loads(file.read_text()) for file in (benchmarks / "releases").iterdir()}
    file, run = next(pair for pair in runs.items() if any(tree.get("control") for tree in pair[1]["trees"]))
    control = next(result for result in run["results"] if result["control"])
    for other in runs.keys() - {file}:
        other.unlink()
    results = [control | {"identical": end} for end in (True, False, None, None)]
    file.write_text(json.dumps(run | {"results": results}))
    name = control["tree"].rpartition("/")[2]
    assert generate_docs.controls().splitlines()[2:] == [f"| `{name}` | 1 | 2 | 1 |"]


def test_a_sample_of_mutants_is_a_row(benchmarks: Path) -> None:
    shutil.rmtree(benchmarks / "mutation")
    (benchmarks / "mutation" / "tool").mkdir(parents=True)
    run = {"seed": 0, "date": "2026-11-22T01", "mutants": 8, "killed": 7, "command": "mutate", "results": []}
    (benchmarks / "mutation" / "results.json").write_text(json.dumps(run))
    later = run | {"date": "2026-11-23T01", "command": "mutate --room audit --seed 40", "seed": 40}
    (benchmarks / "mutation" / "tool" / "audit.json").write_text(json.dumps(later))
    (benchmarks / "mutation" / "tool" / "judged.json").write_text("[]")
    assert generate_docs.kill_rates().splitlines()[2:] == [
        "| patches and runtime | 0 | 2026-11-22 | 7 of 8 |  |",
        "| audit | 40 | 2026-11-23 | 7 of 8 |  |",
    ]


# --- plots


def bars(figure: Figure, place: int = 0) -> list[BarContainer]:
    return [bar for bar in figure.axes[place].containers if isinstance(bar, BarContainer)]


def named(figure: Figure) -> dict[str, Any]:
    """Return what a figure draws under a name of its own."""
    return {
        str(artist.get_gid()): artist
        for artist in figure.findobj(lambda artist: artist.get_gid() is not None)
    }


def test_every_plot_is_on_a_page_with_a_description() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    described = dict(re.findall(r"!\[([^]]+)\]\((?:docs/)?benchmarks/([\w-]+)\.svg\)", text))
    assert sorted(described.values()) == sorted(generate_docs.pictures())
    assert {file.stem for file in generate_docs.BENCHMARKS.glob("*.svg")} == set(described.values())
    assert all(len(words) > 40 for words in described)


PICTURES = sorted(generate_docs.pictures())


@pytest.mark.parametrize("name", swept(PICTURES, PICTURES[::3].__contains__))
def test_a_plot_drawn_twice_is_the_same_and_brings_its_own_letters(name: str) -> None:
    picture = generate_docs.pictures()[name]
    once = plots.svg(picture.draw(), picture.shows)
    assert once == plots.svg(picture.draw(), picture.shows)
    assert "<text" not in once
    assert f"<title>{picture.shows}</title>" in once
    assert not re.search(r"date>|Matplotlib v", once)


def test_letters_are_those_that_matplotlib_brings_along() -> None:
    with matplotlib.rc_context(plots.STYLE):
        used = Path(font_manager.findfont(font_manager.FontProperties()))
    assert used.resolve().is_relative_to(Path(matplotlib.get_data_path()).resolve())
    assert used.name == "DejaVuSans.ttf"


def test_bars_of_gains_are_ratios_with_whiskers_of_the_interval() -> None:
    rows = [
        plots.GainRow("1.0", "Triton", {1: (0.8, (0.7, 1.2)), 8: (0.6, (0.5, 0.9))}, 1.25),
        plots.GainRow("1.0", "the same tree twice", {1: (1.1, None)}, 1.25),
    ]
    band, *drawn = bars(plots.gains(rows))
    assert (band.patches[0].get_x(), band.patches[0].get_width()) == pytest.approx((0.8, 0.45))
    widths = [bar.patches[0].get_width() for bar in drawn]
    assert widths == pytest.approx([0.8, 0.6, 0.45, 1.1])
    reaches = [bar.errorbar.lines[2][0].get_segments()[0][:, 0].tolist() for bar in drawn if bar.errorbar]
    assert reaches == [pytest.approx([0.7, 1.2]), pytest.approx([0.5, 0.9])]


@pytest.fixture
def answers(benchmarks: Path) -> Path:
    """The folder of recorded answers, without any."""
    for file in (benchmarks / "bench").iterdir():
        file.unlink()
    return benchmarks / "bench"


def cells(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines() if row.startswith("| 0")
    ]


def test_a_ratio_no_further_from_1_than_the_same_trees_on_such_a_gpu_is_no_gain(answers: Path) -> None:
    record(answers, "llama-8-triton-same-0.5.12.post1", 1.1)
    record(answers, "llama-8-triton-0.5.12.post1", 0.92, "26128")
    record(answers, "llama-32-triton-0.5.12.post1", 0.8, "26128")
    record(answers, "llama-8-fa3-0.5.12.post1", 0.92, "26128", gpu="NVIDIA H100 80GB HBM3")
    hopper, later = generate_docs.benched().split("\n\nOn ")
    assert hopper.startswith("On one H100; no tree ran beside itself:")
    assert [row[1:4] + row[5:6] for row in cells(hopper)] == [
        ["FlashAttention-3", "8", "1 default", "8.0%&nbsp;less"]
    ]
    assert later.startswith("one H200; the same tree twice came out at 1.10:")
    assert [row[2:4] + row[5:6] for row in cells(later)] == [
        ["32", "1 default", "20.0%&nbsp;less"],
        ["8", "the same tree twice", "none"],
        ["8", "1 default", "none"],
    ]
    assert "On one H200, 1 of 2 servers shows no difference" in generate_docs.gained_in_brief()


def test_a_patched_release_over_a_later_one_is_no_gain_of_that_release(answers: Path) -> None:
    record(answers, "mla-8-triton-over-0.5.23", 0.9, "26128", over="0.5.23")
    assert [row[:2] for row in cells(generate_docs.benched())] == [
        ["0.5.12.post1 over 0.5.23", "Triton, DeepSeek MLA"]
    ]
    assert "servers show" not in generate_docs.gained_in_brief()


def test_bars_of_a_fill_are_the_measured_ones() -> None:
    results = [result for result in results_of("metadata") if result["activity"] and not result["swa"]]
    drawn = [bar.patches[0].get_width() for bar in bars(plots.fills(results))]
    assert drawn == [result["host"]["median"] for result in results]


def test_lines_of_fills_go_through_the_measured_ratios() -> None:
    results = [result for result in results_of("metadata") if not result["swa"]]
    drawn = named(plots.fill_ratios(results, ("unpatched", "upstream")))
    assert drawn
    points = {
        (name, batch, ratio)
        for name, line in drawn.items()
        for batch, ratio in zip(*line.get_data(), strict=True)
    }
    assert points == {
        (
            f"{result['mode']}-{result['contender']}-{result['context']}".replace(" ", "-"),
            result["batch"],
            result["ratio"]["median"],
        )
        for result in results
        if result["contender"] != "patchkit"
    }


def test_points_of_the_launch_are_the_device_over_the_floor() -> None:
    results = results_of("metadata")
    drawn = named(plots.fill_floor(results, 0.5))
    points = sorted(point for line in drawn.values() for point in zip(*line.get_data(), strict=True))
    assert points == sorted((result["floor"], result["device"]) for result in results if result["device"])


def test_no_line_of_a_tool_hides_that_of_a_tool_with_the_same_shares() -> None:
    tool = {"landed": 8, "wrong": 1}
    distance = {"files": 10, "tools": {"git apply": tool, "git am": tool, "patchkit port": tool}}
    for axes, share in zip(plots.ported({"50": distance, "150": distance}).axes, (80, 10), strict=True):
        points = np.concatenate([line.get_xydata() for line in axes.lines])
        assert set(points[:, 1]) == {share}
        assert len(set(points[:, 0])) == len(points) == 6


def test_another_measurement_is_another_plot(benchmarks: Path) -> None:
    record(benchmarks / "bench", "llama-8-triton-0.5.14", 0.5, "26128", release="0.5.14")
    change(benchmarks, "metadata", lambda results: [result["ratio"].update(median=3.0) for result in results])
    (benchmarks / "left-over.svg").write_text("")
    stale = ["gains.svg", "left-over.svg", "metadata-ratios.svg"]
    assert generate_docs.stale_pictures(write=True) == stale
    assert generate_docs.stale_pictures(write=False) == []
    assert not (benchmarks / "left-over.svg").exists()


def test_a_stale_plot_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr(generate_docs, "PAGES", ("LICENSE",))
    monkeypatch.setattr(generate_docs, "stale_pictures", lambda *, write: [])
    assert generate_docs.main(["--check"]) == 0
    monkeypatch.setattr(generate_docs, "stale_pictures", lambda *, write: [] if write else ["old.svg"])
    assert generate_docs.main(["--check"]) == 1
    assert "docs/benchmarks/old.svg would change" in capsys.readouterr().out
