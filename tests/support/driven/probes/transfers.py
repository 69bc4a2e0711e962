"""What a prefill server writes for a decode server that abandoned a request, through the tree's own managers."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
from sglang.srt.disaggregation.base.conn import KVPoll
from sglang.srt.disaggregation.mooncake import conn

_OTHER = 8


class _LastError(Exception):
    """There is no further message or chunk."""


def _each(values: list[Any]) -> Any:
    """Return a function that gives the values one by one."""
    left = iter(values)

    def give(*_: Any) -> Any:
        try:
            return next(left)
        except StopIteration:
            raise _LastError from None

    return give


def _manager(rooms: list[int]) -> Any:
    made: Any = object.__new__(conn.MooncakeKVManager)
    vars(made).update(
        request_status=dict.fromkeys(rooms, KVPoll.WaitingForInput),
        failure_records={},
        failure_lock=threading.Lock(),
        session_lock=threading.Lock(),
        disaggregation_mode=None,
        required_prefill_response_num_table={},
        prefill_response_tracker=defaultdict(set),
        req_to_decode_prefix_len={},
        local_ip="decode",
        rank_port=7000,
        waiting_timeout=10,
        enable_staging=False,
        bootstrap_port=1,
        failed_sessions=set(),
    )
    made.attn_tp_rank = made.pp_rank = made.attn_cp_rank = 0
    made.attn_tp_size = made.pp_size = made.attn_cp_size = 1
    return made


def given_up(room: int, how: str) -> dict[str, Any]:
    """Make a decode server abandon a request, ``aborted`` or ``late``; return what it sends, and to whom."""
    sent: list[Any] = []
    receiver: Any = object.__new__(conn.MooncakeKVReceiver)
    vars(receiver).update(
        bootstrap_room=room,
        bootstrap_infos=[{"rank_ip": "first"}, {"rank_ip": "second"}],
        kv_mgr=_manager([room]),
        conclude_state=None,
        abort_notified=False,
        init_time=0,
    )

    def connect(server: dict[str, str]) -> Any:
        def send(frames: list[bytes], *_: Any) -> None:
            sent.append((server["rank_ip"], frames))

        return SimpleNamespace(send_multipart=send), nullcontext()

    receiver._connect_to_bootstrap_server = connect
    conn.logger.warning_once = lambda *_: None
    if how == "aborted":
        receiver.abort()
    state = receiver.poll()
    # The scheduler asks why, and then frees the request's pages.
    with suppress(conn.KVTransferError):
        receiver.failure_exception()
    return {"failed": state == KVPoll.Failed, "sent": sent}


def written(messages: list[list[bytes]], room: int, *, over: bool = False) -> dict[str, Any]:
    """Have a prefill server read messages, then take a chunk of the request and one of another from its queue.

    ``over`` is whether the request has all its chunks. Returns the rooms of which it wrote a chunk, and the states.
    """
    sent: list[int] = []
    manager = _manager([room, _OTHER])
    if over:
        manager.request_status[room] = KVPoll.Success
    manager.server_socket = SimpleNamespace(recv_multipart=_each(messages))

    class Thread:
        def __init__(self, target: Any, **_: Any) -> None:
            self.start = target

    conn.threading.Thread = Thread
    with suppress(_LastError):
        manager.start_prefill_thread()
    read = dict(manager.request_status)

    request = SimpleNamespace(
        is_dummy=False, mooncake_session_id="s", dst_kv_indices=np.arange(1), endpoint="decode", dst_port=1
    )
    manager.transfer_infos = {each: {"s": request} for each in (room, _OTHER)}
    manager.decode_kv_args_table = {
        "s": SimpleNamespace(dst_attn_tp_size=1, dst_kv_ptrs=[], enable_hisparse=False)
    }
    manager.is_mla_backend = True
    chunks = _each(
        [
            SimpleNamespace(
                room=each, index_slice=slice(0, 1), prefill_kv_indices=np.arange(1), is_last_chunk=False
            )
            for each in (room, _OTHER)
        ]
    )

    def take() -> Any:
        chunk = chunks()

        def send(*_: Any) -> int:
            sent.append(chunk.room)
            return 0

        manager.send_kvcache = send
        return chunk

    # The worker says of anything that it raises that it is dead.
    with suppress(RuntimeError):
        manager.transfer_worker(SimpleNamespace(get=take), None)
    return {"written": sent, "failed": [each for each, state in read.items() if state == KVPoll.Failed]}
