"""Every ``--json`` answer conforms to its published JSON Schema."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec
import pytest
from click.testing import CliRunner
from support.toys import git, write_package

from patchkit.cli import main, schemas

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
pytestmark = pytest.mark.usefixtures("patch_folder")


def answered(command: str, *arguments: object, codes: tuple[int, ...] = (0,), name: str = "") -> Any:
    """Assert that the command's answer has all keys that it promises, in that order, and no other.

    ``name`` is that of the promise, if not the command's.
    """
    result = CliRunner().invoke(main, [command, *map(str, arguments), "--json"])
    assert result.exit_code in codes, (result.output, result.exception)
    result_json, promised = json.loads(result.stdout), schemas.ANSWERS[name or command]
    msgspec.convert(result_json, promised)
    forms = get_args(promised) if isinstance(promised, UnionType) else (promised,)
    (form,) = (form for form in forms if (get_origin(form) is tuple) is isinstance(result_json, list))
    for answer in result_json if isinstance(result_json, list) else [result_json]:
        struct = form.__args__[0] if isinstance(result_json, list) else form
        assert list(answer) == [name for name in struct.__struct_encode_fields__ if name in answer]
    return result_json


def test_every_command_has_an_answer_and_a_published_schema() -> None:
    # Who calls the driver is git, which reads no answer.
    assert set(main.commands) - {"merge-driver"} <= set(schemas.ANSWERS)
    for command in schemas.ANSWERS:
        assert json.loads((SCHEMAS / f"{command}.json").read_text()) == json.loads(
            json.dumps(schemas.schema(command))
        )


def test_what_only_reads(checkout: CheckoutTree, tmp_path: Path) -> None:
    root = checkout.root
    answered("show")
    answered("show", "t-flag")
    answered("status", root)
    answered("diff", root)
    answered("matrix", root, "--refs", "HEAD")
    answered("rebase", root, "--onto", "HEAD")
    answered("audit", root, codes=(0, 1))
    answered("audit", root, "--suggest-opt-out", codes=(0, 1))
    git(root, "config", "user.name", "A Maintainer")
    git(root, "config", "user.email", "maintainer@example.com")
    answered("export", root, "-o", tmp_path / "series")


def test_what_writes(checkout: CheckoutTree) -> None:
    root = checkout.root
    git(root, "config", "user.name", "A Maintainer")
    git(root, "config", "user.email", "maintainer@example.com")
    answered("apply", root, "t-flag", "--dry-run")
    answered("apply", root, "--commit")
    answered("verify", root, codes=(0, 1))
    answered("status", root, "--format", "ledger", name="status-ledger")
    answered("revert", root)
    answered("apply", "--continue", root, name="apply-continue")
    answered("apply", "--abort", root, name="apply-continue")
    answered("apply", root, "--allow-dirty")


def test_a_key_of_an_option_is_there_with_the_option_alone(checkout: CheckoutTree) -> None:
    root = checkout.root
    git(root, "config", "user.name", "A Maintainer")
    git(root, "config", "user.email", "maintainer@example.com")
    assert not {"merged", "commits"} & answered("rebase", root, "--onto", "HEAD").keys()
    assert {"merged", "commits"} <= answered("rebase", root, "--onto", "HEAD", "--merge").keys()
    assert "opt_out" not in answered("audit", root)
    assert answered("audit", root, "--suggest-opt-out")["opt_out"] == []


def test_an_empty_key_is_left_out(checkout: CheckoutTree) -> None:
    applied = answered("apply", checkout.root)
    assert list(applied) == ["tree", "patches", "changed_files"]
    assert all(edit["reason"] == "" for patch in applied["patches"] for edit in patch["edits"])
    assert "unknown" not in answered("status", checkout.root)


def test_a_folder_whose_name_is_no_unicode_is_answered_in_ascii(tmp_path: Path) -> None:
    package = tmp_path / os.fsdecode(b"fork-\xff-\xc3\xa9") / "sglang"
    write_package(package)
    result = CliRunner().invoke(main, ["status", str(package), "--json"])
    assert result.exit_code == 0
    assert result.stdout.isascii()
    assert json.loads(result.stdout)["tree"]["package"] == str(package)


def test_doctor(checkout: CheckoutTree) -> None:
    (checkout.package / "srt" / "server_args.py").write_text(
        "class ServerArgs:\n    attention_backend: str = ''\n    speculative_algorithm: str = ''\n"
    )
    answered("doctor", checkout.root, "--attention-backend", "triton")
    script = checkout.root.parent / "serve.sh"
    script.write_text("python -m sglang.launch_server --attention-backend triton\n")
    answered("doctor", checkout.root, script, name="doctor-files")
