"""The set of loaded patches, and the selection of patches by name and group."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import UsageError, spelling_hint
from patchkit.patchset.patch import former_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from patchkit.patchset.patch import Patch

GROUP = "@"
"""The prefix of a group's name on the command line."""
PART = "/"
"""What stands between a patch and a part of it."""


GROUPS = {
    "mirror": "steps of speculative decoding do not wait for a copy of the sequences' lengths on the host",
    "trtllm": "TRTLLM MHA and MLA, and DeepSeek Sparse Attention: the same, and a draft-extend in a CUDA graph",
    "fa3": "FlashAttention-3: the same, with one schedule a verify",
    "flashinfer": "FlashInfer: a draft-extend in a CUDA graph, and tables that are large enough",
    "launches": "a step launches fewer kernels and copies",
    "streams": "what one stream or request writes is not read or overwritten by another",
    "mamba": "models with linear attention keep the states of the right requests",
    "stops": "stop strings, stop tokens and grammars hold inside a speculative step",
    "drafts": "a draft gets the right tokens, positions and cache, so that more of it is accepted",
}
"""What a server gains from the built-in patches of each group."""


class ForkSettings(NamedTuple):
    """A fork's configuration, from ``file``, for a set of patches; empty without one.

    A group's name selects those of its patches that are in ``on_in_groups``.
    """

    file: str = ""
    left_out: frozenset[str] = frozenset()
    on_in_groups: frozenset[str] = frozenset()
    runtime: str = ""
    subject_prefix: str = ""


class PatchSet:
    """The loaded patches in order of application, built-in ones first."""

    def __init__(self, patches: Sequence[Patch], digest: str, settings: ForkSettings | None = None) -> None:
        self._patches = {patch.id: patch for patch in patches}
        self.digest = digest
        enabled = frozenset(patch.id for patch in patches if patch.default)
        self.settings = settings or ForkSettings(on_in_groups=enabled)

    def __iter__(self) -> Iterator[Patch]:
        return iter(self._patches.values())

    def __contains__(self, name: object) -> bool:
        """Return whether a name is the id of a patch or the name of a group."""
        return name in self._patches or name in self.groups

    @cached_property
    def former(self) -> Mapping[str, str]:
        """What each patch that became a part of another one is called now."""
        return former_ids(self)

    def is_part(self, name: str) -> bool:
        """Return whether a name is that of a part, such as ``26128/guards``, or the id of a patch that became one."""
        whole, _, part = name.partition(PART)
        parts = self._patches[whole].parts if whole in self._patches else ()
        return name in self.former or part in {part.name for part in parts}

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, in order of application."""
        return tuple(self._patches)

    @cached_property
    def groups(self) -> Mapping[str, tuple[Patch, ...]]:
        """All patches of each group, by the name that commands take, such as ``@mirror``."""
        members: dict[str, list[Patch]] = {}
        for patch in self:
            if patch.group:
                members.setdefault(f"{GROUP}{patch.group}", []).append(patch)
        return {name: tuple(patches) for name, patches in members.items()}

    def get(self, identifier: str) -> Patch:
        """Return a patch. Raise UsageError, with the nearest id, if there is no such patch."""
        if identifier in self._patches:
            return self._patches[identifier]
        if self.is_part(identifier):
            where = self.former.get(identifier, identifier)
            whole = where.partition(PART)[0]
            what = f"the part {where} now" if identifier in self.former else f"a part of {whole}"
            raise UsageError(
                f"{identifier} is {what}",
                advice=f"name {whole}; `left_out` in a fork's configuration takes {where}",
            )
        hint = self.spelling_hint(identifier)
        raise UsageError(f"no patch is called {identifier!r}", advice=f"{hint}patchkit show lists them all")

    def group(self, name: str) -> tuple[Patch, ...]:
        """Return the patches of a group. Raise UsageError, with the nearest name, if there is no such group."""
        if name in self.groups:
            return self.groups[name]
        hint, names = spelling_hint(name, self.groups), ", ".join(self.groups) or "none"
        raise UsageError(f"no group is called {name!r}", advice=f"{hint}the groups are {names}")

    def spelling_hint(self, name: str) -> str:
        """Return a hint that names the patch or group that is spelled most like ``name``; empty if none is similar."""
        return spelling_hint(name, (*self.ids, *self.groups))

    def named(self, names: Iterable[str], *, whole_groups: bool = False) -> tuple[str, ...]:
        """Return the ids that names denote; a group denotes those of its patches that are on, or all of them."""
        ids: list[str] = []
        for name in names:
            if name.startswith(GROUP):
                on = self.settings.on_in_groups
                ids += [patch.id for patch in self.group(name) if whole_groups or patch.id in on]
            else:
                ids.append(self.get(name).id)
        return tuple(dict.fromkeys(ids))

    def requested(self, names: Iterable[str]) -> frozenset[str]:
        """Return the ids of the named patches and of all patches that they require.

        Raise UsageError if the fork's configuration leaves out a required patch that is not named.
        """
        named = self.named(names)
        ids = self._with_required(named)
        for name in self.ids:
            if name in ids and name in self.settings.left_out and name not in named:
                needing = next(
                    other for other in self.ids if other in ids and name in self.get(other).requires
                )
                raise UsageError(
                    f"{needing} requires {name}, which {self.settings.file} leaves out",
                    advice=f"name {name} too, or remove it from `left_out` there",
                )
        return frozenset(ids)

    def select(self, names: Sequence[str] = ()) -> tuple[Patch, ...]:
        """Return the named patches (default: the default patches) and all that they require, in order."""
        named = self.named(names) if names else (patch.id for patch in self if patch.default)
        wanted = self._with_required(named)
        return tuple(patch for patch in self if patch.id in wanted)

    def _with_required(self, identifiers: Iterable[str]) -> set[str]:
        ids: set[str] = set()
        pending = [*identifiers]
        while pending:
            identifier = pending.pop()
            if identifier not in ids:
                ids.add(identifier)
                pending += self.get(identifier).requires
        return ids
