from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.audited import prelude

from patchkit import api
from patchkit.cli.audit import command as audit
from patchkit.errors import TreeError, UsageError
from patchkit.tree.tree import open_tree

READ = "def total(batch):\n    return batch.seq_lens_sum + 1\n"


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _name: str(folder))
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "fork"
    files = {**prelude(), "__init__.py": "", "version.py": '__version__ = "0.5.13"\n', "srt/__init__.py": ""}
    for name, text in files.items():
        path = root / "python" / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def add(tree: Path, text: str = READ) -> Path:
    path = tree / "python" / "sglang" / "srt" / "managers" / "example.py"
    path.write_text(text)
    return path


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(audit, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_a_clean_tree_ends_with_zero(tree: Path) -> None:
    code, output = run(tree)
    assert code == 0
    assert "No findings" in output


def test_a_finding_ends_with_one_and_is_shown_with_its_source(tree: Path) -> None:
    add(tree)
    code, output = run(tree)
    assert code == 1
    assert "return batch.seq_lens_sum + 1" in output


def test_json_is_the_contract(tree: Path) -> None:
    add(tree)
    code, output = run(tree, "--json")
    data = json.loads(output)
    assert code == 1
    assert data["findings"][0]["file"] == "srt/managers/example.py"
    assert data["findings"][0]["line"] == 2
    assert data["files_scanned"] == len(list((tree / "python/sglang/srt").rglob("*.py")))


def test_a_saved_answer_is_a_baseline_and_new_findings_still_fail(tree: Path, tmp_path: Path) -> None:
    path = add(tree)
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run(tree, "--json")[1])
    assert run(tree, "--baseline", baseline)[0] == 0
    path.write_text(f"{READ}\n\ndef more(batch):\n    return len(batch.seq_lens_cpu)\n")
    code, output = run(tree, "--baseline", baseline)
    assert code == 1
    assert "seq_lens_sum + 1" not in output


def test_possible_findings_are_shown_and_fail_nothing_as_in_verify(tree: Path) -> None:
    path = tree / "python/sglang/srt/models/example.py"
    path.parent.mkdir()
    path.write_text("def forward(forward_batch):\n    return max(forward_batch.seq_lens_cpu)\n")
    code, output = run(tree, "--json")
    assert code == 0
    assert [finding["confidence"] for finding in json.loads(output)["findings"]] == ["possible"]
    assert "1 possible" in run(tree)[1]
    assert "PK106" not in run(tree, "--format", "junit")[1]
    assert run(tree, "--min-confidence", "possible")[0] == 1


def test_less_sure_findings_can_be_left_out_of_the_exit_code(tree: Path) -> None:
    add(tree)
    assert run(tree, "--min-confidence", "likely")[0] == 1
    assert run(tree, "--min-confidence", "certain")[0] == 0


@pytest.mark.parametrize("style", ["text", "json", "sarif", "junit", "github"])
def test_every_format_names_the_finding(tree: Path, style: str) -> None:
    add(tree)
    code, output = run(tree, "--format", style)
    assert code == 1
    assert "srt/managers/example.py" in output
    assert "PK104" in output


def test_locations_start_at_the_root_of_the_checkout(tree: Path) -> None:
    (tree / ".git").mkdir()
    add(tree)
    assert "file=python/sglang/srt/managers/example.py," in run(tree, "--format", "github")[1]


def test_opt_out_suggestions_come_with_the_report(tree: Path) -> None:
    path = tree / "python/sglang/srt/layers/attention/slow_backend.py"
    path.write_text(
        "from sglang.srt.layers.attention.base_attn_backend import AttentionBackend\n\n\n"
        "class SlowBackend(AttentionBackend):\n"
        "    def init_forward_metadata(self, forward_batch):\n"
        "        return forward_batch.seq_lens_cpu.max()\n"
    )
    code, output = run(tree, "--suggest-opt-out", "--json")
    (entry,) = json.loads(output)["opt_out"]
    assert code == 0
    assert (entry["backend"], entry["can_opt_out"]) == ("SlowBackend", False)
    assert entry["in_the_way"][0]["line"] == 6
    assert "cannot opt out" in run(tree, "--suggest-opt-out")[1]


def test_the_second_run_recalls_the_first_and_an_edit_is_seen(tree: Path, cache_folder: Path) -> None:
    path = add(tree)
    first = json.loads(run(tree, "--json")[1])
    (kept,) = (cache_folder / "audit").glob("*.json")
    marked = json.loads(kept.read_text())
    marked["notes"] = ["recalled"]
    kept.write_text(json.dumps(marked))
    second = json.loads(run(tree, "--json")[1])
    assert second["notes"] == ["recalled"]
    assert second["findings"] == first["findings"]
    path.write_text("")
    assert run(tree)[0] == 0


def test_a_damaged_cache_entry_is_ignored(tree: Path, cache_folder: Path) -> None:
    add(tree)
    run(tree)
    (kept,) = (cache_folder / "audit").glob("*.json")
    kept.write_text("{")
    assert run(tree)[0] == 1


def test_a_cache_that_cannot_be_written_is_no_error(tree: Path, cache_folder: Path) -> None:
    cache_folder.write_text("in the way")
    add(tree)
    assert run(tree)[0] == 1


def test_nothing_is_written_into_the_tree(tree: Path) -> None:
    add(tree)
    before = sorted(path for path in tree.rglob("*"))
    run(tree)
    assert sorted(path for path in tree.rglob("*")) == before


@pytest.mark.parametrize(
    "text",
    [
        f"def total(batch):\n    return {'+'.join(['batch.seq_lens_sum'] * 500)}\n",
        "def total(batch):\n    if batch.seq_lens_sum:\n        pass\n"
        + "    elif batch:\n        pass\n" * 500,
        "seq_lens_sum = " + "(" * 500 + "1" + ")" * 500,
        "class A0:\n    needs_cpu_seq_lens = True\n"
        + "".join(f"class A{n}(A{n - 1}):\n    pass\n" for n in range(1, 200)),
    ],
    ids=["sum", "branches", "parentheses", "bases"],
)
def test_too_deep_nesting_is_an_error_of_one_sentence(tree: Path, text: str) -> None:
    add(tree, text)
    with pytest.raises(TreeError, match=r"example\.py.*more than 150"):
        run(tree)


def test_an_audit_without_end_ends_in_a_sentence(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tree)
    monkeypatch.setattr("patchkit.audit.solver._SECONDS", -1)
    with pytest.raises(TreeError, match="did not end within"):
        run(tree)


def test_escape_sequences_of_a_tree_reach_no_terminal(tree: Path) -> None:
    add(tree, "def total(batch):\n    return batch.seq_lens_sum + len('\x1b[2J')  # \x1b]0;owned\x07\n")
    (tree / "python/sglang/srt/managers/a\x1b[2J.py").write_text(READ)
    for style in ("text", "json", "github", "junit", "sarif"):
        output = run(tree, "--format", style, "--explain")[1]
        assert not {"\x1b", "\x07"} & set(output)


def test_a_folder_that_is_not_sglang_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TreeError):
        run(tmp_path)


def test_two_formats_are_refused(tree: Path) -> None:
    with pytest.raises(UsageError, match="cannot be combined"):
        run(tree, "--json", "--format", "sarif")


def test_a_linked_folder_that_hides_a_finding_fails_unless_it_is_allowed(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "example.py").write_text(READ)
    link = tree / "python/sglang/srt/managers/own"
    link.symlink_to(folder, target_is_directory=True)
    code, output = run(tree)
    assert code == 1
    assert "srt/managers/own" in output
    assert "not audited" in output
    code, output = run(tree, "--allow-unread")
    assert code == 0
    assert "srt/managers/own is a linked or unreadable folder" in output


def test_an_unreadable_folder_is_reported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tree / "python/sglang/srt/managers/own"
    folder.mkdir()
    scan = os.scandir

    def scandir(path: str | int) -> object:
        # The test's own folder is removed by descriptors.
        if not isinstance(path, int) and Path(path) == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    code, output = run(tree)
    assert code == 1
    assert "srt/managers/own" in output


def test_what_could_not_be_read_is_not_remembered_with_the_report(tree: Path, tmp_path: Path) -> None:
    link = tree / "python/sglang/srt/own"
    (tmp_path / "elsewhere").mkdir()
    link.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert run(tree)[0] == 1
    link.unlink()
    assert run(tree)[0] == 0


def test_progress_is_reported(tree: Path) -> None:
    add(tree)
    calls: list[tuple[str, int, int]] = []

    def watch(what: str, done: int, of: int) -> None:
        calls.append((what, done, of))

    api.audit(open_tree(tree), watch=watch)
    assert "functions: total" in {what for what, _, _ in calls}
    assert [done for _, done, _ in calls] == list(range(calls[0][2]))


def test_progress_goes_to_the_terminal_and_not_into_the_answer(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tree)
    monkeypatch.setenv("FORCE_COLOR", "1")  # A terminal, as far as rich knows.
    result = CliRunner().invoke(audit, [str(tree), "--json"])
    assert re.search(r"\d+ of \d+ functions: ForwardBatch.init_new", result.stderr)
    assert json.loads(result.stdout)["findings"]
