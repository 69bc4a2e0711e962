"""Let a release pass arguments that an older kernel library does not accept, if they are None or False."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ATTENTION = "sgl_kernel.flash_attn"
_FUNCTIONS = ("flash_attn_with_kvcache", "flash_attn_varlen_func")


def tolerant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with unknown keyword arguments ignored if their value is None or False."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        accepted = {
            name: value for name, value in named.items() if name in known or value not in (None, False)
        }
        return function(*arguments, **accepted)

    return called


def instrument(module: ModuleType) -> None:
    """Make the attention functions of the kernel library, in the module passed, tolerant."""
    for name in _FUNCTIONS:
        setattr(module, name, tolerant(getattr(module, name)))
