"""Trees that would hang, exhaust or crash whoever reads them are refused in a sentence that names the file."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.releases import run
from support.toys import (
    MIRROR,
    SOURCES,
    apply,
    attribute,
    edit,
    revert_patches,
    statement,
    toy,
    write_package,
)

from patchkit import api
from patchkit.errors import TreeError
from patchkit.patchset import load
from patchkit.patchset.select import PatchSet
from patchkit.plan.build import inspect, make_plan
from patchkit.tree.limits import MAX_BITS, MAX_BYTES, MAX_TOKENS, read_whole
from patchkit.tree.nesting import MAX_DEPTH, nests_deeper
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = "srt/layers/attention/base_attn_backend.py"
PATCHES = tuple(patch for patch in load.patches() if patch.id == "26128")


@pytest.fixture
def tree(tmp_path: Path) -> CheckoutTree:
    for file in ("__init__.py", "srt/__init__.py", FILE):
        path = tmp_path / "sglang" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return open_tree(tmp_path)


def expression(kind: str, depth: int) -> str:
    return {
        "parentheses": "(" * depth + "1" + ")" * depth,
        "sum": " + ".join(["a"] * depth),
        "powers": "**".join(["a"] * depth),
        "attributes": "a" + ".b" * depth,
        "calls": "f" + "()" * depth,
        "signs": "- " * depth + "1",
        "lambdas": "lambda: " * depth + "1",
        "choices": "1 if a else " * depth + "2",
        "lines": "(\n" + " +\n".join(["a"] * depth) + "\n)",
    }[kind]


EXPRESSIONS = ("parentheses", "sum", "powers", "attributes", "calls", "signs", "lambdas", "choices", "lines")


@pytest.mark.parametrize("read", [inspect, make_plan])
@pytest.mark.parametrize("depth", [500, 3000])
@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_an_expression_that_nests_too_deep_is_refused(
    tree: CheckoutTree, kind: str, depth: int, read: object
) -> None:
    (tree.package / FILE).write_text(f"class AttentionBackend:\n    x = {expression(kind, depth)}\n")
    with pytest.raises(TreeError, match=rf"base_attn_backend\.py nests .* more than {MAX_DEPTH} deep"):
        read(tree, PATCHES)  # type: ignore[operator]


@pytest.mark.parametrize("read", [inspect, make_plan])
def test_a_chain_of_branches_that_is_too_long_is_refused(tree: CheckoutTree, read: object) -> None:
    code = "if a:\n    pass\n" + "elif a:\n    pass\n" * 500
    (tree.package / FILE).write_text(code)
    with pytest.raises(TreeError, match=r"base_attn_backend\.py nests"):
        read(tree, PATCHES)  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["powers", "attributes", "calls", "signs", "lines"])
def test_a_chain_that_is_too_long_is_refused_in_what_is_no_python(tree: CheckoutTree, kind: str) -> None:
    (tree.package / FILE).write_text(f"class AttentionBackend:\n    x = ({expression(kind, 3000)}\n")
    with pytest.raises(TreeError, match=r"base_attn_backend\.py nests"):
        inspect(tree, PATCHES)


@pytest.mark.parametrize(
    "code",
    [
        f'x = "{"-" * 900}"',
        f"# {'-' * 900}",
        f"x = [{', '.join(['f(1)'] * 900)}]",
        ("x = f(1).a - 1\n" * 9 + "def f():\n  pass\n") * 90,
    ],
)
def test_long_text_and_long_lists_are_no_depth_in_what_is_no_python(tree: CheckoutTree, code: str) -> None:
    (tree.package / FILE).write_text(f"class AttentionBackend:\n    x = (\n{code}\n")
    with pytest.raises(TreeError, match=r"base_attn_backend\.py:\d+: not valid Python"):
        inspect(tree, PATCHES)


@pytest.mark.parametrize("read", [inspect, make_plan])
def test_an_integer_that_python_cannot_write_in_decimal_is_refused(tree: CheckoutTree, read: object) -> None:
    (tree.package / FILE).write_text(f"class AttentionBackend:\n    x = 0x1{'0' * 3600}\n")
    with pytest.raises(
        TreeError, match=rf"base_attn_backend\.py contains an integer of more than {MAX_BITS} bits"
    ):
        read(tree, PATCHES)  # type: ignore[operator]


@pytest.mark.parametrize("code", [f"0x1{'0' * 3490}", f"'0x1{'0' * 3600}'"], ids=["an integer", "text"])
def test_an_integer_within_the_limit_and_digits_in_a_text_are_read(tree: CheckoutTree, code: str) -> None:
    (tree.package / FILE).write_text(f"class AttentionBackend:\n    x = {code}\n")
    (status,) = make_plan(tree, PATCHES).patches
    assert "bits" not in status.reason


def test_patches_that_nest_too_deep_together_are_refused(tree: CheckoutTree) -> None:
    def code(number: int) -> str:
        return f"{'-' * 140}a.depth{number}"

    (tree.package / FILE).write_text(f"x = {code(0)}\n")
    stacked = [
        toy(f"deep-{n}", statement("rewrite", "deepen", FILE, f"a.depth{n}", code(n + 1))) for n in range(20)
    ]
    with pytest.raises(
        TreeError, match=r"base_attn_backend\.py contains an expression that is too deep with the"
    ):
        make_plan(tree, stacked)


@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_what_nests_within_the_limit_is_patched(tree: CheckoutTree, kind: str) -> None:
    def code(depth: int) -> str:
        return f"class AttentionBackend:\n    x = {expression(kind, depth)}\n"

    deepest = max(depth for depth in range(MAX_DEPTH + 2) if not nests_deeper(code(depth), MAX_DEPTH))
    (tree.package / FILE).write_text(code(deepest))
    flag = PATCHES[0].edits[0]
    assert flag.name == "base-flag"
    (status,) = make_plan(tree, PATCHES).patches
    assert "nests" not in status.reason


def chained(folder: Path, code: str) -> CheckoutTree:
    """Return a tree with a chain of terms, which only libcst nests, in a file that patches edit."""
    return open_tree(write_package(folder / "sglang", SOURCES | {MIRROR: SOURCES[MIRROR] + code.encode()}))


CHAINS: dict[str, Callable[[int], str]] = {
    "terms": lambda count: "x = " + " and ".join(["a"] * count),
    "strings": lambda count: "x = (\n" + '"a"\n' * count + ")",
    "names": lambda count: f"import {'.'.join('a' * count)}",
}


@pytest.mark.parametrize("kind", CHAINS)
def test_a_chain_of_terms_stays_in_a_file_that_is_patched_and_reverted(tmp_path: Path, kind: str) -> None:
    tree = chained(tmp_path, CHAINS[kind](MAX_DEPTH - 10) + "\n")
    before = tree.read(MIRROR)
    apply(tree)
    assert tree.read(MIRROR) != before
    revert_patches(tree)
    assert tree.read(MIRROR) == before


@pytest.mark.parametrize("count", [MAX_DEPTH + 10, 8_000, 100_000])
@pytest.mark.parametrize("kind", CHAINS)
def test_a_chain_of_terms_that_is_too_long_is_refused(tmp_path: Path, kind: str, count: int) -> None:
    tree = chained(tmp_path, CHAINS[kind](count) + "\n")
    with pytest.raises(
        TreeError, match=r"mirror\.py (nests expressions or statements more than|has more than)"
    ):
        apply(tree)


@pytest.mark.parametrize("read", [inspect, make_plan])
def test_a_long_list_is_refused_before_it_takes_a_gigabyte(tree: CheckoutTree, read: object) -> None:
    (tree.package / FILE).write_text(f"class AttentionBackend:\n    x = [{'1,' * 300_000}]\n")
    with pytest.raises(
        TreeError, match=rf"base_attn_backend\.py has more than {MAX_TOKENS:,} words and signs"
    ):
        read(tree, PATCHES)  # type: ignore[operator]


@pytest.mark.parametrize("read", [inspect, make_plan])
def test_a_file_that_is_too_long_is_refused(tree: CheckoutTree, read: object) -> None:
    (tree.package / FILE).write_text("a = 1\n" * (MAX_BYTES // 6 + 1))
    with pytest.raises(
        TreeError, match=r"base_attn_backend\.py has 4 MiB, and files over 4 MiB are not parsed"
    ):
        read(tree, PATCHES)  # type: ignore[operator]


def test_many_blank_lines_are_read(tree: CheckoutTree) -> None:
    (tree.package / FILE).write_text("\n" * 80_000 + "class AttentionBackend:\n    pass\n")
    assert inspect(tree, PATCHES)


def lines_run(act: Callable[[], object]) -> int:
    """Return how many lines of Python an act runs: what it takes, told by no clock."""
    run = 0

    def count(_frame: object, event: str, _argument: object) -> Any:
        nonlocal run
        run += event == "line"
        return count

    sys.settrace(count)
    try:
        act()
    finally:
        sys.settrace(None)
    return run


def test_work_grows_with_blank_lines_and_not_with_their_square(tmp_path: Path) -> None:
    patch = toy(
        "toy",
        attribute(MIRROR, "Mirror", "flag = 1"),
        statement("insert-after", "x", MIRROR, "depth = 1", "last()"),
    )
    patches = PatchSet((patch,), "toys")

    def work(blank: int) -> int:
        text = SOURCES[MIRROR].replace(b"\n\n\ndepth", b"\n" * blank + b"depth")
        there = open_tree(write_package(tmp_path / str(blank) / "sglang", SOURCES | {MIRROR: text}))

        def there_and_back() -> None:
            api.apply(there, patches)
            edit(there, MIRROR, b"copies = 0", b"copies = 1")
            api.revert(there, patches)
            api.audit(there)

        return lines_run(there_and_back)

    work(10)  # What is made once a process is made here.
    few, many = work(1000), work(8000)
    assert many < 12 * few


@pytest.mark.parametrize("command", ["status", "diff", "apply"])
def test_a_pipe_in_the_place_of_a_file_is_refused(tree: CheckoutTree, command: str) -> None:
    (tree.package / FILE).unlink()
    os.mkfifo(tree.package / FILE)
    assert "is a pipe, a socket or a device" in run(command, tree.root, code=4).stderr


def test_a_socket_in_the_place_of_a_file_is_refused(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.package / "srt")  # The name of a socket has to be short.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("x.py")
        assert "x.py is a pipe, a socket or a device" in run("status", tree.root, code=4).stderr


def test_a_link_to_a_device_is_refused(tree: CheckoutTree) -> None:
    (tree.package / "srt/x.py").symlink_to("/dev/zero")
    assert "x.py is a pipe, a socket or a device" in run("status", tree.root, code=4).stderr


def test_a_file_whose_name_is_not_utf_8_is_read(tree: CheckoutTree) -> None:
    name = os.fsencode(tree.package / "srt") + b"/\xff\xfe.py"
    with open(name, "wb") as file:
        file.write(b"class TritonAttnBackend:\n    pass\n")
    run("status", tree.root)


@pytest.mark.skipif(sys.platform != "linux", reason="counts what Linux says of a process")
def test_a_thousand_files_are_read_into_memory_that_is_theirs_alone(tmp_path: Path) -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as maps:
            return sum(1 for _ in maps)

    (tmp_path / "file").write_bytes(b"x = 1\n" * 2000)
    before = mappings()
    read = [read_whole(tmp_path / "file") for _ in range(1000)]
    assert len(read) == 1000
    assert mappings() < before + 500
