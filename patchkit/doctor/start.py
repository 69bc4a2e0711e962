"""The settings that a server settles on as it starts, or the error that certainly ends it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patchkit.doctor import registry
from patchkit.doctor.evaluation.certain import CertainEvaluator, RefusedError, UnendingError
from patchkit.doctor.evaluation.values import Instance, Unknown, is_plain
from patchkit.doctor.launch import Refusal
from patchkit.doctor.objects import Settings
from patchkit.doctor.questions import LLAMA, MLA, fact_of
from patchkit.patchset import condition

if TYPE_CHECKING:
    from patchkit.doctor.declared import SettingsDeclaration
    from patchkit.doctor.evaluation.memory import Memory
    from patchkit.doctor.launch import Launch
    from patchkit.tree.index import Program

# The methods that settle a server's settings as it starts: the constructor's or, in later trees, one of its own.
METHODS = ("__post_init__", "resolve_once")
_LLAMA_FOR_CAUSAL_LM = "LlamaForCausalLM"
# An architecture that no tree names.
_NO_SUCH = "NoSuchForCausalLM"
_ANY_MODEL = "model"
# The type of a setting with several values; a launch has the first of them.
_COLLECTION_TYPE = re.compile(r"(?i)\b(list|tuple|dict|sequence|json)")

Started = tuple[Refusal | None, Mapping[str, Any]]


def started(
    program: Program,
    launch: Launch,
    memory: Memory,
    *,
    facts: Mapping[str, bool],
    declaration: SettingsDeclaration,
    natives: Mapping[str, Any],
) -> Started:
    """Return the error that certainly ends the server while it settles its settings, or the settled settings.

    ``facts`` are those known of its model, and ``natives`` the names that are not evaluated from the tree.
    """
    architecture = _LLAMA_FOR_CAUSAL_LM if facts.get(LLAMA) else _NO_SUCH
    model, draft = (
        Instance(
            None,
            {"hf_config": Instance(None, {"architectures": [architecture]}, name=f"{name}.hf_config")},
            name=name,
        )
        for name, architecture in (("model_config", architecture), ("draft_config", _NO_SUCH))
    )
    settings = Settings(declaration.cls, {}, derived=declaration.derived(program), model=model)
    known = {
        **natives,
        **{name: Unknown(name) for name in registry.contexts(program)},
        "ResolvedView": lambda _, shown, **__: shown,
        "get_config": lambda *_, **__: draft.attributes["hf_config"],
        "get_global_server_args": lambda _: settings,
        "is_blackwell": Unknown("is_blackwell"),
        "model_config_of": lambda *_: model,
        "parse_connector_type": lambda *_: str(launch.get("model_path") or "").rpartition("://")[0],
    }

    def decided(question: str) -> bool | None:
        fact, answer = fact_of(question) or ("", True)
        return facts[fact] is answer if fact == MLA and fact in facts else None

    evaluator = CertainEvaluator(program, known, decided, memory, settings)
    settings.values |= _given(launch, declaration, evaluator)
    try:
        for name in METHODS:
            method = evaluator.method_of(settings.cls, name, settings)
            if method is not None:
                evaluator.call(method)
    except RefusedError as error:
        return Refusal(str(error), error.where, error.filled), {}
    except UnendingError:
        return None, dict.fromkeys(settings.values, condition.UNKNOWN)
    return None, {
        name: value if is_plain(value) else condition.UNKNOWN for name, value in settings.values.items()
    }


def _given(launch: Launch, declaration: SettingsDeclaration, evaluator: CertainEvaluator) -> dict[str, Any]:
    """Return the given settings, and the defaults of the others."""
    found: dict[str, Any] = {}
    for name, item in declaration.fields.items():
        several = _COLLECTION_TYPE.search(ast.unparse(item.annotation)) is not None
        if name in launch.given:
            found[name] = Unknown(name) if several else launch.given[name]
        elif item.value is not None:
            found[name] = evaluator.value(item.value, declaration.cls)
        else:
            found[name] = _ANY_MODEL if name == "model_path" else Unknown(name)
    if not found.get("device"):
        found["device"] = "cuda"
    return found
