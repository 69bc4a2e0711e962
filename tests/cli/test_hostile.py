"""What a hostile patch or tree says is shown, never obeyed, and a malformed patch is refused in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.releases import run

if TYPE_CHECKING:
    from pathlib import Path

ESCAPE = "\\u001b]0;owned\\u0007\\u001b[2J"
PATCH = {
    "schema": "1",
    "id": '"hostile"',
    "title": f'"A {ESCAPE} title"',
    "why": f'"Why {ESCAPE} not."',
    "risk": f'"{ESCAPE}"',
    "verify": f'"{ESCAPE}"',
}
EDIT = {"kind": '"class-attribute"', "why": '"as it is"', "at": '"srt/a.py::A"', "code": '"a = 1"'}


def folder_with(path: Path, patch: dict[str, str] | None = None, edit: dict[str, str] | None = None) -> Path:
    keys = {**EDIT, **(edit or {})}
    if "argument" in keys:
        del keys["code"]
    tables = [("", {**PATCH, **(patch or {})}), ("[edit.one]", keys)]
    lines = [
        line for head, keys in tables for line in (head, *(f"{key} = {text}" for key, text in keys.items()))
    ]
    (path / "hostile").mkdir(parents=True)
    (path / "hostile" / "patch.toml").write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("command", [("list",), ("show", "hostile")])
def test_escape_sequences_are_written_out(tmp_path: Path, command: tuple[str, ...]) -> None:
    shown = run(*command, "--patches", folder_with(tmp_path)).stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b]0;owned\\x07" in shown


def test_escape_sequences_of_a_tree_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2Jb"
    (path / "sglang" / "srt").mkdir(parents=True)
    (path / "sglang" / "__init__.py").touch()
    shown = run("status", path).stdout
    assert "\x1b" not in shown
    assert "\\x1b[2Jb" in shown
    assert "\x1b" not in run("status", tmp_path / "no\x1b[2J", code=4).stderr


def test_escape_sequences_in_a_patched_file_reach_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, text in {"__init__.py": "", "srt/a.py": "# \x1b]0;owned\x07\nclass A:\n    pass\n"}.items():
        path = tmp_path / "tree" / "sglang" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = ("diff", tmp_path / "tree", "hostile", "--patches", folder_with(tmp_path / "patches"))
    assert (
        "\x1b]0;owned" in run(*command).stdout
    )  # For git apply, a diff in a file or a pipe is byte for byte.
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run(*command).stdout
    assert "\\x1b]0;owned\\x07" in shown
    assert "\x1b]" not in shown


DEEP = {
    "lists": "[" * 3000 + "]" * 3000,
    "attributes": "a" + ".b" * 3000,
    "signs": "-" * 3000 + "1",
    "calls": "f" + "()" * 3000,
    "dicts": "{1:" * 3000 + "1" + "}" * 3000,
}


@pytest.mark.parametrize("deep", DEEP.values(), ids=list(DEEP))
@pytest.mark.parametrize("key", ["find", "code", "imports"])
def test_code_of_a_patch_that_nests_too_deep_is_refused_in_a_sentence(
    tmp_path: Path, key: str, deep: str
) -> None:
    edit = {"kind": '"rewrite"', "find": '"a = 1"', "code": '"a = 2"'}
    edit[key] = f'["{deep}"]' if key == "imports" else f'"{deep}"'
    refused = run("list", "--patches", folder_with(tmp_path, edit=edit), code=2)
    assert f"key `{key}`" in refused.stderr
    assert len(refused.stderr) < 1000


@pytest.mark.parametrize(
    ("patch", "edit", "said"),
    [
        ({}, {"why": '"one\\rtwo"'}, "key `why`"),
        ({}, {"why": '"one\\ntwo"'}, "key `why`"),
        ({}, {"at": '"srt/a\\u0000.py::A"'}, "key `at`"),
        ({"id": '"hostile\\n"'}, {}, "id"),
        ({"title": "[" * 5000 + "]" * 5000}, {}, "patch.toml"),
        ({}, {"kind": '"call-argument"', "find": '"f()"', "argument": '"a=1)(b=2"'}, "argument"),
        ({}, {"kind": '"call-argument"', "find": '"f()"', "argument": '")"'}, "argument"),
    ],
)
def test_malformed_patch_is_refused_in_a_sentence(
    tmp_path: Path, patch: dict[str, str], edit: dict[str, str], said: str
) -> None:
    folder = folder_with(tmp_path, patch, edit)
    refused = run("list", "--patches", folder, code=2)
    assert said in refused.stderr
    assert "Traceback" not in refused.output
