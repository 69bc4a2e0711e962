"""Triton's interpreter, which computes the same but works out once what it otherwise does for each launch."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from triton import language
from triton.language import core
from triton.runtime import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable


def hasten() -> None:
    """Have the kernels of this process and its forks run so."""
    builder = interpreter.interpreter_builder
    # Half of the time: whether a sum or a product overflows, which is told only where `debug` is set.
    if not builder.options.debug:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    interpreter._patch_builtin = _among_builtins(interpreter._patch_attr)
    interpreter._get_np_dtype = _by_name(interpreter._get_np_dtype)


def _among_builtins(replace: Callable[..., None]) -> Callable[..., None]:
    """Return what replaces the builtins of a module or class, without a look at each member."""

    @functools.cache
    def names(holder: Any) -> tuple[str, ...]:
        return tuple(name for name in dir(holder) if core.is_builtin(getattr(holder, name, None)))

    # While a kernel runs, they are replaced already.
    for holder in (language, language.math, core, core.tensor, core.tensor_descriptor_base):
        names(holder)

    def replace_builtins(holder: Any, *more: Any) -> None:
        for name in names(holder):
            member = getattr(holder, name)
            if core.is_builtin(member):
                replace(holder, name, member, *more)

    return replace_builtins


def _by_name(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of a type that is called once for each name; some types have no hash."""
    found: dict[str, Any] = {}

    def look_up(of: Any) -> Any:
        if of.name not in found:
            found[of.name] = find(of)
        return found[of.name]

    return look_up
