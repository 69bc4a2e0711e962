from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import patchkit
from patchkit.patchset.load import BUILT_IN

PACKAGE = Path(patchkit.__file__).parent
SERVING = sorted([*(PACKAGE / "runtime").glob("*.py"), *(PACKAGE / "backends").glob("*.py")])
API = ast.parse((PACKAGE / "runtime" / "api_1.py").read_bytes())
NAMES = [
    name.name
    for node in API.body
    if isinstance(node, ast.ImportFrom) and node.level
    for name in node.names
    if name.name != "warn_of_absent_patches"
]
AT_SERVING_TIME = {*sys.stdlib_module_names, "torch", "triton"}


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def loaded_by(code: str, folder: Path) -> set[str]:
    """Return the top-level modules that ``code`` loads in a fresh interpreter."""
    done = python(
        f"{code}\nimport sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))", folder
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_tree_patched_for_this_runtime_imports_it(tmp_path: Path) -> None:
    done = python("from patchkit.runtime import api_1 as patchkit_api; print(patchkit_api.longest)", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "function longest" in done.stdout


@pytest.mark.parametrize("name", ["api_2", "api_10"])
def test_a_tree_patched_for_a_newer_runtime_fails_with_one_sentence(name: str, tmp_path: Path) -> None:
    done = python(f"from patchkit.runtime import {name} as patchkit_api", tmp_path)
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith("ImportError: ")
    assert name in message
    assert "api_1:" in message
    assert "pip install --upgrade" in message


@pytest.mark.parametrize("name", ["api", "api_", "api_x", "apis", "decide"])
def test_other_names_are_missing_as_any_name_is(name: str, tmp_path: Path) -> None:
    done = python(f"import patchkit.runtime; patchkit.runtime.{name}", tmp_path)
    assert done.stderr.splitlines()[-1].startswith("AttributeError: ")


def test_serving_loads_nothing_of_what_patching_needs(tmp_path: Path) -> None:
    loaded = loaded_by("from patchkit.runtime import api_1\nimport patchkit.backends", tmp_path)
    assert "torch" in loaded
    assert not loaded & {"libcst", "click", "rich", "filelock", "msgspec", "merge3", "sglang"}


def test_importing_patchkit_is_light(tmp_path: Path) -> None:
    assert (
        not loaded_by("import patchkit", tmp_path) - loaded_by("pass", tmp_path) - {"patchkit", "__future__"}
    )


def test_printing_help_loads_neither_torch_nor_libcst(tmp_path: Path) -> None:
    loaded = loaded_by("import patchkit.cli", tmp_path)
    assert "click" in loaded
    assert not loaded & {"torch", "libcst", "sglang"}


@pytest.mark.parametrize("file", SERVING, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_serving_code_has_only_allowed_imports(file: Path) -> None:
    """Also in functions and type-checking blocks, which a loaded interpreter does not show."""
    named = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add("." * node.level + (node.module or ""))
    absolute = {name for name in named if not name.startswith(".")}
    assert {name.split(".")[0] for name in absolute} <= AT_SERVING_TIME
    assert all(name.startswith("..backends.") for name in named if name.startswith(".."))


def test_a_copy_under_another_name_works_without_patchkit(tmp_path: Path) -> None:
    home = tmp_path / "fork" / "_vendored"
    home.mkdir(parents=True)
    for package in (home, home.parent):
        (package / "__init__.py").touch()
    for room in ("runtime", "backends"):
        shutil.copytree(PACKAGE / room, home / room, ignore=shutil.ignore_patterns("__pycache__"))
    code = """
        import importlib, pkgutil, sys
        sys.modules["patchkit"] = None
        from fork._vendored.runtime import api_1
        from fork._vendored import backends, runtime
        for room in (backends, runtime):
            for module in pkgutil.iter_modules(room.__path__, room.__name__ + "."):
                if "kernel" not in module.name:
                    importlib.import_module(module.name)
        print(api_1.fill_trtllm_mha.__module__)
    """
    done = python(textwrap.dedent(code), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fork._vendored.backends.trtllm"


@pytest.mark.parametrize("file", sorted(BUILT_IN.glob("*/patch.toml")), ids=lambda file: file.parent.name)
def test_a_patch_uses_only_names_that_its_runtime_has(file: Path) -> None:
    used = re.findall(r"\bpatchkit_api\.(\w+)", file.read_text(encoding="utf-8"))
    assert set(used) <= set(NAMES)


def test_the_patches_use_every_name_of_the_runtime() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in BUILT_IN.glob("*/patch.toml"))
    assert [name for name in NAMES if f"patchkit_api.{name}" not in text] == []


def test_every_name_of_the_runtime_exists_and_has_a_docstring() -> None:
    from patchkit.runtime import api_1

    functions = [getattr(api_1, name) for name in NAMES if name != "UNDECLARED"]
    assert all(inspect.isfunction(function) and function.__doc__ for function in functions)
