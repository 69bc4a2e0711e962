"""Objects of a server that evaluated code reads: its settings, its environment, and parts made when first read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchkit.doctor.evaluation.values import Bound, UndecidedError, Unknown
from patchkit.tree import mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from patchkit.doctor.evaluation.evaluator import FunctionEvaluator
    from patchkit.tree.index import Class, Function

_TRUE_TEXTS = ("1", "true", "yes", "y", "on")


class Values(dict[str, Any]):
    """Settings by name; ``read`` are the names that were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting."""
        self.read.add(name)
        return super().get(name, default)


@dataclass
class Settings:
    """A server's settings, as an object of the tree's class; if ``strict``, another attribute is an error."""

    cls: Class | None
    values: dict[str, Any]
    read: set[str] = field(default_factory=set)
    strict: bool = True
    derived: Mapping[str, Function] = field(default_factory=dict)
    model: Any = field(default_factory=lambda: Unknown("model_config"))
    name: str = "server_args"

    def attribute_of(self, evaluator: FunctionEvaluator, name: str) -> Any:
        """Return a setting, or what a property or method yields. Raise UndecidedError if there is none."""
        if name in self.values:
            self.read.add(name)
            return self.values[name]
        if name == "get_model_config":
            return lambda _: self.model
        if name == "model_config":
            return self.model
        if name == "use_mla_backend":
            return Unknown("model.use_mla_backend")
        method = evaluator.method_of(self.cls, name, self)
        if method is not None:
            return evaluator.call(method) if "property" in method.function.decorators else method
        if self.strict:
            raise UndecidedError(f"{self.name} has no {name}")
        if name in self.derived:
            return evaluator.call(Bound(self.derived[name]), (self,))
        return self

    def assign(self, name: str, value: Any) -> None:
        """Set a setting."""
        self.values[name] = value

    def view(self) -> Settings:
        """Return the same settings as a runtime context has them: in groups."""
        return Settings(self.cls, self.values, self.read, False, self.derived)


@dataclass
class Lazy:
    """An object whose attributes are made when they are first read."""

    made: dict[str, Callable[[], Any]]
    name: str
    kept: dict[str, Any] = field(default_factory=dict)

    def attribute_of(self, _: FunctionEvaluator, name: str) -> Any:
        """Return an attribute, which is made now if it is read for the first time."""
        if name not in self.kept:
            self.kept[name] = self.made[name]() if name in self.made else Unknown(f"{self.name}.{name}")
        return self.kept[name]

    def assign(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.kept[name] = value


class FreeBackend:
    """A backend of which nothing is known but that it does not need the mirror."""

    name = "backend"

    def attribute_of(self, _: FunctionEvaluator, name: str) -> Any:
        """Return that the mirror is not needed. Raise UndecidedError for any other attribute."""
        if name == mirror.FLAG:
            return False
        raise UndecidedError(f"{self.name} has no {name}")


@dataclass
class EnvironmentVariables:
    """``envs`` of a tree: each environment variable with the tree's default."""

    variables: Mapping[str, str]
    defaults: Mapping[str, Any]
    name: str = "envs"

    def attribute_of(self, _: FunctionEvaluator, name: str) -> Any:
        """Return an environment variable, with its methods."""
        given = self.variables.get(name)
        value = self.defaults.get(name, Unknown(name))
        if given is not None:
            value = given.lower() in _TRUE_TEXTS if isinstance(value, (bool, Unknown)) else given
        return Lazy({"get": lambda: lambda _: value, "is_set": lambda: lambda _: given is not None}, name)
