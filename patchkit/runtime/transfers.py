"""Notify the prefill servers of a request whose pages a decode server frees, so that they stop writing to them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


_ABORT = b"ABORT"
# ZMQ_DONTWAIT: a queue to a server that is gone fills up, and then the scheduler would wait for it.
_NOBLOCK = 1


def notify_of_abort(receiver: Any) -> None:
    """Notify each known prefill server that sends to ``receiver`` that its request has failed.

    The message is the one that upstream's prefill servers read. Source: pull request 27372.
    """
    manager = receiver.kv_mgr
    message = (str(receiver.bootstrap_room), manager.local_ip, str(manager.rank_port))
    frames = [_ABORT, *(each.encode("ascii") for each in message)]
    for server in getattr(receiver, "bootstrap_infos", None) or ():
        # A server that cannot be reached may have stopped, and then it writes nothing.
        with suppress(Exception):
            socket, lock = receiver._connect_to_bootstrap_server(server)
            with lock:
                socket.send_multipart(frames, _NOBLOCK)


def is_abort(manager: Any, message: Sequence[bytes], states: Any) -> bool:
    """Return whether a prefill server's ``message`` is an abort, and if so fail its request unless it has ended.

    Source: pull request 27372.
    """
    if message[0] != _ABORT:
        return False
    room = int(message[1])
    if manager.request_status.get(room, states.Success) != states.Success:
        manager.record_failure(room, "Aborted by the decode server.")
        manager.update_status(room, states.Failed)
    return True
