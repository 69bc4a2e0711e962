from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patchkit.patchset import load
from patchkit.plan.needed_bodies import needed_bodies
from patchkit.tree.bodies import NeededBodies, without_bodies

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch

KEPT = frozenset({"read", "Shelf"})


def reduced(code: str, around: frozenset[str] = frozenset()) -> str:
    """Return what is left of code, without what marks the places, having put all back in between."""
    source = code.encode()
    less = without_bodies(source, ast.parse(source), NeededBodies(KEPT, frozenset(), around))
    assert less.restored(less.source) == source
    assert less.restored(b"# new\n" + less.source) == b"# new\n" + source
    return re.sub(r"  #~patchkit \w+$", "", less.source.decode(), flags=re.MULTILINE)


def test_of_a_function_that_is_not_needed_only_the_name_is_left() -> None:
    assert reduced("@shelved\ndef lend(\n    book,\n):\n    book.out = True\n    return book\n\nx = 1\n") == (
        "def lend():\n    ...\n\nx = 1\n"
    )


def test_body_of_a_needed_function_is_kept_with_its_content() -> None:
    code = "def read(book):\n    def turn():\n        return 1\n    return turn()\n"
    assert reduced(code) == code


def test_function_around_one_that_is_needed_is_kept() -> None:
    code = "def shelve():\n    def read():\n        return 1\n    return read()\n"
    assert reduced(code, around=frozenset({"shelve"})) == code
    assert "def read" not in reduced(code)


@pytest.mark.parametrize("word", ["global", "nonlocal"])
def test_function_that_binds_an_outer_variable_stays(word: str) -> None:
    code = (
        f"def lend():\n    days = 1\n    def extend():\n        {word} days\n        days = 2\n    extend()\n"
    )
    assert reduced(code) == code
    assert reduced(code.replace(f"{word} days", f"'{word} days'")) == "def lend():\n    ...\n"


def test_function_whose_header_binds_an_outer_variable_stays() -> None:
    code = "def lend(days=(most := 14)):\n    return days\n"
    assert reduced(code) == code
    assert reduced("def lend(days):\n    days += 1\n    return (most := days)\n") == "def lend():\n    ...\n"


def test_what_marks_a_body_does_not_depend_on_the_others() -> None:
    lend, read, put = (f"def {name}():\n    return '{name}'\n" for name in ("lend", "read", "put"))
    codes = (lend + read + put, put + lend.replace("lend", "lend_again"), read + put)
    sources = [
        without_bodies(code.encode(), ast.parse(code), NeededBodies(KEPT, frozenset())).source.decode()
        for code in codes
    ]
    (marked,) = {line for source in sources for line in re.findall(r"def put\(\):\n(.*)", source)}
    assert "#~patchkit " in marked


@pytest.mark.parametrize("end", ["", "\n", "\n\n# end\n", "  # end", "\n    # end\n"])
def test_file_ends_as_it_did(end: str) -> None:
    assert reduced(f"def lend():\n    x = 1{end}") == f"def lend():\n    ...{end.removeprefix('  # end')}"


def test_what_looks_like_a_place_for_a_body_stays_what_it_is() -> None:
    code = "def lend():\n    ...  #~patchkit 0\n\n\ndef put():\n    return 1\n"
    assert (
        without_bodies(code.encode(), ast.parse(code), NeededBodies(KEPT, frozenset())).source
        == code.encode()
    )


def test_needed_class_is_kept_completely() -> None:
    code = "class Shelf:\n    def put(self):\n        return 1\n"
    assert reduced(code) == code


def test_other_classes_keep_what_they_define() -> None:
    code = "class Desk:\n    days = 14\n    def read(self):\n        return 1\n    def put(self):\n        return 2\n"
    assert reduced(code) == code.replace("put(self):", "put():").replace("return 2", "...")


@pytest.mark.parametrize(
    "code",
    [
        "def lend(): return 1\n",
        "def lend(\n    book,\n): return book\n",
        "if x:\n    def lend(): return 1; y = 2\n",
    ],
)
def test_body_on_the_line_of_its_header_stays(code: str) -> None:
    assert reduced(code) == code


@pytest.mark.parametrize(
    "code",
    [
        'def lend():\n    """About\n  it.\n"""\n    return 1\n',
        "async def lend():\n    @turn\n    def inner(): ...\n    return inner\n",
        "try:\n    def lend():\n        x = (\n1,\n)\nexcept ImportError:\n    def lend():\n        y = 1; z = 2\n",
        "def lend(): \\\n    return 1\n",
        "class Desk:\n\tdef lend(self):\n\t\treturn 1\n\tdef put(self):\n\t\tif x:\n\t\t\treturn '''\n\n'''\n",
        "\ufeffx = 1\ndef lend():\n    s = 'caf\u00e9'; t = 1  # \u00e9\n    return s\n",
    ],
)
def test_what_is_left_is_valid_and_defines_the_same(code: str) -> None:
    def defined(text: str) -> list[tuple[str, str]]:
        nodes = ast.walk(ast.parse(text.encode()))
        return [
            (type(node).__name__, node.name)
            for node in nodes
            if hasattr(node, "name") and node.name != "inner"
        ]

    assert defined(reduced(code)) == defined(code)
    assert len(reduced(code)) <= len(code)
    assert "..." in reduced(code)


def patch(edits: dict[str, dict[str, object]], **keys: object) -> Patch:
    header = {"schema": 1, "id": "t", "title": "T", "why": "W", "risk": "R", "verify": "V"}
    tables = {name: {"why": "w", **edit} for name, edit in edits.items()}
    return load.read({**header, **keys, "edit": tables}, Path("patch.toml"))


def test_needed_bodies_are_in_scopes_that_are_looked_into_and_in_what_edits_define() -> None:
    edits: dict[str, dict[str, object]] = {
        "r": {"kind": "rewrite", "at": ["a.py::A.read", "a.py::A.scan"], "find": "x", "code": "y"},
        "m": {"kind": "method", "at": "a.py::B", "code": "@property\ndef size(self): ..."},
        "c": {"kind": "class-attribute", "at": "a.py::C", "code": "n = 1"},
    }
    facts = [{"at": "f.py::D.turn", "has": "x"}]
    needed = needed_bodies((patch(edits, applies_when=facts),))
    assert needed.names == {"read", "scan", "size"}
    assert needed.seeking == {("turn", frozenset({"x"}))}
    assert needed.around == {"A", "D"}
    assert needed.files == frozenset()


def test_those_needed_in_a_module_are_in_all_of_its_files() -> None:
    edit: dict[str, object] = {"kind": "rewrite", "at": ["a.py", "b.py"], "find": "x", "code": "y"}
    facts = [{"at": "c.py", "has": "x"}, {"at": "d.py", "lacks": "def $x(): ..."}]
    needed = needed_bodies((patch({"r": edit}, upstream_when=facts),))
    assert needed.files == {"a.py", "b.py", "d.py"}


SOUGHT = """\
class Server:
    ready = True

    def run(self):
        self.stream.wait()

    def stop(self):
        self.stream = None

    class Inner:
        def run(self):
            return self.stream.wait

class Other:
    def run(self):
        self.stream.wait()
"""


def _kept_for(code: str, place: str = "a.py::Server", **fact: str) -> list[str]:
    """Return the functions whose bodies a fact about the class Server, or another place, keeps."""
    edits: dict[str, dict[str, object]] = {"c": {"kind": "class-attribute", "at": "a.py::C", "code": "n = 1"}}
    needed = needed_bodies((patch(edits, applies_when=[{"at": place, **fact}]),))
    source = without_bodies(code.encode(), ast.parse(code), needed).source.decode()
    whole = {ast.unparse(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}
    left = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return sorted(node.name for node in left if ast.unparse(node) in whole)


def test_a_fact_about_a_class_needs_the_functions_with_all_names_of_its_pattern() -> None:
    assert _kept_for(SOUGHT, has="self.stream.wait()") == ["run", "run"]
    assert _kept_for(SOUGHT, has="self.stream = $_") == ["run", "run", "stop"]
    assert _kept_for(SOUGHT, lacks="self.stopped") == []


def test_a_fact_about_a_module_needs_the_functions_with_all_names_of_its_pattern() -> None:
    assert _kept_for(SOUGHT, "a.py", has="self.stream.wait()") == ["run", "run", "run"]
    assert _kept_for(SOUGHT, "a.py", lacks="self.stopped") == []


def test_a_fact_that_a_class_exists_needs_none_of_its_functions() -> None:
    assert _kept_for(SOUGHT) == []


def test_a_fact_about_a_definition_needs_the_functions_with_its_name() -> None:
    assert _kept_for(SOUGHT, has="def stop($_):\n    ...") == ["stop"]
    assert _kept_for("def turn():\n    def stop(): ...\n", "a.py", has="def stop(): ...") == ["stop", "turn"]


def test_a_fact_about_a_definition_of_any_name_needs_the_whole_class() -> None:
    assert _kept_for(SOUGHT, has="def $name($_):\n    ...") == ["run", "run", "stop"]


def test_a_name_that_an_encoding_may_spell_otherwise_is_not_searched() -> None:
    assert _kept_for(SOUGHT, lacks="größe") == ["run", "run", "stop"]
