"""Recordings and logs of other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_conformance.traffic import recording as kit
from accord_trace import Record, Recording, open_trace
from accord_trace.exports import jsons_lines
from accord_trace.importing import import_records
from requirement import requirement

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
DONE = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}'
ASKED = b'{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s"}}'
CANCEL = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}'

# As the conductor of the Rust SDK writes a chain of one proxy.
JSONS = b"""\
{"type":"request","ts":0.000123,"protocol":"acp","from":"Client","to":"Proxy(0)","id":1,\
"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"hi"}]}}
{"type":"request","ts":0.0005,"protocol":"acp","from":"Proxy(0)","to":"Agent","id":"a-1",\
"method":"session/prompt","params":{"sessionId":"s-1","prompt":[]}}
{"type":"request","ts":0.5,"protocol":"mcp","from":"Agent","to":"Proxy(0)","id":7,\
"method":"tools/list","params":null}
{"type":"response","ts":1.0,"from":"Proxy(0)","to":"Agent","id":7,"is_error":true,\
"payload":{"code":-32601,"message":"no"}}
{"type":"notification","ts":1.25,"protocol":"acp","from":"Agent","to":"Proxy(0)",\
"method":"session/update","params":{"sessionId":"s-1","update":{}}}
{"type":"response","ts":2.0,"from":"Agent","to":"Proxy(0)","id":"a-1","is_error":false,\
"payload":{"stopReason":"end_turn"}}
{"type":"response","ts":2.5,"from":"Proxy(0)","to":"Client","id":1,"is_error":false,\
"payload":{"stopReason":"end_turn"}}
"""


def imported(text: bytes, problems: list[str] | None = None) -> list[Record]:
    found = import_records(text.splitlines(), problems)
    return [item for item in found if isinstance(item, Record)]


def directions(text: bytes) -> str:
    return "".join(">" if item.dir == "to_agent" else "<" for item in imported(text))


@requirement("R-TRACE-02")
def test_format_of_rust_is_read_and_written_without_a_difference() -> None:
    records = imported(JSONS)
    assert b"".join(jsons_lines(records)) == JSONS
    # The last two are responses: their session is that of their request.
    assert [item.session for item in records] == ["s-1", "s-1", None, None, *["s-1"] * 3]
    assert directions(JSONS) == ">><><<<"


@requirement("R-TRACE-02")
def test_recording_is_written_in_the_format_of_rust(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        hop = recording.hop("Client", "Agent")
        hop.frames("to_agent", [INITIALIZE, b"noise"])
        hop.frames("to_client", [DONE, UPDATE])
        hop.end("to_client")
    lines = [json.loads(line) for line in jsons_lines(open_trace(path))]
    for line in lines:
        del line["ts"]
    ends = {"from": "Client", "to": "Agent"}
    back = {"from": "Agent", "to": "Client"}
    assert lines == [
        {
            "type": "request",
            "protocol": "acp",
            **ends,
            "id": 0,
            "method": "initialize",
            "params": {"protocolVersion": 1},
        },
        {"type": "response", **back, "id": 0, "is_error": False, "payload": {"protocolVersion": 1}},
        {
            "type": "notification",
            "protocol": "acp",
            **back,
            "method": "session/update",
            "params": {"sessionId": "s", "update": {}},
        },
    ]


_VALUE = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner))
_MESSAGE = st.one_of(
    st.fixed_dictionaries(
        {"id": st.integers() | st.text(), "method": st.text(), "params": _VALUE},
    ),
    st.fixed_dictionaries({"method": st.just("session/update"), "params": _VALUE}),
    st.fixed_dictionaries({"id": st.integers(), "result": _VALUE}),
    st.fixed_dictionaries({"id": st.integers(), "error": _VALUE}),
)


@settings(max_examples=15)
@given(st.lists(st.tuples(st.booleans(), _MESSAGE), max_size=8))
@requirement("R-TRACE-02")
def test_recorded_exported_and_imported_messages_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, messages: list[tuple[bool, dict[str, object]]]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "r.acp.jsonl"
    frames = [
        (is_to_agent, json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode())
        for is_to_agent, message in messages
    ]
    with Recording(path) as recording:
        hop = recording.hop()
        for is_to_agent, frame in frames:
            hop.frames("to_agent" if is_to_agent else "to_client", [frame])
    recorded = list(open_trace(path))
    assert [(item.dir == "to_agent", item.frame) for item in recorded] == frames
    exported = b"".join(jsons_lines(recorded))
    again = imported(exported)
    found = [(item.dir == "to_agent", json.loads(item.frame)) for item in again]
    assert found == [(is_to_agent, json.loads(frame)) for is_to_agent, frame in frames]
    assert b"".join(jsons_lines(again)) == exported


@requirement("R-TRACE-03")
def test_directions_of_plain_frames_are_guessed_by_method_and_id() -> None:
    # Both sides use the id 0.
    frames = [INITIALIZE, DONE, ASKED, CANCEL, b'{"id":0,"result":{}}', UPDATE]
    assert directions(b"\n".join(frames)) == "><<<><"


@requirement("R-TRACE-03")
def test_journal_of_acpx_is_read_without_its_marks() -> None:
    mark = b'{"schema":"acpx.session.journal.v1","kind":"turn_started","requestId":"r"}'
    records = imported(b"\n".join([mark, INITIALIZE, DONE, mark, UPDATE]))
    assert [item.frame for item in records] == [INITIALIZE, DONE, UPDATE]


@requirement("R-TRACE-03")
def test_format_of_thinkwell_is_read() -> None:
    def line(at: str, direction: str, frame: bytes) -> bytes:
        ends = ("editor", "agent") if direction == "left-to-right" else ("agent", "editor")
        value = {
            "timestamp": at,
            "direction": direction,
            "source": ends[0],
            "target": ends[1],
            "message": json.loads(frame),
        }
        return json.dumps(value).encode()

    records = imported(
        b"\n".join(
            [
                line("2026-05-01T10:00:00.000Z", "left-to-right", INITIALIZE),
                line("2026-05-01T10:00:00.100Z", "internal", UPDATE),
                line("2026-05-01T10:00:00.250Z", "right-to-left", DONE),
            ]
        )
    )
    assert [(item.ts, item.dir, item.sender) for item in records] == [
        (0.0, "to_agent", "editor"),
        (0.25, "to_client", "agent"),
    ]


@requirement("R-TRACE-03")
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (b"2026-05-01 10:00 [info] -> ", ">"),
        ("12:00 ← ".encode(), "<"),
        (b"DEBUG Received: ", "<"),
        (b"[acp] sending ", ">"),
        (b"[1234] ", "<"),  # by its method
    ],
)
def test_log_with_whole_frames_is_read(before: bytes, expected: str) -> None:
    problems: list[str] = []
    records = imported(b"starting agent\n" + before + UPDATE + b"\n", problems)
    assert [item.frame for item in records] == [UPDATE]
    assert [">" if item.dir == "to_agent" else "<" for item in records] == [expected]
    assert len(problems) == 1


def test_recording_of_accord_check_is_read() -> None:
    text = b'{"subject":"agent"}\n' + kit.write(0.5, "client", INITIALIZE)
    text += kit.write(1.0, "agent", b"\xff") + b'{"from":"agent","end":true}\n'
    assert [(item.type, item.ts, item.frame) for item in imported(text)][:2] == [
        ("request", 0.5, INITIALIZE),
        ("invalid", 1.0, b"\xff"),
    ]
