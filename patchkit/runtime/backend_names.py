"""Record the name of a draft's attention backend, where the settings have the target's."""

from __future__ import annotations

from typing import TypeVar

Backend = TypeVar("Backend")


def named_backend(backend: Backend, name: str | None) -> Backend:
    """Record on a draft's ``backend`` and its steps the ``name`` by which it was selected; return it.

    Without a name, the draft has the target's; some drafts have no backend for draft-extend. Source: pull request
    28559.
    """
    if name is not None and backend is not None:
        for each in (backend, *getattr(backend, "attn_backends", ())):
            vars(each)["patchkit_name"] = name
    return backend


def name_of_backend(backend: object, otherwise: str) -> str:
    """Return the recorded name of a draft's ``backend``, else ``otherwise``, the target's. Source: 28559."""
    name: str = getattr(backend, "patchkit_name", otherwise)
    return name
