"""Python's built-in functions, for evaluated code: with a value that is not known, their result is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.doctor.evaluation.expressions import is_long
from patchkit.doctor.evaluation.values import (
    Instance,
    Member,
    RaisedError,
    UndecidedError,
    Unknown,
    is_plain,
    label,
    native,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.doctor.evaluation.evaluator import FunctionEvaluator


def _getattr(evaluator: FunctionEvaluator, owner: Any, name: Any, *default: Any) -> Any:
    if not isinstance(name, str):
        return Unknown(f"getattr({label(owner)}, {label(name)})")
    try:
        return evaluator.attribute(owner, name)
    except UndecidedError:
        if default:
            return default[0]
        raise RaisedError(f"no {name}") from None


def _hasattr(evaluator: FunctionEvaluator, owner: Any, name: Any) -> Any:
    if isinstance(owner, Unknown) or not isinstance(name, str):
        return Unknown(f"hasattr({label(owner)}, {label(name)})")
    try:
        evaluator.attribute(owner, name)
    except UndecidedError:
        return False
    return True


def _isinstance(evaluator: FunctionEvaluator, value: Any, classes: Any) -> Any:
    candidates = classes if isinstance(classes, tuple) else (classes,)
    names = [getattr(candidate, "name", "") or getattr(candidate, "__name__", "") for candidate in candidates]
    if is_plain(value):
        return not {cls.__name__ for cls in type(value).__mro__}.isdisjoint(names)
    if isinstance(value, (Member, Instance)) and value.cls is not None:
        return not evaluator.program.ancestors(value.cls).isdisjoint(names)
    return Unknown(f"isinstance({getattr(value, 'name', '')}, {', '.join(names)})")


def _range(_: FunctionEvaluator, *ends: Any) -> Any:
    numbers = native(range, *ends) if all(isinstance(end, int) for end in ends) else None
    return [Unknown("i")] if numbers is None or is_long(numbers) else numbers


def _next(evaluator: FunctionEvaluator, values: Any, *default: Any) -> Any:
    items = evaluator.listed(values) or default
    return items[0] if items else Unknown(f"next({label(values)})")


def _either(evaluator: FunctionEvaluator, values: Any, ending: bool) -> Any:
    if isinstance(values, Unknown):
        return values
    return next((ending for item in evaluator.listed(values) if evaluator.truth(item) is ending), not ending)


def _plain(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(_: FunctionEvaluator, *args: Any) -> Any:
        if any(isinstance(arg, Unknown) for arg in args):
            return Unknown(f"{make.__name__}({', '.join(getattr(arg, 'name', '') for arg in args)})")
        return native(make, *args)

    made.__name__ = make.__name__
    return made


BUILTINS: dict[str, Any] = {
    "all": lambda evaluator, values: _either(evaluator, values, False),
    "any": lambda evaluator, values: _either(evaluator, values, True),
    "bool": lambda evaluator, value=False: evaluator.truth(value),
    "getattr": _getattr,
    "hasattr": _hasattr,
    "isinstance": _isinstance,
    "next": _next,
    "object": lambda _: object(),
    "range": _range,
    "type": lambda _, value: getattr(value, "cls", None) or Unknown(f"type({getattr(value, 'name', '')})"),
} | {
    made.__name__: _plain(made) for made in (dict, frozenset, int, len, list, max, min, set, str, tuple, zip)
}
