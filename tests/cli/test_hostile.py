"""Text of a hostile patch or tree is printed escaped, and a malformed patch is refused in one sentence."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.releases import run
from support.toys import MIRROR, SOURCES, git, socket_at, write_package

from patchkit.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

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


@pytest.mark.parametrize("command", [("show",), ("show", "hostile")])
def test_escape_sequences_are_written_out(tmp_path: Path, command: tuple[str, ...]) -> None:
    output = run(*command, "--patches", folder_with(tmp_path)).stdout
    assert "\x1b" not in output
    assert "\x07" not in output
    assert "\\x1b]0;owned\\x07" in output


def test_escape_sequences_of_a_tree_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2Jb"
    (path / "sglang" / "srt").mkdir(parents=True)
    (path / "sglang" / "__init__.py").touch()
    output = run("status", path).stdout
    assert "\x1b" not in output
    assert "\\x1b[2Jb" in output
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
    output = run(*command).stdout
    assert "\\x1b]0;owned\\x07" in output
    assert "\x1b]" not in output


NAME = "srt/managers/m\x1b]0;owned\x07\n::error::x\u202e.py"
BODIES = {
    "fits": SOURCES[MIRROR],
    "is there twice": SOURCES[MIRROR] * 2,
    "is no Python": b"class Mirror(:\n",
    "breaks": b"class Mirror:\n    def longest(self, batch):\n        return batch.seq_lens_cpu.max()\n",
}
SHOWN = (
    *(("status",), ("apply",), ("audit",), ("rebase", "--onto", "HEAD"), ("diff",)),
    *(
        ("status", "--format", "ledger"),
        ("status", "--format", "ledger", "--json"),
        ("doctor",),
        ("revert",),
        ("apply", "--continue"),
    ),
    *(("verify", "--format", form) for form in ("text", "json", "junit", "sarif", "github")),
    *(("audit", "--format", form) for form in ("json", "junit", "sarif", "github")),
    *(("matrix", "--refs", "HEAD", "refs/heads/*", "--format", form) for form in ("text", "csv", "json")),
    ("matrix", "--refs", "HEAD", "--verify"),
)


@pytest.fixture(params=BODIES)
def hostile(request: pytest.FixtureRequest, tmp_path: Path, patch_folder: Path) -> Path:
    """A fork whose file, branch and message have what steers a terminal or a build machine."""
    root = tmp_path / "fork"
    sources = {file: text for file, text in SOURCES.items() if file != MIRROR}
    write_package(root / "python" / "sglang", sources | {NAME: BODIES[request.param]})
    git(tmp_path, "init", "-q", "fork")
    git(root, "add", ".")
    git(root, "commit", "-qm", "\x1b[2J")
    git(root, "branch", "b\u202ex")
    return root


def commanded(text: str) -> list[str]:
    """Return what a terminal or a build machine would obey, beside the commands that findings are."""
    odd = [char for char in text if not char.isprintable() and char != "\n"]
    return odd + [
        line
        for line in text.splitlines()
        if line.startswith("::") and not line.startswith(("::error file=", "::notice::"))
    ]


@pytest.mark.parametrize("command", SHOWN, ids=" ".join)
def test_names_of_a_tree_steer_neither_a_terminal_nor_a_build_machine(
    hostile: Path, command: tuple[str, ...]
) -> None:
    ran = CliRunner().invoke(main, [command[0], str(hostile), *command[1:]])
    assert ran.exception is None or isinstance(ran.exception, SystemExit)
    # A diff in a file or a pipe is byte for byte; the name of a file is not of it.
    assert commanded(ran.output) == []


@pytest.mark.parametrize("command", [("verify",), ("matrix", "--refs", "HEAD")], ids=" ".join)
def test_pages_contain_no_control_characters(hostile: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    page = tmp_path / "page.html"
    CliRunner().invoke(main, [command[0], str(hostile), *command[1:], "--format", "html", "-o", str(page)])
    text = page.read_text()
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    assert [line for line in text.splitlines() if line.startswith("::")] == []


@pytest.mark.parametrize(
    "upstream", ["javascript:alert(1)", " JavaScript:alert(1)", "data:text/html,x", " https://example.org/1"]
)
def test_what_a_page_would_link_to_is_a_web_address(tmp_path: Path, upstream: str) -> None:
    write_package(tmp_path / "tree" / "sglang", SOURCES | {"srt/a.py": b"class A:\n    pass\n"})
    patches = folder_with(tmp_path / "patches", {"upstream": f'"{upstream}"'})
    words = ("apply", tmp_path / "tree", "hostile", "--patches", patches)
    assert "key `upstream`" in run(*words, code=2).output


def test_a_page_links_to_the_whole_address(tmp_path: Path) -> None:
    upstream = "https://example.org/'title='x\"onclick=\"alert(1)"
    write_package(tmp_path / "tree" / "sglang", SOURCES | {"srt/a.py": b"class A:\n    pass\n"})
    patches = folder_with(tmp_path / "patches", {"upstream": json.dumps(upstream)})
    run("apply", tmp_path / "tree", "hostile", "--patches", patches)
    page = tmp_path / "page.html"
    words = ("verify", tmp_path / "tree", "--patches", patches, "--format", "html", "-o", page)
    ran = CliRunner().invoke(main, list(map(str, words)))
    assert ran.exception is None or isinstance(ran.exception, SystemExit)
    links = [html.unescape(link) for link in re.findall(r'href="([^"]*)"', page.read_text())]
    assert links.count(upstream) == 1
    assert all(link.startswith("https://") for link in links)


def test_diff_of_a_file_with_an_odd_name_is_one_that_git_takes(tmp_path: Path, patch_folder: Path) -> None:
    root, name = tmp_path / "fork", 'srt/managers/a "b" \\c\t.py'
    sources = {file: text for file, text in SOURCES.items() if file != MIRROR}
    write_package(root / "python" / "sglang", sources | {name: SOURCES[MIRROR]})
    git(tmp_path, "init", "-q", "fork")
    (tmp_path / "diff").write_bytes(run("diff", root).stdout_bytes)
    git(root, "apply", str(tmp_path / "diff"))
    assert b"needs_host = False" in (root / "python" / "sglang" / name).read_bytes()


GIVEN = {
    "audit": ("audit", "--baseline"),
    "verify": ("verify", "--baseline"),
    "doctor": ("doctor", "--server-args"),
    "new": ("new", "own-patch", "--on", "TREE", "--from-diff"),
}
NESTED = b"[" * 100_000 + b"]" * 100_000
JUNK = {
    "nested lists": NESTED,
    "nested in a list of findings": b'{"findings": [{"path": %s}]}' % NESTED,
    "nested in a key": b'{"x": %s}' % NESTED,
    "no UTF-8": b'{"findings": "\xff", "\xfe": 1}',
    "no JSON and no diff": b"\x00\x1b[2J\n::error::x",
    "half a character": b'{"findings": ["\\ud800"], "model_path": "\\ud800"}',
    "an integer without end": b'{"findings": 1, "tp_size": %s}' % (b"9" * 5000),
    "cut off": b'{"findings": [',
}


def given(tmp_path: Path, command: str, file: Path) -> str:
    """Return what a command says that is given a file, which it refuses."""
    sources = SOURCES | {"srt/server_args.py": b"class ServerArgs:\n    tp_size: int = 1\n"}
    tree = write_package(tmp_path / "tree" / "sglang", sources).parent
    name, *words = GIVEN[command]
    arguments = [str(tree) if word == "TREE" else word for word in words]
    before = [] if "TREE" in words else [str(tree)]
    ran = CliRunner().invoke(main, [name, *before, *arguments, str(file)])
    assert isinstance(ran.exception, SystemExit), ran.exception
    assert ran.exit_code in (2, 3, 4)
    assert commanded(ran.stderr) == []
    assert len([line for line in ran.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert len(ran.stderr) < 400
    return ran.stderr


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("command", GIVEN)
def test_junk_in_a_file_that_is_named_is_a_sentence(tmp_path: Path, command: str, junk: str) -> None:
    file = tmp_path / "given"
    file.write_bytes(JUNK[junk])
    given(tmp_path, command, file)


@pytest.mark.parametrize("command", GIVEN)
def test_what_is_no_file_or_has_no_end_is_a_sentence(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 2**36)
    assert "a pipe or a device" in given(tmp_path, command, tmp_path / "pipe")
    assert "a pipe or a device" in given(tmp_path, command, Path("/dev/zero"))
    assert "more than 64 MiB" in given(tmp_path, command, huge)
    for name in ("loop", "gone", "."):
        given(tmp_path, command, tmp_path / name)


def test_pipe_in_the_place_of_a_patch_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "patches" / "x").mkdir(parents=True)
    os.mkfifo(tmp_path / "patches" / "x" / "patch.toml")
    assert "a pipe or a device" in run("show", "--patches", tmp_path / "patches", code=2).stderr


@pytest.mark.parametrize("words", ["--tp-size 'x", "--tp-size ²", f"--tp-size {'9' * 5000}", "--tp-size=--1"])
def test_odd_words_of_a_server_are_no_traceback(tmp_path: Path, words: str) -> None:
    sources = SOURCES | {"srt/server_args.py": b"class ServerArgs:\n    tp_size: int = 1\n"}
    tree = write_package(tmp_path / "tree" / "sglang", sources).parent
    ran = CliRunner().invoke(main, ["doctor", str(tree), words])
    assert ran.exception is None or isinstance(ran.exception, SystemExit)


def name_of_no_characters(path: Path) -> None:
    with open(os.fsencode(path.parent) + b"/\xff\xfe.py", "wb") as file:
        file.write(BODIES["breaks"])


ODD: dict[str, Callable[[Path], object]] = {
    "no UTF-8": name_of_no_characters,
    "pipe": os.mkfifo,
    "socket": socket_at,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path.name),
}
READ = (
    *(
        ("status",),
        ("status", "--json"),
        ("diff",),
        ("apply", "--keep-going"),
        ("revert",),
        ("apply", "--continue"),
    ),
    *(("audit", "--format", form) for form in ("text", "json", "junit", "sarif", "github")),
    *(("verify", "--format", form) for form in ("text", "json", "junit", "sarif", "github")),
    *(("status", "--format", "ledger"), ("doctor",)),
)


@pytest.mark.parametrize("odd", ODD)
def test_odd_entry_of_a_tree_is_no_wait_and_no_traceback(
    tmp_path: Path, patch_folder: Path, odd: str
) -> None:
    tree = write_package(tmp_path / "sglang").parent
    ODD[odd](tree / "sglang" / "srt" / "managers" / "odd.py")
    for command in READ:
        ran = CliRunner().invoke(main, [command[0], str(tree), *command[1:]])
        assert ran.exception is None or isinstance(ran.exception, SystemExit), (command, ran.exception)
        assert commanded(ran.output) == []


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
    refused = run("show", "--patches", folder_with(tmp_path, edit=edit), code=2)
    assert f"key `{key}`" in refused.stderr
    assert len(refused.stderr) < 1000


@pytest.mark.parametrize(
    ("patch", "edit", "message"),
    [
        ({}, {"why": '"one\\rtwo"'}, "key `why`"),
        ({}, {"why": '"one\\ntwo"'}, "key `why`"),
        ({}, {"at": '"srt/a\\u0000.py::A"'}, "key `at`"),
        *(({key: '"one\\u0000two"'}, {}, f"key `{key}`") for key in ("title", "why", "risk", "upstream")),
        ({"id": '"hostile\\n"'}, {}, "id"),
        ({"title": "[" * 5000 + "]" * 5000}, {}, "patch.toml"),
        ({}, {"kind": '"call-argument"', "find": '"f()"', "argument": '"a=1)(b=2"'}, "argument"),
        ({}, {"kind": '"call-argument"', "find": '"f()"', "argument": '")"'}, "argument"),
    ],
)
def test_malformed_patch_is_refused_in_a_sentence(
    tmp_path: Path, patch: dict[str, str], edit: dict[str, str], message: str
) -> None:
    folder = folder_with(tmp_path, patch, edit)
    refused = run("show", "--patches", folder, code=2)
    assert message in refused.stderr
    assert "Traceback" not in refused.output
