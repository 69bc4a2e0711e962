"""The public API is one list, and importing it loads no module of it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit import api


def test_importing_the_list_imports_none_of_the_commands() -> None:
    done = subprocess.run(
        (sys.executable, "-c", "import json, sys, patchkit.api; print(json.dumps(sorted(sys.modules)))"),
        capture_output=True,
        check=True,
    )
    loaded = json.loads(done.stdout)
    assert "patchkit.api" in loaded
    assert [
        name for name in loaded if name.startswith(("libcst", "patchkit.commands", "patchkit.plan"))
    ] == []


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_of_the_list_is_there_when_it_is_asked_for(name: str) -> None:
    assert getattr(api, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'undo'"):
        _ = api.undo  # type: ignore[attr-defined]


def test_type_checkers_see_each_name_where_it_is_loaded_from() -> None:
    module = ast.parse(Path(str(api.__file__)).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: str(node.module) for node in imports for alias in node.names}
    assert {name: getattr(api, name).__module__ for name in api.__all__}.items() <= seen.items()
