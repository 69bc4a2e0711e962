"""What the construction of an object runs, which attributes it sets, and which are set later elsewhere."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from patchkit.tree.index import Class, Function, class_of_annotation, last_name
from patchkit.tree.nodes import statements, walk
from patchkit.verify.attributes import class_of, has_foreign_base
from patchkit.verify.flow import PathShare, places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from patchkit.tree.index import Program
    from patchkit.verify.flow import Place

ENTRIES = ("__init__", "__post_init__")
_OF_SELF = re.compile(r"\bself\.(\w+)")
_OF_BASE = re.compile(r"\bsuper\([^)]*\)\.(\w+)\(|\b(\w+)\.(\w+)\(\s*self\b")
_PASSED = re.compile(r"[(,=]\s*self\s*[,)]")
_DYNAMIC_ASSIGNMENTS = ("setattr(self", "__setattr__(self", "self.__dict__", "vars(self")
_DYNAMIC = frozenset({"__getattr__", "__getattribute__", "__new__"})
# The levels of callers to follow, and the number of functions with one name up to which a name identifies them.
_DEPTH, _NAMESAKES = 5, 3


_Calls = dict[str, dict[Function, None]]


class LateAssignment(NamedTuple):
    """Code that constructs an object and sets the attribute only afterwards: the function, line and call."""

    function: Function
    line: int
    called: str


class Construction:
    """The construction of objects in one tree."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._reached: dict[tuple[Class, Function | None], tuple[Function, ...]] = {}
        self._construction_functions: dict[Class, tuple[Function, ...]] = {}
        self._callers: dict[str, tuple[Function, ...]] = {}
        self._subclasses: dict[str, tuple[Class, ...]] = {}
        self._named: dict[str, int] = {}
        self._callers_of: dict[tuple[Function, ...], _Calls] = {}
        self._setting: dict[str, tuple[str, ...]] = {}
        self._settable: dict[tuple[Class, Function, str], bool] = {}
        self._passing_calls: dict[Function, tuple[ast.Call, ...]] = {}

    def construction_functions(self, cls: Class) -> tuple[Function, ...]:
        """Return the functions that run during the construction of an object of ``cls``."""
        if cls not in self._construction_functions:
            made = {f: None for entry in self._entries(cls) for f in self.reachable_methods(cls, entry)}
            self._construction_functions[cls] = tuple(made)
        return self._construction_functions[cls]

    def reachable_methods(self, cls: Class, start: Function) -> tuple[Function, ...]:
        """Return ``start`` and the methods of an object of ``cls`` that it can reach."""
        if (cls, start) not in self._reached:
            found = {start: None}
            pending = [start]
            while pending:
                for callee in self._named_methods(cls, pending.pop()):
                    if callee not in found:
                        found[callee] = None
                        pending.append(callee)
            self._reached[cls, start] = tuple(found)
        return self._reached[cls, start]

    def _named_methods(self, cls: Class, function: Function) -> Iterator[Function]:
        """Yield the methods of ``self`` that a method names."""
        program, source = self._program, function.source
        for name in dict.fromkeys(_OF_SELF.findall(source)):
            if (method := program.method(cls, name)) is not None:
                yield method
        for above, base, name in dict.fromkeys(_OF_BASE.findall(source)):
            home = program.resolve(function.module, base) if base else cls
            method = None
            if above:
                method = program.method(cls, above, after=function.owner)
            elif isinstance(home, Class):
                method = program.method(home, name)
            if method is not None and method is not function:
                yield method

    def has_hidden_attributes(self, cls: Class) -> bool:
        """Return whether objects of ``cls`` may have attributes that the source does not show."""
        order = self._program.mro(cls)
        if has_foreign_base(self._program, cls) or any(map(_makes_attributes, order)):
            return True
        return any(
            word in f.source for f in self.construction_functions(cls) for word in _DYNAMIC_ASSIGNMENTS
        )

    def is_class_attribute(self, cls: Class, name: str) -> bool:
        """Return whether the class itself provides an attribute: a method, property, value or field."""
        for known in self._program.mro(cls):
            if name in known.methods or known.fields.get(name) is not None:
                return True
            # A decorator such as ``dataclass`` turns annotations into fields.
            if name in known.fields and known.node.decorator_list:
                return True
            nested = (each.name for each in known.node.body if isinstance(each, ast.ClassDef))
            if name in nested:
                return True
        return False

    def calls_setter(self, cls: Class, name: str) -> Callable[[ast.AST, Function], bool]:
        """Return a predicate: whether a part of a method calls code that sets an attribute of ``self``."""

        def calls(node: ast.AST, function: Function) -> bool:
            if not isinstance(node, (ast.stmt, ast.expr)):
                return False
            return self._calls_setter(cls, name, node, function)

        return calls

    def _calls_setter(self, cls: Class, name: str, node: ast.AST, function: Function) -> bool:
        program = self._program
        for each in walk(node):
            if not isinstance(each, (ast.Attribute, ast.Call)):
                continue
            callees: list[Function | None] = []
            if (
                isinstance(each, ast.Attribute)
                and isinstance(each.value, ast.Name)
                and each.value.id == "self"
            ):
                callees.append(program.method(cls, each.attr))
            elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Call):
                if last_name(each.value) == "super":
                    callees.append(program.method(cls, each.attr, after=function.owner))
            elif isinstance(each, ast.Call) and _passes_self(each):
                if self.call_can_set(each, function, name):
                    return True
                if isinstance(each.func, ast.Attribute) and isinstance(each.func.value, ast.Name):
                    home = program.resolve(function.module, each.func.value.id)
                    callees.append(program.method(home, each.func.attr) if isinstance(home, Class) else None)
            if any(callee is not None and self.can_set(cls, callee, name) for callee in callees):
                return True
        return False

    def can_set(self, cls: Class, start: Function, name: str) -> bool:
        """Return whether a method of an object of ``cls`` can reach a statement that sets an attribute of it."""
        if (cls, start, name) not in self._settable:
            reached = self.reachable_methods(cls, start)
            self._settable[cls, start, name] = any(sets_on_self(f, name) for f in reached) or any(
                self.call_can_set(call, f, name) for f in reached for call in self._calls_passing_self(f)
            )
        return self._settable[cls, start, name]

    def constructor_can_set(self, cls: Class, name: str) -> bool:
        """Return whether construction of an object can set an attribute of it."""
        return any(self.can_set(cls, entry, name) for entry in self._entries(cls))

    def _calls_passing_self(self, function: Function) -> tuple[ast.Call, ...]:
        """Return the calls in a method that pass ``self`` as an argument."""
        if function not in self._passing_calls:
            nodes = walk(function.node) if _PASSED.search(function.source) else []
            self._passing_calls[function] = tuple(
                node for node in nodes if isinstance(node, ast.Call) and _passes_self(node)
            )
        return self._passing_calls[function]

    def call_can_set(self, call: ast.Call, function: Function, name: str) -> bool:
        """Return whether a call that passes ``self`` can reach code that sets an attribute of it."""
        called = last_name(call.func)
        found = self._program.resolve(function.module, called)
        if isinstance(found, Class):
            return any(_sets_on_other(each, name) for each in self.construction_functions(found))
        if isinstance(found, Function):
            return _sets_on_other(found, name)
        word = f"def {called}(".encode()
        return any(word in self._program.sources[file] for file in self._files_setting(name))

    def _files_setting(self, name: str) -> tuple[str, ...]:
        """Return the files with an assignment to an attribute of that name."""
        if name not in self._setting:
            word = f".{name}".encode()
            sign = re.compile(rb"\.%s\s*(?::[^=\n]+)?(?:,[^=\n]*)?=(?!=)" % name.encode())
            sources = self._program.sources.items()
            self._setting[name] = tuple(file for file, text in sources if word in text and sign.search(text))
        return self._setting[name]

    def own_setters(self, cls: Class, name: str) -> tuple[Function, ...]:
        """Return the methods of a class and its ancestors that set an attribute of ``self``."""
        methods = (method for known in self._program.mro(cls) for method in known.methods.values())
        return tuple(method for method in methods if sets_on_self(method, name))

    def _setters(self, cls: Class, name: str) -> tuple[Function, ...]:
        """Return the functions that may set an attribute of an object of ``cls``, its own methods first."""
        modules = filter(None, map(self._program.module, self._files_setting(name)))
        functions = [f for module in modules for f in module.all_functions()]
        return (*self.own_setters(cls, name), *(f for f in functions if _sets_on_other(f, name)))

    def subclasses(self, cls: Class) -> tuple[Class, ...]:
        """Return the subclasses of ``cls`` in the tree."""
        if cls.name not in self._subclasses:
            self._subclasses[cls.name] = ()  # Ends the recursion for a class that inherits from itself.
            sign = re.compile(
                rb"^[ \t]*class[ \t]+(\w+)[ \t]*\([^)]*\b%s\b[^)]*\)" % cls.name.encode(), re.MULTILINE
            )
            found: dict[Class, None] = {}
            for file, text in self._program.sources.items():
                if cls.name.encode() not in text:
                    continue
                for name in sign.findall(text):
                    module = self._program.module(file)
                    subclass = module.classes.get(name.decode()) if module is not None else None
                    if subclass is not None and subclass is not cls:
                        found.update(dict.fromkeys((subclass, *self.subclasses(subclass))))
            self._subclasses[cls.name] = tuple(found)
        return self._subclasses[cls.name]

    def is_constructed(self, cls: Class) -> bool:
        """Return whether the tree itself constructs objects of a class."""
        return bool(self.callers(cls.name))

    def callers(self, name: str) -> tuple[Function, ...]:
        """Return the functions that call something of that name."""
        if name not in self._callers:
            word = f"{name}(".encode()
            found = []
            for file, text in self._program.sources.items():
                if word in text and (module := self._program.module(file)) is not None:
                    found += [
                        function
                        for function in module.all_functions()
                        if f"{name}(" in function.source
                        if any(called == name for _, called in function.called_names)
                    ]
            self._callers[name] = tuple(found)
        return self._callers[name]

    def _transitive_callers(self, targets: tuple[Function, ...]) -> _Calls:
        """Return the functions whose call can reach one of ``targets``, by the name under which they are called."""
        if targets not in self._callers_of:
            found: _Calls = {}
            level = list(targets)
            for _ in range(_DEPTH):
                for each in level:
                    found.setdefault(_call_name(each), {})[each] = None
                above = {caller: None for each in level for caller in self._callers_of_function(each)}
                level = [each for each in above if each not in found.get(_call_name(each), {})]
            self._callers_of[targets] = found
        return self._callers_of[targets]

    def _callers_of_function(self, target: Function) -> list[Function]:
        """Return the functions that call ``target``."""
        name = _call_name(target)
        callers = self.callers(name)
        only: _Calls = {name: {target: None}}
        return [
            each for each in callers if any(self._is_call_of(node, each, only) for node in walk(each.node))
        ]

    def _is_call_of(self, node: ast.AST, function: Function, to: _Calls) -> bool:
        """Return whether a node in ``function`` is a call of one of the functions in ``to``."""
        targets = to.get(last_name(node.func)) if isinstance(node, ast.Call) else None
        if targets is None or not isinstance(node, ast.Call):
            return False
        program, called = self._program, node.func
        if isinstance(called, ast.Name):
            found = program.resolve(function.module, called.id)
            if isinstance(found, Class):
                return any(program.method(found, entry) in targets for entry in ENTRIES)
            return found in targets
        owner = self._class_of(called.value, function) if isinstance(called, ast.Attribute) else None
        if owner is None:
            return self._is_rare(last_name(called))
        family = {*program.mro(owner), *self.subclasses(owner)}
        return any(each.owner in family for each in targets)

    def _class_of(self, node: ast.expr, function: Function) -> Class | None:
        """Return the class of ``self``, of an annotated parameter, or of an attribute chain on one of them."""
        if isinstance(node, ast.Attribute):
            return class_of(self._program, self._class_of(node.value, function), node.attr)
        if isinstance(node, ast.Call) and last_name(node) == "super":
            return function.owner
        if not isinstance(node, ast.Name):
            return None
        if node.id == "self":
            return function.owner
        hints = [class_of_annotation(each.annotation) for each in function.parameters if each.arg == node.id]
        found = self._program.resolve(function.module, hints[0]) if hints and hints[0] else None
        return found if isinstance(found, Class) else None

    def late_assignment(
        self, owner: Class, place: Place, of: Class, name: str, *, given: bool
    ) -> LateAssignment | None:
        """Return the code that sets an attribute only after the constructor of ``owner`` has read it.

        ``place``, which runs during construction, reads the attribute of an object of class ``of``, which was
        ``given`` to it or which it constructed. None unless the source shows that nothing sets the attribute earlier.
        """
        setting = self._transitive_callers(self._setters(of, name))

        def sets(node: ast.AST, function: Function) -> bool:
            return assigns(node, name, None) or any(
                self._is_call_of(each, function, setting) for each in walk(node)
            )

        if (
            place.path_share(lambda node: sets(node, place.function), place.statement)[0]
            is not PathShare.NONE
        ):
            return None
        if not given:
            return LateAssignment(place.function, place.statement.lineno, "")
        return self._assignment_after(
            self._constructors_reaching(owner, place.function), tuple(self._entries(of)), sets
        )

    def _entries(self, cls: Class) -> list[Function]:
        found = (self._program.method(cls, name) for name in ENTRIES)
        return [entry for entry in found if entry is not None]

    def _assignment_after(
        self, makers: list[Function], made: tuple[Function, ...], sets: Callable[[ast.AST, Function], bool]
    ) -> LateAssignment | None:
        making = self._transitive_callers(made)
        found: LateAssignment | None = None
        level, seen = makers, set(makers)
        for _ in range(_DEPTH):
            above: dict[Function, None] = {}
            targets: _Calls = {}
            for each in level:
                targets.setdefault(_call_name(each), {})[each] = None
            for function in dict.fromkeys(f for each in level for f in self._callers_of_function(each)):
                above[function] = None
                everywhere = list(places(function))
                for at, place in enumerate(everywhere):
                    if not self._has_call_of(place.parts, function, targets):
                        continue
                    if place.path_share(lambda node, f=function: sets(node, f))[0] is PathShare.ALL:  # type: ignore[misc]
                        return None
                    before = [part for each in everywhere[:at] for part in each.parts]
                    after = (
                        each for each in everywhere[at + 1 :] for part in each.parts if sets(part, function)
                    )
                    follows = next(after, None)
                    if found is None and follows is not None and self._has_call_of(before, function, making):
                        called = ast.unparse(follows.parts[0])
                        found = LateAssignment(function, follows.statement.lineno, called)
            level = [each for each in above if each not in seen and self._is_rare(_call_name(each))]
            seen.update(level)
        return found

    def _has_call_of(self, parts: Iterable[ast.AST], function: Function, to: _Calls) -> bool:
        return any(self._is_call_of(node, function, to) for part in parts for node in walk(part))

    def _is_rare(self, name: str) -> bool:
        """Return whether few enough functions have that name for it to identify what a call runs."""
        if name not in self._named:
            word = f"def {name}(".encode()
            self._named[name] = sum(text.count(word) for text in self._program.sources.values())
        return self._named[name] <= _NAMESAKES

    def _constructors_reaching(self, owner: Class, reader: Function) -> list[Function]:
        """Return the constructors of a class and its subclasses that reach ``reader``, and functions that return it."""
        classes = [
            cls for cls in (owner, *self.subclasses(owner)) if reader in self.construction_functions(cls)
        ]
        found = [entry for cls in classes for entry in self._entries(cls)]
        for file, text in self._program.sources.items():
            for cls in classes:
                returned = f"return {cls.name}"
                module = self._program.module(file) if returned.encode() in text else None
                sign = re.compile(rf"\b{returned}\s*$", re.MULTILINE)
                functions = module.all_functions() if module is not None else ()
                found += [f for f in functions if returned in f.source and sign.search(f.source)]
        return list(dict.fromkeys(found))


def _makes_attributes(cls: Class) -> bool:
    """Return whether a class has a hook, metaclass or decorator that may add attributes to its objects."""
    decorators = {last_name(each) for each in cls.node.decorator_list}
    return bool(_DYNAMIC & cls.methods.keys() or cls.node.keywords or decorators - {"dataclass"})


def assigns(node: ast.AST, name: str, root: str | None) -> bool:
    """Return whether a node sets an attribute of ``root``; with None, of anything except ``self``."""
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target] if node.value is not None else []
    elif isinstance(node, ast.AugAssign):
        targets = []
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        targets = [node.target]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if last_name(call.func) in {"setattr", "__setattr__"} and len(call.args) > 1:
            of, attribute = call.args[-3:-1] if len(call.args) > 2 else (ast.Name("self"), call.args[0])
            is_named = not isinstance(attribute, ast.Constant) or attribute.value == name
            return is_named and (isinstance(of, ast.Name) and of.id == "self") == (root == "self")
    elif isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Store):
        targets = [node]
    return any(
        isinstance(each, ast.Attribute)
        and each.attr == name
        and isinstance(each.ctx, ast.Store)
        and (isinstance(each.value, ast.Name) and each.value.id == "self") == (root == "self")
        for target in targets
        for each in walk(target)
    )


def sets_on_self(function: Function, name: str) -> bool:
    """Return whether a method sets an attribute of ``self``."""
    return name in function.source and any(assigns(each, name, "self") for each in statements(function.node))


def _sets_on_other(function: Function, name: str) -> bool:
    return name in function.source and any(assigns(each, name, None) for each in statements(function.node))


def _passes_self(call: ast.Call) -> bool:
    passed = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(isinstance(each, ast.Name) and each.id == "self" for each in passed)


def _call_name(function: Function) -> str:
    """Return the name under which a function is called: for a constructor, the name of its class."""
    return function.owner.name if function.owner is not None and function.name in ENTRIES else function.name
