"""Notifications that were read together pass together, and never differently than one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from accord.jsonrpc.message import Message
from accord.jsonrpc.peer import Peer
from accord.proxy.hop import ACP, MIN_RUN, SUCCESSOR, RunReader, notification_head, unwrap

_UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","n":%d}}'
_WRAPPED = (
    b'{"jsonrpc":"2.0","method":"proxy/successor","params":'
    b'{"method":"session/update","params":{"sessionId":"s","n":%d}}}'
)


def _plain(frames: list[bytes], *, unwraps: bool) -> list[tuple[str, bytes, bool]] | None:
    """Return what frames say when each is read by itself; None if one is no notification."""
    read: list[tuple[str, bytes, bool]] = []
    for frame in frames:
        events = Peer().receive([frame])
        if len(events) != 1 or type(events[0]) is not Message or events[0].id is not UNSET:
            return None
        method, params, wrapped = events[0].method, events[0].params, False
        if unwraps and method in SUCCESSOR:
            wrapped = True
            method, params = unwrap(params)
        read.append((str(method), bytes(params), wrapped))  # type: ignore[arg-type]  # as above
    return read


def test_a_run_has_the_params_of_each_notification() -> None:
    frames = [_UPDATE % n for n in range(6)] + [b'{"jsonrpc":"2.0","id":1,"result":{}}']
    found = RunReader(unwraps=False).read(frames, 1)
    assert found is not None
    run, wrapped = found
    assert (run.method, wrapped) == ("session/update", False)
    assert run.texts == [b'{"sessionId":"s","n":%d}' % n for n in range(1, 6)]
    assert run.frames == frames[1:6]


def test_what_the_successor_sends_is_unwrapped_only_by_a_connection_with_two_sides() -> None:
    frames = [_WRAPPED % n for n in range(MIN_RUN)]
    found = RunReader(unwraps=True).read(frames, 0)
    assert found is not None
    assert (found[0].method, found[1]) == ("session/update", True)
    assert found[0].texts[2] == b'{"sessionId":"s","n":2}'
    found = RunReader(unwraps=False).read(frames, 0)
    assert found is not None
    assert (found[0].method, found[1]) == (ACP.notification, False)


NO_RUNS = [
    b'{"jsonrpc":"2.0","method":"a","params":{},"id":1}',  # requests
    b'{"jsonrpc":"2.0","method":"a","params":{},"x":{}}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{}}',
    b'{"jsonrpc":"2.0","method":"a","method":"b","params":{}}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0", "method":"a","params":{}}',  # written differently
    b'{"method":"a","params":{}}',
    b'{"jsonrpc":"2.0","method":"a","params":[1]}',
    b'{"jsonrpc":"2.0","method":"a","params":{"b":}}',
    b'{"jsonrpc":"2.0","method":"a"}',
    b'{"jsonrpc":"2.0","method":"a\xff","params":{}}',
    b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"$/cancel_request",'
    b'"params":{"requestId":1}}}',
    b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"a","params":{},"b":{}}}',
    b"",
]


def test_all_else_is_no_run() -> None:
    for frame in NO_RUNS:
        assert RunReader(unwraps=True).read([frame] * 8, 0) is None, frame


def test_a_frame_that_ends_within_the_next_one_is_no_run() -> None:
    head = notification_head(None, "a")
    begins, ends = head + b'{"b":1},{"c":[{}', head + b"{}]}}"
    frames = [head + b"{}}", begins, head + b"{}}", ends]
    assert RunReader(unwraps=False).read(frames, 0) is None


_PARTS = [
    b'{"a":1}',
    b"{}",
    b'{"b":"}"}',
    b'{"c":[1,2]}',
    b'{"d":"\\ud800"}',
    b'{"e":1',
    b'{"f":[{},',
    b'{"g":1},{"h":2}',
    b'{"i":2},"id":7',
    b"1",
    b'{"j":1} ',
]
_HEADS = [
    notification_head(None, "session/update"),
    notification_head(ACP.notification, "session/update"),
    notification_head(None, "x"),
    notification_head(ACP.notification, "$/cancel_request"),
]


@given(
    st.lists(
        st.tuples(st.sampled_from(_HEADS), st.sampled_from(_PARTS), st.sampled_from([b"}", b"}}"])),
        min_size=MIN_RUN,
        max_size=10,
    ),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_a_run_says_what_its_frames_say_one_by_one(
    parts: list[tuple[bytes, bytes, bytes]], unwraps: bool
) -> None:
    frames = [b"%b%b%b" % part for part in sorted(parts)]
    found = RunReader(unwraps=unwraps).read(frames, 0)
    if found is None:
        return
    run, wrapped = found
    expected = _plain(list(run.frames), unwraps=unwraps)  # type: ignore[arg-type]  # they are bytes
    assert expected == [(run.method, text, wrapped) for text in run.texts]
