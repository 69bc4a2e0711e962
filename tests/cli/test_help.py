"""Help: commands in groups, each with one line, and every option explained."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from patchkit.cli import main

SHOWN = {name: command for name, command in main.commands.items() if not command.hidden}


def helped(*words: str) -> str:
    result = CliRunner().invoke(main, [*words, "--help"], terminal_width=80)
    assert result.exit_code == 0
    return result.stdout


def test_every_command_is_in_one_group_and_its_line_is_whole() -> None:
    groups = re.split(r"\n\n(?=\S)", helped().strip())[1:]
    assert len(groups) > 3
    assert "Options:" in groups[0]
    assert groups.pop().startswith("Exit codes:\n  0    done\n")
    lines = [line.split(maxsplit=1) for group in groups[1:] for line in group.splitlines()[1:]]
    assert sorted(name for name, _ in lines) == sorted(SHOWN)
    for name, summary in lines:
        assert summary.endswith("."), (name, summary)
        assert "..." not in summary


@pytest.mark.parametrize("name", SHOWN)
def test_help_of_a_command_begins_with_a_sentence_and_explains_every_option(name: str) -> None:
    text = helped(name)
    first = text.partition("\n\n")[2].partition("\n\n")[0]
    assert len(" ".join(first.split())) < 70
    assert first.endswith(".")
    for param in SHOWN[name].params:
        assert not isinstance(param, click.Option) or (param.help or "").endswith((".", ").")), param.name
    assert ("TREE is an sglang checkout" in text) is bool(re.search(r"\[TREE\]|--on TREE +", text))
    assert ("PATCH is a patch's name" in text) is ("[PATCH]..." in text)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("apply", "--runtime", "vendord"), "help: did you mean vendored? patchkit apply --help\n"),
        (("status", "--format", "jsn"), "help: did you mean json? patchkit status --help\n"),
        (("rebase", "--onto"), "help: patchkit rebase --help\n"),
        (("statu",), "error: no such command 'statu'\nhelp: did you mean 'status'? patchkit --help\n"),
        (("verify", "--level", "everything"), "help: patchkit verify --help\n"),
        (("matrix", "--jobs", "many", "."), "help: patchkit matrix --help\n"),
    ],
)
def test_a_misspelt_value_of_an_option_is_answered_with_the_nearest_choice(
    words: tuple[str, ...], hint: str
) -> None:
    result = CliRunner().invoke(main, words, prog_name="patchkit")
    assert result.exit_code == 2
    assert result.stderr.endswith(hint)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "error: no change is named\n"),
        (
            ("--from-diff", __file__, "--from-commit", "HEAD"),
            "error: --from-diff cannot be combined with --from-commit",
        ),
    ],
)
def test_a_draft_of_no_change_or_of_two_is_answered_with_the_options_to_name_one(
    options: tuple[str, ...], what: str
) -> None:
    result = CliRunner().invoke(main, ("new", "my-fix", *options))
    assert result.exit_code == 2
    assert result.stderr.startswith(what)
    assert result.stderr.endswith("help: name one with --from-diff FILE or --from-commit COMMIT\n")


def completed(monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """Return what bash gets for the last word of a line."""
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    result = CliRunner().invoke(main, prog_name="patchkit", env={"_PATCHKIT_COMPLETE": "bash_complete"})
    return result.stdout.splitlines()


@pytest.mark.parametrize("command", ["show", "apply", "revert", "resolve", "status"])
def test_a_shell_completes_patches_groups_and_folders(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert completed(monkeypatch, f"patchkit {command} 2612") == ["plain,26128", "dir,2612"]
    assert "plain,@mirror" in completed(monkeypatch, f"patchkit {command} @m")
    assert completed(monkeypatch, f"patchkit {command} ") == ["dir,"]
