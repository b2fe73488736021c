"""Lines of recordings: every frame comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_trace.line_builder import Hop, LineBuilder
from accord_trace.records import Direction, Record, decode_record
from requirement import requirement

PROMPT = (
    b'{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[]}}'
)
STRANGE = [
    b'{"method":"session/cancel","params":{"sessionId":"s"},"jsonrpc":"2.0"}',  # another order
    b'{"jsonrpc": "2.0", "id": 1.50, "result": 1e400}',
    b'{"jsonrpc":"2.0","id":"\\u00e9","result":{"a":1,"a":2}}',
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":null,"more":[1]}',
    b'{"jsonrpc":"2.0",\r\n"id":1,"method":"x","params":{\n"text":"\\n"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'[{"jsonrpc":"2.0","id":1,"method":"x"}]',
    b'{"jsonrpc":"2.0","id":1,"result":"\xff"}',
    b'{"jsonrpc":"2.0","id":1,"result":"\xed\xa0\x80"}',
    b'{"jsonrpc":"2.0","id":1,"result":"\\ud800"}',
    b"npm warn: \x1b[31mold\x00",
    b'{"cut":',
]


def built(frame: bytes, direction: Direction = "to_agent") -> tuple[bytes, Record]:
    line = LineBuilder(Hop(), redact=False).line(1.25, direction, frame)
    record = decode_record(line)
    assert record is not None
    return line, record


@requirement("R-TRACE-01")
def test_record_has_the_fields_of_the_format() -> None:
    line, record = built(PROMPT)
    assert json.loads(line) == {
        "type": "request",
        "ts": 1.25,
        "protocol": "acp",
        "from": "Client",
        "to": "Agent",
        "id": 3,
        "method": "session/prompt",
        "session": "s-1",
        "dir": "to_agent",
        "conn": "0",
        "bytes": len(PROMPT),
        "params": {"sessionId": "s-1", "prompt": []},
    }
    assert record.frame == PROMPT


@pytest.mark.parametrize("frame", STRANGE)
@requirement("R-TRACE-01")
def test_strange_frame_is_one_line_and_comes_back_byte_for_byte(frame: bytes) -> None:
    line, record = built(frame)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    line.decode()  # UTF-8
    assert record.frame == frame
    assert record.bytes == len(frame)


@pytest.mark.parametrize("session", ["s", "\\u0073", "\u00e9", "", 'a\\"b'])
@pytest.mark.parametrize(
    "more", ["", ',"more":1', ',"id":1', " ", ',"params":{"sessionId":"x"}', ',\r\n"x":1']
)
def test_any_update_comes_back(session: str, more: str) -> None:
    head = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
    frame = f'{head}{session}","update":{{}}}}{more}}}'.encode()
    line, record = built(frame, "to_client")
    assert line.count(b"\n") == 1
    assert record.frame == frame
    assert record.session == json.loads(frame)["params"]["sessionId"]


def test_frame_that_is_not_a_message_is_invalid() -> None:
    kinds = {frame: built(frame)[1].type for frame in STRANGE}
    assert list(kinds.values()) == [
        *("notification", "response", "response", "request", "request"),
        *("invalid",) * 5,
        "response",
        *("invalid",) * 2,
    ]


def test_blank_frame_has_no_line() -> None:
    assert LineBuilder(Hop(), redact=False).line(0.0, "to_agent", b" \r") == b""


def test_response_has_the_session_of_its_request() -> None:
    lines = LineBuilder(Hop(), redact=False)
    lines.line(0.0, "to_agent", PROMPT)
    answer = b'{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
    record = decode_record(lines.line(1.0, "to_client", answer))
    assert record is not None
    assert record.session == "s-1"
    opened = b'{"jsonrpc":"2.0","id":4,"result":{"models":[],"sessionId":"s\\u002d2"}}'
    record = decode_record(lines.line(1.0, "to_client", opened))
    assert record is not None
    assert record.session == "s-2"


@requirement("R-TRACE-02")
def test_message_of_mcp_is_shown_as_the_inner_one() -> None:
    frame = (
        b'{"jsonrpc":"2.0","id":1,"method":"mcp/message",'
        b'"params":{"connectionId":"c","method":"tools/list","params":{"a":1}}}'
    )
    record = built(frame, "to_client")[1]
    assert (record.protocol, record.method, record.value()) == ("mcp", "tools/list", {"a": 1})
    assert record.frame == frame


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "id": st.integers() | st.text() | st.none(),
        "method": st.sampled_from(["session/update", "mcp/message", "é\n", "x"]),
        "params": _JSON | st.fixed_dictionaries({"sessionId": st.text()}),
        "result": _JSON,
        "error": _JSON,
    },
)


@settings(max_examples=40)
@given(_MESSAGES, st.booleans(), st.sampled_from(["to_agent", "to_client"]))
def test_any_message_comes_back(message: Any, ascii_only: bool, direction: Direction) -> None:
    # Surrogates cannot be encoded: hypothesis does not generate them.
    frame = json.dumps(message, ensure_ascii=ascii_only).encode()
    line, record = built(frame, direction)
    assert line.count(b"\n") == 1
    assert record.frame == frame


@given(st.binary(max_size=60))
def test_any_bytes_come_back(frame: bytes) -> None:
    line = LineBuilder(Hop(), redact=False).line(0.0, "to_client", frame)
    if not frame.strip():
        assert line == b""
        return
    record = decode_record(line)
    assert record is not None
    assert record.frame == frame


def chunk(text: bytes, more: bytes = b"}") -> bytes:
    head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    return (
        head + b'{"sessionUpdate":"a_chunk","content":{"type":"text","text":' + text + b"}}}" + more
    )


TEXTS = [
    b'"plain"',
    b'"\xc3\xa9 \\n \\u00e9"',
    b'"say \\"hi\\""',
    b'"ends in \\\\"',
    b'"\xff"',
    b'"control \x01"',
    b'"bad escape \\x"',
    b'"lone \\ud800"',
    b'"cut \\',
    b'"two","text":"lines\n"',
    b'""',
    b"7",
    b'"x","token":"secret"',
]


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(TEXTS),
            st.text().map(
                lambda text: json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
            ),
            st.binary(max_size=8).map(lambda text: b'"' + text + b'"'),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_update_that_repeats_another_one_has_the_same_line(
    texts: list[bytes], redact: bool
) -> None:
    quick, plain = (LineBuilder(Hop(), redact=redact) for _ in range(2))
    for number, text in enumerate(texts):
        for frame in (chunk(text), chunk(text, b"  }"), bytearray(chunk(text))):
            line = plain.line(number, "to_client", frame)
            assert quick.repeated(number, "to_client", frame) in (None, line)
            assert quick.line(number, "to_client", frame) == line


def test_chunks_of_a_message_repeat_each_other() -> None:
    builder = LineBuilder(Hop(), redact=True)
    assert builder.repeated(1.0, "to_client", chunk(b'"a"')) is None
    builder.line(1.0, "to_client", chunk(b'"a"'))
    assert builder.repeated(1.0, "to_client", chunk(b'"b"')) is not None
    assert builder.repeated(1.0, "to_agent", chunk(b'"b"')) is None
    assert builder.repeated(1.0, "to_client", chunk(b'"b","apiKey":"x"')) is None
    thought = chunk(b'"a"').replace(b"a_chunk", b"b_chunk")
    assert builder.repeated(1.0, "to_client", thought) is None
    builder.line(1.0, "to_client", thought)
    assert builder.repeated(1.0, "to_client", thought) is not None
    assert builder.repeated(1.0, "to_client", chunk(b'"b"')) is not None
    other = chunk(b'"a"').replace(b"a_chunk", b"tool_call_update")
    builder.line(1.0, "to_client", other)
    assert builder.repeated(1.0, "to_client", other) is None
