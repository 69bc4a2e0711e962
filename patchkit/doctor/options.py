"""Read a server's launch command, ``--config`` file or ``ServerArgs`` JSON, and let the tree resolve its settings."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.doctor.command_line import config_options, without_config
from patchkit.doctor.declared import declared
from patchkit.doctor.execution.gpus import GPUS, USUAL
from patchkit.doctor.execution.kinds import FACTS, KINDS, LOCAL, SLIDING, UNGRAPHED
from patchkit.doctor.execution.named import by_name
from patchkit.doctor.execution.process import Request
from patchkit.doctor.launch import Case, Launch
from patchkit.doctor.models import named
from patchkit.errors import UsageError, spelling_hint
from patchkit.tree.index import Index
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from patchkit.doctor.command_line import ServerCommand
    from patchkit.doctor.execution.kinds import ModelKind
    from patchkit.doctor.execution.named import NamedModel
    from patchkit.doctor.execution.process import Executed, Execution, Value
    from patchkit.doctor.shell import Word
    from patchkit.tree.tree import Contents, Tree

_CONFIGS = f"{SERVING}/configs/"


class Arguments:
    """Reads launches for a tree; without an ``execution`` nothing of it runs, and only the given options are known."""

    def __init__(
        self,
        tree: Tree,
        execution: Execution | None = None,
        gpus: Sequence[str] = (),
        models: Mapping[str, bytes] | None = None,
    ) -> None:
        """Read launches on some GPUs; ``models`` are configurations of the ``model`` and of its ``draft``."""
        self._tree = tree
        self._models = {
            name: dict(_decoded(f"--{name}-config", text)) for name, text in (models or {}).items()
        }
        self._execution = execution
        for gpu in gpus:
            if gpu not in GPUS:
                raise UsageError(
                    f"--gpu {gpu}: no such GPU is known", advice=f"name one of {', '.join(GPUS)}"
                )
        self._gpus = tuple(dict.fromkeys(gpus)) or USUAL

    def launch(self, command: ServerCommand, settings: bytes = b"") -> Launch:
        """Return the launch that a server's command and a ``ServerArgs`` JSON describe.

        Raise UsageError where the tree refuses the launch, and for a ``--config`` that cannot be read.
        """
        options, config = without_config(command.options)
        unknown = [word.text for word in options if not word.known]
        notes = [f"Not known before they are filled in: {', '.join(unknown)}."] if unknown else []
        request = Request(
            options=[
                word.text if word.known else None
                for word in options
                if word.known or not word.text.startswith("-")
            ],
            configured=list(config_options(config)) if config is not None else [],
            environment=dict(command.environment),
            settings=_plain_values(_decoded("--server-args", settings)) if settings else {},
            is_alone=command.is_alone,
        )
        configured = dict(request.configured).get("model-path", [""])[0]
        path = _model_path(options) or configured or str(request.settings.get("model_path", ""))
        return self._resolved(request, tuple(notes), {}, by_name(path))

    def _resolved(
        self,
        request: Request,
        notes: tuple[str, ...],
        files: Mapping[str, str],
        model: NamedModel | None,
    ) -> Launch:
        """Return a launch with its cases, for a ``model`` that is known by its name if that starts.

        Raise UsageError for one that the tree refuses whatever the model is.
        """
        kinds = KINDS if model is None else (model.kind,)
        answers = [] if self._execution is None else list(self._answers(request, files, kinds))
        failed = next((answer for _, answer in answers if answer.failed), None)
        if failed is not None or not answers:
            why = f" ({_placed(failed.failed, failed.where)})" if failed is not None else ""
            return self._unexecuted(request, notes, files, why)
        started = [(facts, answer) for facts, answer in answers if not answer.refused]
        refused = [answer for _, answer in answers if answer.refused]
        if not started:
            if model is not None and not any(one.found or one.by_parser for one in refused):
                raised = _placed(refused[0].refused, refused[0].where)
                note = (
                    f"With a configuration of {model.name}, by the model's name, this tree raises {raised}."
                )
                return self._resolved(request, (*notes, note), files, None)
            # What the code about configurations refuses, or for some models, it may refuse for one that is assumed.
            places = [one.where for one in refused]
            usual = max(refused, key=lambda one: places.count(one.where))
            is_same = 2 * places.count(usual.where) > len(places) and _CONFIGS not in usual.where
            own = next((one for one in refused if one.found or one.by_parser), usual if is_same else None)
            if own is not None:
                raise _refusal(own)
            why = f" (it refuses each model that was tried, as with {_placed(refused[0].refused, refused[0].where)})"
            return self._unexecuted(request, notes, files, why)
        shared = {fact for fact in started[0][0] if all(facts[fact] for facts, _ in started)}
        if answers[0][1].refused:
            some = named([facts for facts, _ in started])
            why = _placed(answers[0][1].refused, answers[0][1].where)
            notes = (*notes, f"This server starts only {some}; otherwise its tree raises {why}.")
        cases = tuple(Case(facts, _telling(facts, shared), answer.settings) for facts, answer in started)
        first = started[0][1]
        if model is not None and not first.found:
            notes = (
                *notes,
                f"The model's configuration is one of {model.name}, by its name (see --model-config).",
            )
        if first.others:
            notes = (*notes, f"Not options of this tree's server: {', '.join(first.others)}.")
        ran = frozenset(file for _, answer in started for file in answer.files)
        changed = self._changing(request, files, model)
        return Launch(first.parsed, request.environment, cases, changed, notes, ran)

    def _answers(
        self, request: Request, files: Mapping[str, str], kinds: Sequence[ModelKind]
    ) -> Iterator[tuple[dict[str, bool], Executed]]:
        """Yield what becomes of a launch on each GPU with each kind of model, with the facts about both."""
        assert self._execution is not None
        families = [f"a {GPUS[gpu].family} GPU" for gpu in self._gpus]
        for gpu, family in zip(self._gpus, families, strict=True):
            for kind in kinds:
                variant = msgspec.structs.replace(
                    request,
                    model=self._models.get("model", kind.config),
                    draft=self._models.get("draft", kind.config),
                    model_named="model" in self._models,
                    draft_named="draft" in self._models,
                )
                answer = self._execution.ask(gpu, variant, files)
                true = {*answer.facts, *(() if answer.found else kind.facts)}
                on = {one: one == family != families[0] for one in families}
                yield {**{fact: fact in true for fact in FACTS}, **on}, answer
                if answer.failed or answer.by_parser:
                    return
                if answer.found:
                    break

    def _changing(
        self, request: Request, files: Mapping[str, str], model: NamedModel | None
    ) -> Callable[..., Launch]:
        def changed(settings: Mapping[str, Value], texts: Contents) -> Launch:
            other = msgspec.structs.replace(request, overrides={**request.overrides, **settings})
            added = {name: text.decode(errors="replace") for name, text in texts.items() if text is not None}
            try:
                return self._resolved(other, (), {**files, **added}, model)
            except UsageError:
                return Launch({}, request.environment, (), changed)

        return changed

    def _unexecuted(
        self, request: Request, notes: tuple[str, ...], files: Mapping[str, str], why: str
    ) -> Launch:
        """Return a launch of which only what is given is known."""
        index = Index(self._tree.read)
        serving = (
            (file, text) for file in self._tree.files(SERVING, ".py") if (text := self._tree.read(file))
        )
        fields = declared(index, lambda: serving, str(self._tree.package_label)).fields
        defaults = {
            name: item.value.value if isinstance(item.value, ast.Constant) else None
            for name, item in fields.items()
        }
        words = [word for name, values in request.configured for word in (f"--{name}", *values)]
        given = {**request.settings, **dict(_pairs([*words, *request.options])), **request.overrides}
        given_settings: dict[str, Value] = {name: value for name, value in given.items() if name in defaults}
        settings = dict.fromkeys(defaults) | _plain_values(defaults) | given_settings
        cases = tuple(
            Case(facts, _telling(facts), settings, frozenset(given_settings))
            for kind in KINDS
            for facts in [{fact: fact in kind.facts for fact in FACTS}]
        )
        note = f"Only the options that are given are known: the tree's own settings were not executed{why}."
        return Launch(
            settings, request.environment, cases, self._changing(request, files, None), (*notes, note)
        )


def _model_path(options: Sequence[Word]) -> str:
    """Return what options give as the model's path, also where only a part of it is known."""
    for place, word in enumerate(options):
        name, equals, value = word.text.partition("=")
        if name in ("--model-path", "--model"):
            return value if equals else "".join(word.text for word in options[place + 1 : place + 2])
    return ""


def _telling(facts: Mapping[str, bool], shared: Collection[str] = ()) -> dict[str, bool]:
    """Return the facts that tell a case from others: without those that all share, and what follows from another."""
    left = {fact: holds and fact not in shared for fact, holds in facts.items()}
    left[SLIDING] = left[SLIDING] and not left[LOCAL]
    left[UNGRAPHED] = left[UNGRAPHED] and sum(left.values()) == 1
    return left


def _refusal(answer: Executed) -> UsageError:
    """Return the tree's own refusal as an error."""
    if not answer.by_parser:
        return UsageError(f"this tree's server raises {answer.refused}", where=answer.where)
    names = re.findall(r"--[\w-]+", answer.refused)
    unknown = [name for name in names[:1] if name not in answer.known]
    advice = "".join(spelling_hint(name, answer.known).rstrip() for name in unknown) or "change what it names"
    return UsageError(
        f"this tree's server refuses the options: {answer.refused}", where=answer.where, advice=advice
    )


def _placed(what: str, where: str) -> str:
    return f"{what}, {where}" if where else what


def _decoded(option: str, content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        why = "" if isinstance(error, msgspec.ValidationError) else f" ({error})"
        raise UsageError(
            f"{option}: not a JSON object{why}", advice='save it as {"name": value, …}'
        ) from None


def _plain_values(values: Mapping[str, Any]) -> dict[str, Value]:
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (str, bool, int, float, type(None)))
    }


def _pairs(words: Sequence[str | None]) -> Iterator[tuple[str, Value]]:
    """Yield the settings that options set by their own names; what else they mean only the tree's parser knows."""
    for place, word in enumerate(words):
        name, equals, value = (word or "").partition("=")
        if name.startswith("--"):
            following = words[place + 1] if place + 1 < len(words) else "--"
            text = value if equals else "true" if (following or "").startswith("--") else following
            if text is not None:
                yield name[2:].replace("-", "_"), _plain(text)


def _plain(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch("-?[0-9]{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{0,18}\.[0-9]{1,18}", text) else text
