"""The kind of a base class: what of a class depends on it, and where it differs in another tree."""

from __future__ import annotations

import pytest

from patchkit.change.kinds import another_kind, may_depend
from patchkit.change.outline import Item, outline

HERE, BASES = "srt/desk.py", "srt/bases.py"
DESK = """\
from sglang.srt.bases import Base
from other import Foreign
from sglang.srt.bases import Base as Renamed

class Own: ...

class Desk(Base):
    size: int = field(default=1)
    plain: int = 2
    def lend(self): return field(1)

class Shelf(Own, Foreign): ...

class Rack(Renamed): ...

def field(x): ...
"""


def tree(bases: str) -> dict[str, Item]:
    return {HERE: outline(DESK), BASES: outline(bases)}


def differs(start: str, theirs: str, ours: str, head_only: bool = False) -> str:
    """Return the difference for the item with this beginning."""
    item = next(node for node in outline(DESK).walk() if node.own.strip().startswith(start))
    return another_kind(item, head_only, (tree(theirs).get, HERE), (tree(ours).get, HERE))


@pytest.mark.parametrize(
    ("theirs", "ours", "kinds"),
    [
        ("class Base: ...", "class Base: ...", ""),
        ("@dataclass\nclass Base: ...", "class Base: ...", "a plain class, not dataclass"),
        ("class Base: ...", "class Base(msgspec.Struct): ...", "Struct, not a plain class"),
        ("class Base(BaseModel): ...", "class Base(Struct): ...", "Struct, not BaseModel"),
        (
            "@dataclass(frozen=True)\nclass Base: ...",
            "@dataclass\nclass Base: ...",
            "dataclass, not frozen dataclass",
        ),
        ("@dataclass(frozen=False)\nclass Base: ...", "@dataclass(eq=True)\nclass Base: ...", ""),
        ("@attrs.define\nclass Base(Enum): ...", "class Base(Enum): ...", "Enum, not Enum and define"),
        ("@other\nclass Base: ...", "class Base: ...", ""),
        ("class Inner(Enum): ...\nclass Base(Inner): ...", "class Base(Flag): ...", "Flag, not Enum"),
        # What is in neither file is not known.
        ("@dataclass\nclass Base: ...", "class Another: ...", ""),
        ("class Base(Unknown): ...", "class Base: ...", ""),
    ],
)
def test_a_base_class_of_another_kind(theirs: str, ours: str, kinds: str) -> None:
    said = f"its base class Base is of another kind in this tree: {kinds}" if kinds else ""
    assert differs("class Desk", theirs, ours) == said
    assert differs("class Rack", theirs, ours) == said.replace("class Base is", "class Renamed is")


@pytest.mark.parametrize(
    ("start", "head_only", "depends"),
    [
        ("class Desk", False, True),
        ("size", False, True),
        ("plain", False, False),
        ("plain", True, True),
        ("class Shelf", False, False),
        ("def field", False, False),
    ],
)
def test_what_depends_on_the_kind_of_a_base_class(start: str, head_only: bool, depends: bool) -> None:
    assert bool(differs(start, "@dataclass\nclass Base: ...", "class Base: ...", head_only)) is depends


@pytest.mark.parametrize(
    ("before", "after", "depends"),
    [
        (b"a = 1\n", b"a = 2\n", False),
        (b"a = 1\n", b"a = field(1)\n", True),
        (b"a: int = Field(1)\n", b"a: int\n", True),
        (b"class A: ...\n", b"class A(B): ...\n", True),
        (b"  @dataclass\n", b"", True),
        (b"class A: ...\na = 1\n", b"class A: ...\na = 2\n", False),
        (b"a @ b\n", b"a\n", False),
    ],
)
def test_a_change_that_may_depend_on_the_kind_of_a_class(before: bytes, after: bytes, depends: bool) -> None:
    assert may_depend(before, after) is depends
    assert may_depend(after, before) is depends
