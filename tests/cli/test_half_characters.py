"""Lone surrogates, of names that are not UTF-8 and of escapes in a coding, end no command in a traceback."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import msgspec
import pytest
from click.testing import CliRunner
from support.toys import MIRROR, git

from patchkit.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")
_READER = b"def total(batch):\n    return batch.seq_lens_sum['%s'] + 1\n"
_CODING = b"# coding: raw_unicode_escape\n"
_FORMATS = ("text", "json", "sarif", "junit", "github")


def _reader_of(name: bytes) -> dict[bytes, bytes]:
    return {b"srt/" + name: _READER % b""}


FILES: dict[str, Callable[[bytes], dict[bytes, bytes]]] = {
    "a name": lambda mirror: _reader_of(b"b_\xff.py"),
    "a string": lambda mirror: {MIRROR.encode(): _CODING + mirror + _READER % rb"\udc80"},
    "an edited class": lambda mirror: {
        MIRROR.encode(): _CODING
        + mirror.replace(b"class Mirror:", b"class Mirror:\n    needs_host = '\\udc80'")
    },
    "a comment": lambda mirror: {MIRROR.encode(): mirror + b"# patchkit \xff: t-\xff\n"},
    "a version": lambda mirror: {b"version.py": _CODING + b"__version__ = '0.5.\\udc80'\n"},
}


@pytest.fixture(params=FILES)
def odd(request: pytest.FixtureRequest, checkout: CheckoutTree) -> CheckoutTree:
    mirror = (checkout.package / MIRROR).read_bytes()
    for name, content in FILES[request.param](mirror).items():
        with open(os.path.join(os.fsencode(checkout.package), name), "wb") as file:
            file.write(content)
    git(checkout.root, "config", "user.name", "A Person")
    git(checkout.root, "config", "user.email", "person@example.com")
    git(checkout.root, "add", "-A")
    subject: list[str | bytes] = [
        "git",
        "-c",
        "i18n.commitEncoding=latin1",
        "commit",
        "-qm",
        b"Add \xff\n\n\xfe",
    ]
    subprocess.run(subject, cwd=checkout.root, check=True)
    return checkout


def done(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout


def test_each_command_ends_with_an_answer_or_an_error(odd: CheckoutTree, tmp_path: Path) -> None:
    for command in (
        ("status",),
        ("status", "--json"),
        ("status", "--format", "ledger"),
        ("diff",),
        *(("audit", "--format", form) for form in _FORMATS),
        *(("verify", "--format", form) for form in (*_FORMATS, "html")),
        ("apply", "--keep-going"),
        *(("verify", "--format", form) for form in (*_FORMATS, "html")),
        ("revert",),
        ("export", "-o", tmp_path / "series"),
    ):
        done(command[0], odd.root, *command[1:])
    done("matrix", odd.root, "--refs", "HEAD")


def test_an_audit_is_a_baseline_of_itself_and_its_sarif_is_read_strictly(
    odd: CheckoutTree, tmp_path: Path
) -> None:
    baseline = tmp_path / "baseline.json"
    code, found = done("audit", odd.root, "--json")
    assert code == (1 if "seq_lens_sum" in found else 0)
    baseline.write_text(found)
    assert done("audit", odd.root, "--baseline", baseline)[0] == 0
    msgspec.json.decode(done("audit", odd.root, "--format", "sarif")[1])


def test_a_draft_of_a_commit_that_is_not_utf_8(
    checkout: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkout.package / MIRROR
    path.write_bytes(path.read_bytes().replace(b"depth = 1", b"depth = 3"))
    with open(os.path.join(os.fsencode(checkout.package), b"srt/b_\xff.py"), "wb") as file:
        file.write(b"depth = 1\n")
    git(checkout.root, "add", "-A")
    subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", b"Deepen \xff\n\nFor \xfe."],
        cwd=checkout.root,
        check=True,
    )
    monkeypatch.chdir(checkout.root)
    code, _ = done("new", "t-new", "--from-commit", "HEAD", "-o", tmp_path / "drafts")
    assert code in (0, 1)
    assert "t-new" in next((tmp_path / "drafts").rglob("patch.toml")).read_text()
