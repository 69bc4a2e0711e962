"""What patchkit knows of sglang's layout: where its package lies, how it says its version, what a file is called."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from importlib.util import resolve_name
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.project import project_version, read_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NAME = "sglang"
SERVING = "srt"
PLACES = (f"python/{NAME}", NAME)
PARENTS = ("python", "")
"""Where a fork has the package if it gave it another name."""
OLDEST = "0.5.11"
"""The first release that patches are made for and tried on."""
_SINCE = (
    "srt/managers/communicator.py",
    "srt/mem_cache/unified_radix_cache.py",
    "srt/model_executor/pool_configurator.py",
    "srt/speculative/dflash_info.py",
)
"""Files that no release before it has."""
_ALWAYS = "srt/managers/schedule_batch.py"
"""A file that every release has."""
VENDORED_RUNTIME = "_patchkit"
"""Where in the package folder a tree carries patchkit's runtime, if it does."""

METADATA = (
    (f"{NAME}-*.dist-info", "METADATA"),
    (f"{NAME}-*.egg-info", "PKG-INFO"),
    (f"{NAME}.egg-info", "PKG-INFO"),
)
"""Folders beside an installed package, and the file there that says its version."""

_OWN = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(\w+)\.%s\b" % SERVING.encode(), re.MULTILINE | re.ASCII)
_VERSION = re.compile(rb"""^__version__\s*=\s*(?:\w+\s*=\s*)*["']([^"']+)["']""", re.MULTILINE)
_FIELD = re.compile(rb"^Version:[ \t]*([^\r\n]*)", re.MULTILINE)


def stated_version(read: Callable[[str], bytes | None], project: bytes | None) -> str | None:
    """Return the release that the package, or else its project file, states; None where neither does."""
    for file in ("_version.py", "version.py"):
        stated = _VERSION.search(read(file) or b"")
        version = stated and read_version(stated[1])
        if version:
            return version
    return project_version(project)


def metadata_version(content: bytes) -> str | None:
    """Return the version that an installed package's metadata states, None where it states none."""
    stated = _FIELD.search(content.partition(b"\n\n")[0])
    return read_version(stated[1]) if stated else None


def is_later(read: Callable[[str], bytes | None]) -> bool:
    """Tell whether a tree has files that no release before the first supported one has, whatever its number is."""
    return any(read(file) is not None for file in _SINCE)


def is_serving(read: Callable[[str], bytes | None]) -> bool:
    """Tell whether a tree has what every release has, so that files which it lacks say how old it is."""
    return read(_ALWAYS) is not None


def is_too_old(version: str | None) -> bool:
    """Tell whether a version, where a tree states one, is that of a release before the first supported one."""
    if version is None or "+" in version or not re.match(r"\d+\.\d+", version):
        return False  # What has commits since a release may have those of the next.
    here, oldest = ([int(part) for part in re.findall(r"\d+", text)[:3]] for text in (version, OLDEST))
    return here < oldest


def serves(file: str) -> bool:
    """Tell whether a file belongs to the serving package."""
    return file.startswith(f"{SERVING}/")


def served(*folders: str) -> tuple[str, ...]:
    """Return what the files of these folders of the serving package start with."""
    return tuple(f"{SERVING}/{folder}/" for folder in folders)


def module_of(file: str, name: str = NAME) -> str:
    """Return the name under which a file is imported, in a package of this name."""
    return f"{name}.{file}".removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def package_of(file: str) -> str:
    """Return the package against which a file's relative imports are resolved."""
    return ".".join((NAME, *file.split("/")[:-1]))


def files_of(module: str) -> tuple[str, ...]:
    """Return the files that a module's name can mean, none for a module outside the package.

    A fork may have given the package another name, and has what lies in it under the same.
    """
    package, _, rest = module.partition(".")
    if package != NAME and rest.partition(".")[0] not in (SERVING, VENDORED_RUNTIME):
        return ()
    path = rest.replace(".", "/")
    return (f"{path}.py", f"{path}/__init__.py") if path else ("__init__.py",)


def own_names(sources: Iterable[bytes]) -> frozenset[str]:
    """Return the names by which these files import what lies in their own serving package."""
    return frozenset(name for source in sources if _OWN.search(source) for name in _imported_as(source))


def name_among(names: Iterable[str], label: str) -> str:
    """Return the one of ``names`` by which the files of a package import one another; TreeError if there are several.

    A folder that has another name than upstream's may be a copy of the package, or a fork's that it gave that name.
    """
    found = sorted(names)
    if len(found) > 1:
        spelled = " and as ".join(f"{name}.{SERVING}" for name in found)
        raise TreeError(
            f"{label} imports its own modules as {spelled}, so nothing tells how new code has to: use one of these "
            "names throughout, and try again."
        )
    return found[0] if found else NAME


def only_package(packages: Iterable[str], label: str) -> str | None:
    """Return the one of several places that hold a package, None for none; TreeError if more than one does."""
    found = sorted(packages)
    if len(found) > 1:
        raise TreeError(
            f"{label} has more than one package like sglang, {', '.join(found)}: name one of them."
        )
    return found[0] if found else None


@lru_cache(maxsize=4096)
def _imported_as(source: bytes) -> frozenset[str]:
    found = {name.decode() for name in _OWN.findall(source)}
    if found <= {NAME}:
        return frozenset(found)
    try:  # A docstring shows imports as well.
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return frozenset(
        name for name, _, rest in (m.partition(".") for m in modules) if rest.partition(".")[0] == SERVING
    )


def imported_from(module: str | None, level: int, package: str) -> str | None:
    """Return the module that ``from <dots><module> import`` names in ``package``, None for one above it all."""
    try:
        return resolve_name("." * level + (module or ""), package)
    except ImportError:
        return None
