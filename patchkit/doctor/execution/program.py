"""Run launches' options through a tree's own parser and ``ServerArgs``; the child process.

The working directory contains the package. Arguments: the package's name, the folder of the launch, the GPU's name, the
file descriptor for the answers, the read end of a pipe whose write end the parent keeps open, and a number of seconds
after which the process group is killed. The first line of stdin are texts that replace files of the package, by name;
each further one is a ``Request`` of ``process``, and its answer one line.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import re
import resource
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from patchkit.doctor.execution import fakes, kinds
from patchkit.doctor.execution.gpus import GPUS
from patchkit.verify.stand_ins import disable_network, limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, FrameType

_PLAIN = (bool, int, float, str, type(None))
_COMPILED = os.path.abspath("compiled")
_MEMORY = 4 << 30
# Of the processor: to import a tree, and for each launch.
_SECONDS, _SECONDS_EACH = 180, 30
_FILE_SIZE = 16 << 20


class _RefusedError(Exception):
    """The tree's parser refuses the options."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the tree, or the text that replaces it; the compiled code is kept in the working directory."""

    def __init__(self, name: str, path: str, text: str | None) -> None:
        super().__init__(name, path)
        self._text = text

    def get_data(self, path: str) -> bytes:
        """Return the text that replaces the file's."""
        return super().get_data(path) if self._text is None else self._text.encode()

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the compiled code of a module; no other module is imported meanwhile."""
        if self._text is not None:
            return super().get_code(fullname)
        sys.pycache_prefix, sys.dont_write_bytecode = _COMPILED, False
        try:
            return super().get_code(fullname)
        finally:
            sys.pycache_prefix, sys.dont_write_bytecode = None, True


class _Tree(importlib.abc.MetaPathFinder):
    """Finds the modules of the tree, also in texts that replace its files."""

    def __init__(self, package: str, files: dict[str, str]) -> None:
        self._package = package
        self._files = files

    def find_spec(self, fullname: str, path: Any = None, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a module of the tree."""
        top, *names = fullname.split(".")
        if top != os.path.basename(self._package):
            return None
        for file in ("/".join((*names, "__init__.py")), "/".join(names) + ".py"):
            place = os.path.join(self._package, file)
            text = self._files.get(file)
            if text is not None or os.path.isfile(place):
                inside = [os.path.dirname(place)] if file.endswith("__init__.py") else None
                return importlib.util.spec_from_file_location(
                    fullname, place, loader=_Loader(fullname, place, text), submodule_search_locations=inside
                )
        return None


def main() -> None:
    """Import the settings of a tree, and answer the requests."""
    name, launched, gpu, channel, lifeline, seconds = sys.argv[1:]
    limit(int(lifeline), int(seconds))
    for kind, most in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_CPU, _SECONDS),
        (resource.RLIMIT_FSIZE, _FILE_SIZE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    # Each launch is one short fork, in which a collection would copy every page of the modules.
    gc.disable()
    fakes.install(GPUS[gpu], name)
    disable_network()
    sys.path.insert(0, os.getcwd())
    requests = map(json.loads, sys.stdin)
    # In front of it is what finds stand-ins.
    sys.meta_path.insert(1, _Tree(os.path.abspath(name), next(requests)))
    server = _Settings(name, launched)
    with os.fdopen(int(channel), "w", encoding="utf-8") as answers:
        for request in requests:
            answers.write(json.dumps(server.answer(request)) + "\n")
            answers.flush()


class _Settings:
    """A tree's settings, imported."""

    def __init__(self, name: str, launched: str) -> None:
        self._name = name
        self._package = os.path.abspath(name)
        self._launched = launched
        self._failed = self._imported()
        self._parser: argparse.ArgumentParser | None = None
        self._later: list[str] = []
        self._files: list[str] = []
        self._found = False
        self._others: list[str] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        if self._failed is not None:
            return self._failed
        answer = self._apart(self._answer, request)
        modules = answer.pop("modules", [])
        # What the first launch has imported beyond the settings is imported here once for all further ones.
        for name in () if self._later else modules:
            with suppress(BaseException):
                importlib.import_module(name)
        self._later = self._later or modules
        if self._parser is None:
            # Most of a launch's time; the tree's own code may let options depend on the environment.
            with suppress(BaseException):
                self._parser = self._made_parser()
        self._files = answer.get("files") or self._files
        return {**answer, "files": self._files}

    def _part(self, name: str) -> Any:
        return importlib.import_module(f"{self._name}.srt.{name}")

    def _imported(self) -> dict[str, Any] | None:
        """Import the settings; return why they cannot be imported, None if they can."""
        try:
            # A fork may have settings of another kind, which no launch is given to.
            _ = self._part("server_args").ServerArgs.add_cli_args
        except BaseException as error:
            return {"failed": _message(error), "where": self._where(error)}
        return None

    def _apart(
        self, run: Callable[[dict[str, Any]], dict[str, Any]], request: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what a function returns in a process of its own, so that no request changes what the next one sees."""
        end, start = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS_EACH, _SECONDS_EACH))
            try:
                text = json.dumps(run(request))
            except BaseException as error:
                text = json.dumps({"failed": _message(error), "where": self._where(error)})
            with open(start, "wb") as out:
                out.write(text.encode())
                out.flush()
                os._exit(0)
        os.close(start)
        with open(end, "rb") as written:
            text = written.read().decode()
        os.waitpid(child, 0)
        ended: dict[str, Any] = {"failed": "the process that executes them ended early"}
        return json.loads(text) if text else ended

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        # The tree is not to write where a path points.
        variables = request.get("environment", {}).items()
        os.environ.update({name: value for name, value in variables if os.sep not in value})
        argparse.ArgumentParser.error = _refuse  # type: ignore[method-assign,assignment]
        before = set(sys.modules)
        self._found = False
        ran: set[str] = set()
        if not self._later:
            # Unlike a profiler it is not called for built-in functions and returns.
            sys.settrace(self._ran(ran))
        parser = argparse.ArgumentParser()
        try:
            if self._later and self._parser is not None and not request.get("environment"):
                parser = self._parser
            else:
                parser = self._made_parser()
            parsed, settings = self._resolved(parser, request)
        except BaseException as error:
            by_parser = isinstance(error, _RefusedError)
            names = [name for name in parser._option_string_actions if name.startswith("--")]
            return {
                "refused": _message(error),
                "where": self._where(error) or (self._declared(_message(error)) if by_parser else ""),
                "by_parser": by_parser,
                "known": names if by_parser else [],
                "found": self._found,
            }
        finally:
            sys.settrace(None)
        return {
            "settings": dict(self._values(settings)),
            "parsed": parsed,
            "facts": list(self._facts(settings)),
            "found": self._found,
            "others": self._others,
            "modules": [name for name in sys.modules if name not in before],
            "files": sorted(os.path.relpath(file, self._package) for file in ran),
        }

    def _made_parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog="sglang serve")
        self._part("server_args").ServerArgs.add_cli_args(parser)
        return parser

    def _resolved(
        self, parser: argparse.ArgumentParser, request: dict[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        """Return a launch's settings before and after the start. Raise what the tree raises."""
        cls = self._part("server_args").ServerArgs
        parser.set_defaults(**request.get("settings", {}))
        usual = request.get("settings", {}).get("model_path") or "model"
        configured = _configured(parser, request.get("configured", ()))
        options = _without_unknown(parser, request.get("options", ()))
        fakes.have_adapters(re.findall(r"[\w.-]+", " ".join(options)))
        is_alone = parser.allow_abbrev = request.get("is_alone", True)
        given, others = parser.parse_known_args(["--model-path", str(usual), *configured, *options])
        if others and is_alone:
            parser.error(f"unrecognized arguments: {' '.join(others)}")
        self._others = [word for word in others if word.startswith("-")]
        parsed = {name: value for name, value in vars(given).items() if isinstance(value, _PLAIN)}
        for name, value in request.get("overrides", {}).items():
            if hasattr(given, name):
                setattr(given, name, value)
        self._found = self._placed(given, request)
        settings = cls.from_cli_args(given)
        if hasattr(settings, "resolve_once"):
            settings.resolve_once()
        self._check(settings)
        return parsed, settings

    def _ran(self, files: set[str]) -> Callable[[FrameType, str, object], None]:
        """Return a tracer that adds the tree's files of which functions run, other than to import modules."""

        def trace(frame: FrameType, _: str, __: object) -> None:
            file = frame.f_code.co_filename
            if file in files or not self._is_own(file):
                return
            caller: FrameType | None = frame
            while caller is not None:
                if caller.f_code.co_name == "<module>" and self._is_own(caller.f_code.co_filename):
                    return
                caller = caller.f_back
            files.add(file)

        return trace

    def _placed(self, given: Any, request: dict[str, Any]) -> bool:
        """Let models be in folders that exist; return whether the model's own configuration is known."""
        is_found = False
        for name, made in (("model_path", "model"), ("speculative_draft_model_path", "draft")):
            path = getattr(given, name, None)
            if not path:
                continue
            local = os.path.join(self._launched, str(path))
            is_local = os.path.isfile(os.path.join(local, "config.json"))
            content, is_named = request.get(made), request.get(f"{made}_named", False)
            if is_local and not is_named:
                setattr(given, name, local)
            else:
                os.makedirs(made, exist_ok=True)
                for file in ("config.json", "params.json"):
                    with open(os.path.join(made, file), "w", encoding="utf-8") as out:
                        json.dump(content, out)
                setattr(given, name, os.path.abspath(made))
            is_found = is_found or (made == "model" and (is_local or is_named))
        if not is_found:
            # How long the model's texts can be is not known.
            os.environ.setdefault("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "1")
        return is_found

    def _check(self, settings: Any) -> None:
        if hasattr(settings, "check_server_args"):
            settings.check_server_args()
            return
        with suppress(ImportError):
            hook = self._part("arg_groups.validation_hook")
            getattr(hook, "check_server_args", lambda _: None)(settings)

    def _view(self, settings: Any) -> Any:
        """Return the settings as the tree's own code reads them after they are resolved."""
        with suppress(ImportError):
            overrides = self._part("arg_groups.overrides")
            for name in ("resolving_view", "resolved_view"):
                with suppress(Exception):
                    return getattr(overrides, name)(settings)
        return settings

    def _values(self, settings: Any) -> Iterator[tuple[str, Any]]:
        view = self._view(settings)
        names = (
            [field.name for field in dataclasses.fields(settings)]
            if dataclasses.is_dataclass(settings)
            else ()
        )
        for name in dict.fromkeys((*names, *getattr(type(settings), "__annotations__", ()), *vars(settings))):
            try:
                value = getattr(view, name)
            except Exception:
                try:
                    value = getattr(settings, name)
                except Exception:
                    continue
            if not name.startswith("_") and isinstance(value, _PLAIN):
                yield name, getattr(value, "value", value)

    def _facts(self, settings: Any) -> Iterator[str]:
        """Yield what the tree's own configuration says of the model; nothing if it has none."""
        try:
            if hasattr(settings, "get_model_config"):
                model = settings.get_model_config()
            else:
                model = self._part("arg_groups.overrides").model_config_of(settings)
            config, text = model.hf_config, model.hf_text_config
        except BaseException:
            return

        def has(name: str) -> bool:
            return bool(getattr(model, name, None))

        rope = getattr(text, "rope_scaling", None) or getattr(text, "rope_parameters", None)
        for fact, holds in {
            kinds.MLA: getattr(getattr(model, "attention_arch", None), "name", "") == "MLA",
            kinds.SPARSE: bool(getattr(text, "index_topk", None)),
            kinds.SLIDING: has("is_hybrid_swa") or has("sliding_window_size"),
            kinds.LOCAL: has("is_local_attention_model"),
            kinds.CROSS: has("is_encoder_decoder"),
            kinds.MROPE: isinstance(rope, dict) and "mrope_section" in rope,
            kinds.LINEAR: bool(getattr(text, "linear_num_value_heads", None)),
            kinds.LLAMA: list(config.architectures or ()) == ["LlamaForCausalLM"],
            kinds.UNGRAPHED: has("is_multimodal") or has("is_piecewise_cuda_graph_disabled_model"),
        }.items():
            if holds:
                yield fact

    def _is_own(self, file: str) -> bool:
        return file.startswith(self._package + os.sep)

    def _where(self, error: BaseException) -> str:
        """Return the last line of the tree's own code in a traceback."""
        frames = traceback.walk_tb(error.__traceback__)
        return self._last((frame.f_code.co_filename, line) for frame, line in frames)

    def _last(self, lines: Iterable[tuple[str, int]]) -> str:
        """Return the last of some lines that is the tree's own."""
        own = [entry for entry in lines if self._is_own(entry[0])]
        return f"{os.path.relpath(own[-1][0], self._package)}:{own[-1][1]}" if own else ""

    def _declared(self, refusal: str) -> str:
        """Return the line at which the tree declares the option that its parser refuses, or else all options."""
        cls = self._part("server_args").ServerArgs
        code = inspect.unwrap(cls.add_cli_args).__code__
        declared = {"": self._last([(code.co_filename, code.co_firstlineno)])}
        add = argparse._ActionsContainer.add_argument
        fields = {}

        def adding(container: Any, *names: str, **given: Any) -> Any:
            action = add(container, *names, **given)
            # The outermost frame comes last.
            frames = reversed([*traceback.walk_stack(sys._getframe())])
            line = self._last((frame.f_code.co_filename, line) for frame, line in frames)
            declared.update(dict.fromkeys(action.option_strings, line))
            fields.update(dict.fromkeys(action.option_strings, action.dest))
            return action

        argparse._ActionsContainer.add_argument = adding  # type: ignore[method-assign,assignment]
        cls.add_cli_args(argparse.ArgumentParser())
        named = re.match(r"argument ([^:/\s]+)", refusal)
        option = named[1] if named is not None and named[1] in declared else ""
        if [*declared.values()].count(declared[option]) == 1:
            return declared[option]
        # One loop declares the options of all fields, which are in other classes.
        groups = [name for name in sys.modules if name.startswith(f"{self._name}.srt.arg_groups.")]
        for name in (*(base.__module__ for base in cls.__mro__), *groups):
            file = getattr(sys.modules.get(name), "__file__", None) or ""
            if option and self._is_own(file):
                with open(file, encoding="utf-8") as lines:
                    for number, line in enumerate(lines, 1):
                        if re.match(rf"\s+{fields[option]}\s*:", line):
                            return self._last([(file, number)])
        return declared[option]


def _without_unknown(parser: argparse.ArgumentParser, words: Sequence[str | None]) -> list[str]:
    """Return words without those that are not known, nor an option that has no other value, nor what follows."""
    known_words: list[str] = []
    is_unknown = False
    for word in words:
        if word is None:
            name = known_words[-1] if known_words and not is_unknown else ""
            actions = [parser._option_string_actions.get(name)]
            if actions == [None] and name.startswith("--"):
                actions = [option[0] for option in parser._get_option_tuples(name)]
            if any(action is not None and action.nargs != 0 for action in actions):
                known_words.pop()
            is_unknown = True
        elif word.startswith("-") or not is_unknown:
            known_words.append(word)
            is_unknown = False
    return known_words


def _configured(parser: argparse.ArgumentParser, options: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    """Yield the words of a configuration file's options: of one without a value only if it is true."""
    for name, values in options:
        action = parser._option_string_actions.get(f"--{name}")
        is_flag = action is not None and action.nargs == 0
        if not is_flag:
            yield f"--{name}"
            yield from values
        elif values == ["true"]:
            yield f"--{name}"
        elif values != ["false"]:
            raise _RefusedError(f"argument --{name}: {', '.join(values)} is neither true nor false")


def _refuse(_: object, message: str) -> None:
    raise _RefusedError(message)


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, _RefusedError) else f"{type(error).__name__}{': ' * bool(text)}{text}"
