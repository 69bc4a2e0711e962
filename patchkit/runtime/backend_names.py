"""A draft's attention backend says which it is, where the settings name the target's."""

from __future__ import annotations

from typing import TypeVar

Backend = TypeVar("Backend")


def named_backend(backend: Backend, name: str | None) -> Backend:
    """Note on a draft's ``backend``, and on those of its steps, by which ``name`` it was chosen; return it.

    Without a name, the draft has the target's; some have no backend for draft-extend. Source: pull request 28559.
    """
    if name is not None and backend is not None:
        for each in (backend, *getattr(backend, "attn_backends", ())):
            vars(each)["patchkit_name"] = name
    return backend


def name_of_backend(backend: object, otherwise: str) -> str:
    """Return the name that a draft's ``backend`` has, ``otherwise`` the target's. Source: pull request 28559."""
    name: str = getattr(backend, "patchkit_name", otherwise)
    return name
