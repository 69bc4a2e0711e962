"""What patchkit knows of sglang's layout: where its package lies, how it says its version, what a file is called."""

from __future__ import annotations

import re
from importlib.util import resolve_name
from typing import TYPE_CHECKING

from patchkit.tree.project import project_version

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "sglang"
SERVING = "srt"
PLACES = (f"python/{NAME}", NAME)
OLDEST = "0.5.11"
"""The first release that patches are made for and tried on."""
_SINCE = (
    "srt/managers/communicator.py",
    "srt/mem_cache/unified_radix_cache.py",
    "srt/model_executor/pool_configurator.py",
    "srt/speculative/dflash_info.py",
)
"""Files that no release before it has."""
VENDORED_RUNTIME = "_patchkit"
"""Where in the package folder a tree carries patchkit's runtime, if it does."""

_VERSION = re.compile(rb"""^__version__\s*=\s*(?:\w+\s*=\s*)*["']([^"']+)["']""", re.MULTILINE)


def stated_version(read: Callable[[str], bytes | None], project: bytes | None) -> str | None:
    """Return the release that the package, or else its project file, states; None where neither does."""
    for file in ("_version.py", "version.py"):
        stated = _VERSION.search(read(file) or b"")
        if stated:
            return stated[1].decode()
    return project_version(project)


def is_later(read: Callable[[str], bytes | None]) -> bool:
    """Tell whether a tree has files that no release before the first supported one has, whatever its number is."""
    return any(read(file) is not None for file in _SINCE)


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


def module_of(file: str) -> str:
    """Return the name under which a file is imported."""
    return f"{NAME}.{file}".removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def package_of(file: str) -> str:
    """Return the package against which a file's relative imports are resolved."""
    return ".".join((NAME, *file.split("/")[:-1]))


def files_of(module: str) -> tuple[str, ...]:
    """Return the files that a module's name can mean, none for a module outside the package."""
    package, _, rest = module.partition(".")
    if package != NAME:
        return ()
    path = rest.replace(".", "/")
    return (f"{path}.py", f"{path}/__init__.py") if path else ("__init__.py",)


def imported_from(module: str | None, level: int, package: str) -> str | None:
    """Return the module that ``from <dots><module> import`` names in ``package``, None for one above it all."""
    try:
        return resolve_name("." * level + (module or ""), package)
    except ImportError:
        return None
