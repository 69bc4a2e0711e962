from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import patchkit

TOOL = Path(patchkit.__file__).parent
SERVING = {TOOL / "runtime", TOOL / "backends"}


def test_no_class_name_says_two_things() -> None:
    files = (file for file in TOOL.rglob("*.py") if SERVING.isdisjoint(file.parents))
    nodes = (node for file in files for node in ast.parse(file.read_bytes()).body)
    counted = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, number in counted.items() if number > 1] == []
