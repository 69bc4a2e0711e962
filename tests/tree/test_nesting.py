"""No source ends the process: what libcst would nest too deep is refused before it is parsed."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest
from support.nests import STATEMENTS, mixed
from support.toys import MIRROR, SOURCES, add_patch, attribute, write_package

import patchkit
from patchkit.tree.nesting import MAX_DEPTH, nests_deeper

_PACKAGE = Path(patchkit.__file__).parent
_BESIDE = 12
"""Nodes that nest in every source, such as a module, a statement and the white space of a comma."""


def depth_of(node: cst.CSTNode) -> int:
    """Return how many nodes libcst nests, without recursion."""
    deepest = -1
    level: list[cst.CSTNode] = [node]
    while level:
        deepest += 1
        level = [below for node in level for below in node.children]
    return deepest


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_nests_is_counted_and_refused_at_any_size(name: str) -> None:
    for count in (1, 2, 3, 5, 9):
        source = STATEMENTS[name](count) + "\n"
        try:
            depth = depth_of(cst.parse_module(source))
        except cst.ParserSyntaxError:
            continue
        assert depth <= _BESIDE or nests_deeper(source, depth - _BESIDE - 1)
    for count in (200, 3_000):
        assert nests_deeper(STATEMENTS[name](count), MAX_DEPTH)


@pytest.mark.parametrize("seed", range(12))
def test_no_mixture_of_expressions_nests_deeper_than_is_counted(seed: int) -> None:
    draw = random.Random(seed)
    read = 0
    while read < 10:
        source = f"x = {mixed(draw, draw.randint(5, 60))}\n"
        if nests_deeper(source, MAX_DEPTH):
            continue
        read += 1
        try:
            depth = depth_of(cst.parse_module(source))
        except cst.ParserSyntaxError:
            continue
        assert depth <= _BESIDE or nests_deeper(source, depth - _BESIDE - 1)


@pytest.mark.parametrize(
    "source",
    [
        "x = [" + "a.b(c, d=[e]),\n" * 3_000 + "]",
        "x = {" + "'a': {'b': [1, -2.5, not c]},\n" * 3_000 + "}",
        "x = a < b\n" * 3_000,
        "x = '" + "((((" * 3_000 + "'",
        "# " + "((((" * 3_000,
        "'''\n" + "((((\n" * 3_000 + "'''",
        "f'''" + "<a-b.c>{a.b + c!r:>{d}} {{ " * 3_000 + "'''",
        "f'" + '{a["b"]} ' * 3_000 + "'",
        "def a(" + ", ".join(f"a{index}: b.c = 1" for index in range(3_000)) + "): pass",
        "if a:\n  pass\nelif b:\n  pass\nelse:\n  pass\n" * 3_000,
        "\n".join(f"{' ' * 4 * index}if a:" for index in range(20)) + "\n" + " " * 80 + "a.b(c)",
        "try: pass\n" + "except A: pass\n" * 3_000,
        "x = " + " or ".join(["a.b[c] == d.e(f)"] * 100),
    ],
    ids=lambda source: source[:12].strip(),
)
def test_what_is_only_long_is_read(source: str) -> None:
    assert not nests_deeper(source, MAX_DEPTH)


def test_an_encoding_hides_nothing() -> None:
    source = f"# coding: utf-7\nx = {'(' * 500}1{')' * 500}\n".encode()
    assert nests_deeper(source.replace(b"(", b"+ACg-").replace(b")", b"+ACk-"), MAX_DEPTH)


_DRIVE = """
import bisect, pickle, sys, threading
import libcst as cst
from support.nests import STATEMENTS
from patchkit.tree.nesting import MAX_DEPTH, nests_deeper

def below(calls):
    if calls:
        return below(calls - 1)
    for name, make in STATEMENTS.items():
        print(name, flush=True)
        count = bisect.bisect_left(range(200), True, key=lambda n: nests_deeper(make(n) + "\\n", MAX_DEPTH)) - 1
        try:
            module = cst.parse_module(make(count) + "\\n")
        except cst.ParserSyntaxError:
            continue
        assert module.deep_clone().deep_equals(module)
        module.visit(cst.CSTTransformer())
        assert module.code and repr(module)
        pickle.dumps(module)

threading.stack_size(2**20)
failed = []
threading.excepthook = failed.append
thread = threading.Thread(target=below, args=(150,))
thread.start()
thread.join()
sys.exit(bool(failed))
"""


def test_what_nests_as_deep_as_the_limit_is_parsed_copied_and_written_on_a_small_stack() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DRIVE],
        check=False,
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-80:], done.stderr[-300:])


@pytest.mark.parametrize("name", ["imports", "and", "def", "parentheses"])
def test_a_command_refuses_a_source_that_would_end_it(tmp_path: Path, name: str) -> None:
    package = write_package(
        tmp_path / "sglang",
        SOURCES | {MIRROR: f"{STATEMENTS[name](8_000 if name in ('imports', 'and') else 1_000)}\n".encode()},
    )
    add_patch(tmp_path / "patches", "toy", attribute(MIRROR, "Mirror", "flag = 1"))
    command = [
        sys.executable,
        "-m",
        "patchkit",
        "status",
        str(package),
        "--patches",
        str(tmp_path / "patches"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 4
    assert "mirror.py nests expressions or statements more than" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_every_source_is_counted_before_libcst_parses_it() -> None:
    found = {
        str(file.relative_to(_PACKAGE))
        for file in _PACKAGE.rglob("*.py")
        if re.search(r"(?<!`)\bcst\.parse_|libcst\.parse_module\(", file.read_text())
    }
    # The first is the gate, the second parses what `limits.require_manageable` let pass.
    assert found == {"tree/nesting.py", "tree/piecewise.py", "codemods/language/imports.py"}
