"""A server on one tree, spoken to by the HTTP routes that all releases have."""

from __future__ import annotations

import http.client
import os
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from patchkit.bench.figures import Reply, first_error
from patchkit.bench.process import LOCAL, SERVER_PORT, TreeProcess
from patchkit.errors import PatchkitError, TreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from patchkit.bench.command import LaunchCommand, Prompts
    from patchkit.bench.watchdog import Watchdog

# A proxy of the environment is not for this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_PAUSE = 0.1
# Seconds for a server to become idle, and to end by itself.
_DRAIN, _GRACE = 10.0, 5.0
# Seconds for one question whether it is up; characters of a refusal that are shown.
_QUESTION, _REFUSAL = 20.0, 300
_ALONE = "try the launch command without patchkit"
_FEWER = "name single patches after the launch command, to find out which one it is"
_PORT_TAKEN = "address already in use"


class ServerError(PatchkitError):
    """A server did not start, died or hung; exit code 4 if it is that of the unpatched tree, which the user has."""

    is_quoting = True

    def __init__(self, what: str, reasons: Sequence[str], *, patched: bool, advice: str) -> None:
        super().__init__(what, reasons=reasons, advice=advice)
        self.exit_code = PatchkitError.exit_code if patched else TreeError.exit_code


class Answered(NamedTuple):
    """The replies to a batch of requests, and the seconds from the first request to the last reply."""

    seconds: float
    replies: tuple[Reply, ...]


class TreeServer:
    """A server that runs the package in ``folder``, from its start to its end."""

    def __init__(
        self,
        name: str,
        command: LaunchCommand,
        options: Sequence[str],
        folder: Path,
        watchdog: Watchdog,
        *,
        patched: bool,
    ) -> None:
        """Start it, with more ``options``; its log is beside the package."""
        self._name, self._folder, self._patched = name, folder, patched
        self._process = TreeProcess(folder / "log.txt", watchdog)
        port = self._process.ports + SERVER_PORT
        self._url = f"http://{LOCAL}:{port}"
        key = command.value("--api-key")
        self._headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {key}"} if key else {}
        )
        environment = {**os.environ, **command.environment}
        paths = [str(folder), *filter(None, [environment.get("PYTHONPATH")])]
        environment |= {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONSAFEPATH": "1",
            "PYTHONUNBUFFERED": "1",
        }
        # The compiled files tell whether it is this package that the server imports.
        for variable in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
            environment.pop(variable, None)
        words = [*command.words, *options, "--host", LOCAL, "--port", str(port)]
        self._process.start(words, environment, stdin=subprocess.DEVNULL)

    def await_start(self, until: float, watch: Callable[[], None]) -> None:
        """Wait until it answers requests. Raise ServerError if it ends or ``until``, of the monotonic clock, passes."""
        while True:
            watch()
            with suppress(OSError, http.client.HTTPException):
                self._ask("/health_generate", None, min(until, time.monotonic() + _QUESTION))
                break
            if self._process.has_ended():
                raise self._failed("ended before it was up")
            if time.monotonic() > until:
                raise self._failed("was not up within the time limit", "give more with --time-limit")
            time.sleep(_PAUSE)
        if not any(self._folder.rglob("*.pyc")):
            raise self._failed(
                "imports another sglang than the copy that bench made",
                "start it as `python -m sglang.launch_server` in a folder without sglang, not with -E or -I",
            )

    def takes_text(self, until: float) -> bool:
        """Return whether it has a tokenizer."""
        return not self._answer("/server_info", None, until).get("skip_tokenizer_init", False)

    def generate(self, prompts: Prompts, new_tokens: int, until: float) -> Answered:
        """Return the likeliest tokens after each prompt, exactly so many, without any use of a prefix cache."""
        self._flush(until)
        kind = "text" if isinstance(prompts[0], str) else "input_ids"
        sampling = {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True}
        body = msgspec.json.encode({kind: prompts, "sampling_params": sampling})
        began = time.perf_counter()
        answer = self._answer("/generate", body, until)
        return Answered(time.perf_counter() - began, tuple(map(_reply, answer)))

    def start_profile(self, folder: Path, steps: int, until: float) -> None:
        """Let its scheduler write a trace of so many next batches to ``folder``."""
        settings = {"output_dir": str(folder), "num_steps": steps, "activities": ["CPU", "GPU"]}
        body = {**settings, "with_stack": False, "record_shapes": False}
        self._flush(until)
        self._asked("/start_profile", msgspec.json.encode(body), until)

    def paused(self) -> AbstractContextManager[None]:
        """Stop all its processes for a while."""
        return self._process.paused()

    @property
    def port_was_taken(self) -> bool:
        """Whether another program took its port before it did."""
        return _PORT_TAKEN in self._process.said().lower()

    def stop(self) -> None:
        """End it and all that it started; later calls do nothing."""
        self._process.stop(_GRACE)

    def _flush(self, until: float) -> None:
        drained = min(until, time.monotonic() + _DRAIN)
        while True:
            try:
                self._ask("/flush_cache", b"", until)
                return
            except urllib.error.HTTPError:
                # Refused while a request is being finished.
                if time.monotonic() > drained:
                    raise self._failed("did not become idle", "try again") from None
                time.sleep(_PAUSE)
            except (OSError, http.client.HTTPException) as error:
                raise self._lost(error) from None

    def _answer(self, route: str, body: bytes | None, until: float) -> Any:
        return msgspec.json.decode(self._asked(route, body, until))

    def _asked(self, route: str, body: bytes | None, until: float) -> bytes:
        try:
            return self._ask(route, body, until)
        except urllib.error.HTTPError as error:
            why = error.read().decode(errors="replace").strip()[:_REFUSAL]
            raise self._failed(
                f"refused {route} with {error.code} {why}".strip(), "change the options of bench"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from None

    def _ask(self, route: str, body: bytes | None, until: float) -> bytes:
        request = urllib.request.Request(self._url + route, body, self._headers)
        with _DIRECT.open(request, timeout=max(_PAUSE, until - time.monotonic())) as answer:
            content: bytes = answer.read()
        return content

    def _lost(self, error: Exception) -> ServerError:
        if isinstance(getattr(error, "reason", error), TimeoutError):
            return self._failed("gave no answer within the time limit", "give more with --time-limit")
        self._process.has_ended(_GRACE)
        return self._failed("died while it was measured")

    def _failed(self, what: str, advice: str = "") -> ServerError:
        log = self._process.said()
        why = first_error(log) or next((line for line in reversed(log.splitlines()) if line.strip()), "")
        self.stop()
        advice = advice or (_FEWER if self._patched else _ALONE)
        reasons = [why] if why else []
        return ServerError(f"the {self._name} server {what}", reasons, patched=self._patched, advice=advice)


def _reply(answer: dict[str, Any]) -> Reply:
    meta = answer["meta_info"]
    return Reply(tuple(answer["output_ids"]), meta["finish_reason"]["type"], meta.get("spec_verify_ct", 0))
