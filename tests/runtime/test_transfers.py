from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from patchkit.runtime.transfers import is_abort, notify_of_abort

STATES = SimpleNamespace(Failed=0, Success=4)


def receiver(servers: list[str] | None, notified: list[str]) -> Any:
    def connect(server: str) -> Any:
        if server == "gone":
            raise ConnectionError
        return SimpleNamespace(send_multipart=lambda *_: notified.append(server)), nullcontext()

    made = SimpleNamespace(bootstrap_room=7, kv_mgr=SimpleNamespace(local_ip="here", rank_port=1))
    made._connect_to_bootstrap_server = connect
    if servers is not None:
        made.bootstrap_infos = servers
    return made


def test_a_server_that_cannot_be_notified_does_not_prevent_other_notifications() -> None:
    notified: list[str] = []
    notify_of_abort(receiver(["gone", "there"], notified))
    assert notified == ["there"]


def test_a_request_without_a_server_notifies_none() -> None:
    notified: list[str] = []
    notify_of_abort(receiver(None, notified))
    assert notified == []


def test_other_messages_are_none_of_an_abort() -> None:
    assert not is_abort(SimpleNamespace(), [b"None", b"7"], STATES)
