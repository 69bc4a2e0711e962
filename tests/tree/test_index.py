from __future__ import annotations

import pytest

from patchkit.tree.index import Index, Program, index_module, linearised
from patchkit.tree.sglang import files_of, imported_from, module_of, package_of


def order(source: str, name: str) -> list[str]:
    program = Program({"srt/a.py": f"seq_lens_cpu = None\n{source}".encode()})
    (cls,) = program.classes_named(name)
    return [known.name for known in program.mro(cls)]


def test_bases_are_named_by_their_last_names() -> None:
    module = index_module("srt/a.py", b"class A(B, m.C, D[int], m.E[int]): ...\n")
    assert module.classes["A"].bases == ("B", "C", "D", "E")


@pytest.mark.parametrize(
    ("code", "called"),
    [
        ("self.a.b(c(d))", {(".", "b"), ("", "c")}),
        ("self.a(1).b(2)", {("self.", "a"), (".", "b")}),
        ("myself.a(); self (1); x[0].e()", {(".", "a"), (".", "e")}),
        ("return a, b.c, self.d", set()),
    ],
)
def test_a_call_is_known_by_its_last_name_and_whether_it_is_on_self(
    code: str, called: set[tuple[str, str]]
) -> None:
    module = index_module("srt/a.py", f"def f(self):\n    {code}\n".encode())
    assert module.functions["f"].called_names == called


@pytest.mark.parametrize("code", ["x = 1\n", "class A: ...\nclass A(B): ...\n", "if x:\n    class A: ...\n"])
def test_a_class_that_is_not_there_once_is_not_defined_once(code: str) -> None:
    assert not index_module("srt/a.py", code.encode()).defines_once("A")


def test_a_diamond_is_ordered_as_python_orders_it() -> None:
    source = "class A: ...\nclass B(A): ...\nclass C(A): ...\nclass D(B, C): ...\n"
    space: dict[str, type] = {}
    exec(source, space)
    assert order(source, "D") == [cls.__name__ for cls in space["D"].__mro__[:-1]] == ["D", "B", "C", "A"]


def test_bases_without_an_order_follow_depth_first() -> None:
    source = "class A: ...\nclass B(A): ...\nclass C(A, B): ...\n"
    assert order(source, "C") == ["C", "A", "B"]


def test_a_circle_of_bases_ends() -> None:
    assert order("class A(B): ...\nclass B(A): ...\n", "A") == ["A", "B"]
    assert linearised("a", lambda _: ["a"], str) == ["a"]


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("srt/layers/own.py", "from sglang.srt.layers.base import Base"),
        ("srt/layers/own.py", "from .base import Base"),
        ("srt/layers/deep/own.py", "from ..base import Base"),
        ("srt/layers/__init__.py", "from .base import Base"),
        ("srt/layers/own.py", "from sglang.srt.layers import Base"),
    ],
)
def test_a_base_is_followed_to_the_file_it_comes_from(file: str, statement: str) -> None:
    sources = {
        "srt/layers/__init__.py": b"from .base import Base\n",
        "srt/layers/base.py": b"class Base: ...\n",
        file: f"{statement}\nclass Own(Base): ...\n".encode(),
    }
    index = Index(sources.get)
    module = index.module(file)
    assert module is not None
    assert [known.module.file for known in index.mro(module.classes["Own"])] == [file, "srt/layers/base.py"]


def test_a_base_from_elsewhere_is_not_mistaken_for_a_file_of_the_package() -> None:
    sources = {
        "utils.py": b"class Base: ...\n",
        "srt/own.py": b"from utils import Base\nclass Own(Base): ...\n",
    }
    index = Index(sources.get)
    module = index.module("srt/own.py")
    assert module is not None
    assert [known.name for known in index.mro(module.classes["Own"])] == ["Own"]


def test_files_and_modules_name_each_other() -> None:
    assert module_of("srt/a/b.py") == "sglang.srt.a.b"
    assert module_of("srt/a/__init__.py") == package_of("srt/a/b.py") == "sglang.srt.a"
    assert files_of("sglang.srt.a") == ("srt/a.py", "srt/a/__init__.py")
    assert files_of("sglang") == ("__init__.py",)
    assert files_of("acme_sglang.srt.a") == files_of("sglang.srt.a")
    assert files_of("torch.nn") == files_of("sglangs") == ()


def test_relative_imports_end_at_the_package() -> None:
    assert imported_from("b", 2, "sglang.srt.a") == "sglang.srt.b"
    assert imported_from(None, 1, "sglang.srt") == "sglang.srt"
    assert imported_from("b", 4, "sglang.srt") is None
