"""sglang's layout: the location of its package, its version, and its module names."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from importlib.util import resolve_name
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree import nodes
from patchkit.tree.project import project_version, read_version
from patchkit.tree.source import parsed_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NAME = "sglang"
SERVING = "srt"
PLACES = (f"python/{NAME}", NAME)
PARENTS = ("python", "")
"""Folders that contain the package if a fork renamed it."""
OLDEST = "0.5.11"
"""The first supported release."""
_SINCE = (
    "srt/managers/communicator.py",
    "srt/mem_cache/unified_radix_cache.py",
    "srt/model_executor/pool_configurator.py",
    "srt/speculative/dflash_info.py",
)
"""Files that no release before ``OLDEST`` has."""
_ALWAYS = "srt/managers/schedule_batch.py"
"""A file that every release has."""
VENDORED_RUNTIME = "_patchkit"
"""The folder of a vendored runtime, relative to the package folder."""

METADATA = (
    (f"{NAME}-*.dist-info", "METADATA"),
    (f"{NAME}-*.egg-info", "PKG-INFO"),
    (f"{NAME}.egg-info", "PKG-INFO"),
)
"""Metadata folders beside an installed package, and the file in each that states the version."""

_OWN = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(\w+)\.%s\b" % SERVING.encode(), re.MULTILINE | re.ASCII)
_VERSION = re.compile(rb"""^__version__\s*=\s*(?:\w+\s*=\s*)*["']([^"']+)["']""", re.MULTILINE)
_FIELD = re.compile(rb"^Version:[ \t]*([^\r\n]*)", re.MULTILINE)


def stated_version(read: Callable[[str], bytes | None], project: bytes | None) -> str | None:
    """Return the release that the package, or else its project file, states, or None."""
    for file in ("_version.py", "version.py"):
        stated = _VERSION.search(read(file) or b"")
        version = stated and read_version(stated[1])
        if version:
            return version
    return project_version(project)


def metadata_version(content: bytes) -> str | None:
    """Return the version that an installed package's metadata states, or None."""
    stated = _FIELD.search(content.partition(b"\n\n")[0])
    return read_version(stated[1]) if stated else None


def is_later(read: Callable[[str], bytes | None]) -> bool:
    """Return whether a tree has files that no release before the first supported one has.

    One alone may be a change that a fork of an older release took from upstream.
    """
    return sum(read(file) is not None for file in _SINCE) > 1


def is_serving(read: Callable[[str], bytes | None]) -> bool:
    """Return whether a tree has what every release has, so that its files can show its age."""
    return read(_ALWAYS) is not None


def is_too_old(version: str | None) -> bool:
    """Return whether a version is a release before the first supported one; False if it is unknown."""
    if version is None or "+" in version or not re.match(r"\d+\.\d+", version):
        return False  # Commits after a release may be those of the next one.
    here, oldest = ([int(part) for part in re.findall(r"\d+", text)[:3]] for text in (version, OLDEST))
    return here < oldest


def serves(file: str) -> bool:
    """Return whether a file belongs to the serving package."""
    return file.startswith(f"{SERVING}/")


def served(*folders: str) -> tuple[str, ...]:
    """Return the path prefixes of these folders of the serving package."""
    return tuple(f"{SERVING}/{folder}/" for folder in folders)


def module_of(file: str, name: str = NAME) -> str:
    """Return the module name of a file in a package of this name."""
    return f"{name}.{file}".removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def package_of(file: str) -> str:
    """Return the package against which a file's relative imports are resolved."""
    return ".".join((NAME, *file.split("/")[:-1]))


def files_of(module: str) -> tuple[str, ...]:
    """Return the files that a module name can denote, none for a module outside the package.

    In a fork, the package may have another name; its contents keep theirs.
    """
    package, _, rest = module.partition(".")
    if package != NAME and rest.partition(".")[0] not in (SERVING, VENDORED_RUNTIME):
        return ()
    path = rest.replace(".", "/")
    return (f"{path}.py", f"{path}/__init__.py") if path else ("__init__.py",)


def own_names(sources: Iterable[bytes]) -> frozenset[str]:
    """Return the package names under which these files import their own serving package."""
    names: set[str] = set()
    for source in sources:
        # The regular expression also matches imports in docstrings; of a name that is known no file needs parsing.
        if not names.issuperset(name.decode() for name in _OWN.findall(source)):
            names |= _imported_as(source)
    return frozenset(names)


def name_among(names: Iterable[str], label: str) -> str:
    """Return the name under which a package's files import one another. Raise TreeError if there are several.

    A folder with another name than upstream's may be a copy of the package, or a package that a fork renamed.
    """
    name_list = sorted(names)
    if len(name_list) > 1:
        spelled = " and as ".join(f"{name}.{SERVING}" for name in name_list)
        raise TreeError(
            f"{label} imports its own modules as {spelled}, so it is unclear which name new code has to use",
            advice="use one of these names throughout, and try again",
        )
    return name_list[0] if name_list else NAME


def only_package(packages: Iterable[str], label: str) -> str | None:
    """Return the only package of several places, or None. Raise TreeError if there is more than one."""
    names = sorted(packages)
    if len(names) > 1:
        raise TreeError(
            f"{label} has more than one package that looks like sglang, {', '.join(names)}",
            advice="name one of them",
        )
    return names[0] if names else None


@lru_cache(maxsize=4096)
def _imported_as(source: bytes) -> frozenset[str]:
    tree = parsed_or_none(source)
    statements = nodes.statements(tree) if tree is not None else []
    modules = [
        statement.module or ""
        for statement in statements
        if isinstance(statement, ast.ImportFrom) and not statement.level
    ]
    modules += [
        alias.name
        for statement in statements
        if isinstance(statement, ast.Import)
        for alias in statement.names
    ]
    return frozenset(
        name for name, _, rest in (m.partition(".") for m in modules) if rest.partition(".")[0] == SERVING
    )


def imported_from(module: str | None, level: int, package: str) -> str | None:
    """Return the module that ``from <dots><module> import`` names in ``package``, None if it is above the top."""
    try:
        return resolve_name("." * level + (module or ""), package)
    except ImportError:
        return None
