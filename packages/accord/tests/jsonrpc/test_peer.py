"""JSON-RPC without I/O: decoded frames, responses, and that receiving never raises."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.errors import InvalidParams, RequestError
from accord.jsonrpc.message import CancelRequest, Message, Response, UnexpectedMessage
from accord.jsonrpc.peer import ABSENT, Peer
from accord.text import lenient_json
from requirement import requirement


def frame(value: Any = None, **fields: Any) -> bytes:
    """Return a frame with any JSON value, or a message with these fields."""
    return json.dumps({"jsonrpc": "2.0", **fields} if value is None else value).encode()


def receive(peer: Peer, *frames: bytes) -> list[Any]:
    return peer.receive(frames)


def sent(peer: Peer) -> list[Any]:
    """Return the frames that the peer sends, decoded."""
    return [json.loads(text) for text in peer.frames_to_send()]


def asked(peer: Peer, call: Any = "call", params: Any = ABSENT) -> Any:
    """Send a request from the peer and return its id."""
    peer.request("ask", params, call)
    return sent(peer)[0]["id"]


def error_of(peer: Peer) -> tuple[Any, int]:
    """Return the id and the code of the only error that the peer sends."""
    (answer,) = sent(peer)
    assert answer["jsonrpc"] == "2.0"
    return answer["id"], answer["error"]["code"]


# Messages of the remote peer.


def test_message_with_an_id_is_a_request_and_without_one_a_notification() -> None:
    request, notification = receive(Peer(), frame(id=1, method="a"), frame(method="b"))
    assert (request.id, request.method) == (1, "a")
    assert (notification.id, notification.method) == (ABSENT, "b")


@requirement("R-GEN-03")
@pytest.mark.parametrize("version", ["1.0", 2.0, None, ABSENT])
def test_message_of_another_jsonrpc_version_is_rejected(version: Any) -> None:
    peer = Peer()
    fields = {} if version is ABSENT else {"jsonrpc": version}
    assert receive(peer, frame({**fields, "id": 1, "method": "a"})) == []
    assert error_of(peer) == (None, -32600)


def test_params_can_be_absent_null_or_a_value() -> None:
    absent, null, there = receive(
        Peer(),
        frame(method="a"),
        frame(method="a", params=None),
        frame(method="a", params={"b": [1]}),
    )
    assert absent.params is ABSENT
    assert bytes(null.params) == b"null"
    assert json.loads(bytes(there.params)) == {"b": [1]}


@requirement("R-GEN-08")
def test_unknown_keys_of_a_message_are_ignored() -> None:
    (message,) = receive(Peer(), frame(method="a", sessionId="s", x=1))
    assert message.method == "a"


@requirement("R-GEN-06")
@pytest.mark.parametrize("request_id", [0, -1, 2**63 - 1, -(2**63), "", "1", "ü\n", "\ud800", None])
def test_response_repeats_the_id_with_its_type(request_id: Any) -> None:
    peer = Peer()
    (request,) = receive(peer, frame(id=request_id, method="a"))
    peer.respond(request.id, {})
    (answer,) = sent(peer)
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert type(answer["id"]) is type(request_id)


@pytest.mark.parametrize("request_id", [1.5, 2**63, -(2**63) - 1, 1e300, True, [], {}])
def test_request_with_an_invalid_id_is_rejected_with_a_null_id(request_id: Any) -> None:
    peer = Peer()
    assert receive(peer, frame(id=request_id, method="a")) == []
    assert error_of(peer) == (None, -32600)


@requirement("R-GEN-14")
def test_null_ids_can_be_rejected() -> None:
    peer = Peer()
    peer.null_ids = False
    assert receive(peer, frame(id=None, method="a")) == []
    assert error_of(peer) == (None, -32600)


@requirement("R-GEN-13")
def test_request_with_a_used_id_is_rejected_and_the_first_is_answered() -> None:
    peer = Peer()
    events = receive(peer, frame(id=1, method="a"), frame(id=1, method="b"))
    assert [event.method for event in events] == ["a"]
    assert error_of(peer) == (None, -32600)
    peer.respond(1, "of a")
    assert sent(peer) == [{"jsonrpc": "2.0", "id": 1, "result": "of a"}]


def test_id_can_be_reused_after_its_response() -> None:
    peer = Peer()
    for _ in range(2):
        assert receive(peer, frame(id="x", method="a")) != []
        peer.respond("x", None)
    assert len(sent(peer)) == 2


@requirement("R-GEN-06")
def test_number_1_and_string_1_are_different_ids() -> None:
    peer = Peer()
    assert len(receive(peer, frame(id=1, method="a"), frame(id="1", method="b"))) == 2
    peer.respond("1", "of b")
    peer.respond(1, "of a")
    assert [(a["id"], a["result"]) for a in sent(peer)] == [("1", "of b"), (1, "of a")]


def test_request_is_answered_once() -> None:
    peer = Peer()
    receive(peer, frame(id=1, method="a"))
    assert peer.respond(1, "first") > 0
    assert peer.respond(1, "second") == 0
    assert peer.fail(1, RequestError()) == 0
    assert peer.respond(2, "never asked") == 0
    assert [answer["result"] for answer in sent(peer)] == ["first"]


@requirement("R-GEN-04", "R-ERR-02")
def test_error_response_has_code_message_and_optional_data() -> None:
    peer = Peer()
    receive(peer, frame(id=1, method="a"), frame(id=2, method="a"))
    peer.fail(1, InvalidParams("No", data={"path": "$"}))
    peer.fail(2, RequestError("Odd", code=7))
    assert sent(peer) == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {"code": -32602, "message": "No", "data": {"path": "$"}},
        },
        {"jsonrpc": "2.0", "id": 2, "error": {"code": 7, "message": "Odd"}},
    ]


def test_result_that_cannot_be_encoded_leaves_the_request_unanswered() -> None:
    peer = Peer()
    receive(peer, frame(id=1, method="a"))
    with pytest.raises(TypeError):
        peer.respond(1, object())
    assert peer.unanswered == 1
    assert peer.fail(1, RequestError()) > 0


# Invalid messages.


@requirement("R-ERR-03")
@pytest.mark.parametrize("text", [b"{", b"nul", b"NaN", b'{"a":Infinity}', b"{}{}", b"\xff", b"'"])
def test_invalid_json_is_answered_with_one_parse_error(text: bytes) -> None:
    peer = Peer()
    assert receive(peer, text) == []
    assert error_of(peer) == (None, -32700)


@requirement("R-ERR-03")
@pytest.mark.parametrize(
    "value",
    [0, "text", True, {}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "params": {}}],
    ids=json.dumps,
)
def test_json_that_is_not_a_request_is_answered_with_one_invalid_request(value: Any) -> None:
    peer = Peer()
    assert receive(peer, frame(value)) == []
    assert error_of(peer) == (None, -32600)


def test_null_is_not_a_request() -> None:
    peer = Peer()
    assert receive(peer, b"null") == []
    assert error_of(peer) == (None, -32600)


@requirement("R-ERR-03")
@pytest.mark.parametrize("method", [None, 1, ["a"], {}])
def test_method_that_is_not_a_string_is_rejected(method: Any) -> None:
    peer = Peer()
    assert receive(peer, frame(id=1, method=method)) == []
    assert error_of(peer) == (None, -32600)


@requirement("R-BATCH-10", "R-STDIO-08")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_array_is_answered_with_one_invalid_request_and_not_processed(count: int) -> None:
    peer = Peer()
    entry = {"jsonrpc": "2.0", "id": 1, "method": "a"}
    assert receive(peer, frame([entry] * count)) == []
    assert error_of(peer) == (None, -32600)


@requirement("R-STDIO-11")
@pytest.mark.parametrize("text", [b"", b" ", b"\r", b"\t \r"])
def test_blank_frames_are_ignored(text: bytes) -> None:
    peer = Peer()
    assert receive(peer, text) == []
    assert sent(peer) == []


def test_carriage_return_after_a_message_is_white_space() -> None:
    (message,) = receive(Peer(), frame(method="a") + b"\r")
    assert message.method == "a"


@requirement("R-STDIO-11")
def test_invalid_utf_8_is_replaced() -> None:
    (message,) = receive(Peer(), b'{"jsonrpc":"2.0","method":"a","params":{"t":"\xff"}}')
    assert lenient_json.loads(bytes(message.params)) == {"t": "\ufffd"}


def test_lone_surrogate_is_kept() -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"t":"\\ud800"}}'
    (message,) = receive(Peer(), text)
    assert json.loads(bytes(message.params)) == {"t": "\ud800"}


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 40])
def test_huge_number_next_to_a_lone_surrogate_is_decoded(number: str) -> None:
    text = f'{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"n":{number},"t":"\\ud800"}}}}'
    peer = Peer()
    events = receive(peer, text.encode())
    assert len(events) + len(sent(peer)) == 1


@pytest.mark.parametrize("depth", [*range(300, 1100, 50), 100_000])
def test_json_of_any_depth_is_accepted_or_rejected(depth: int) -> None:
    peer = Peer()
    params = b"[" * depth + b"]" * depth
    events = receive(peer, b'{"jsonrpc":"2.0","id":1,"method":"a","params":%b}' % params)
    answers = sent(peer)
    assert len(events) + len(answers) == 1
    assert [answer["error"]["code"] for answer in answers] in ([], [-32700])


def test_bad_frame_does_not_affect_other_frames() -> None:
    peer = Peer()
    events = receive(peer, frame(method="a"), b"{", frame(method="b"))
    assert [event.method for event in events] == ["a", "b"]
    assert len(sent(peer)) == 1


# Requests of this side.


def test_requests_are_numbered_from_0() -> None:
    peer = Peer()
    assert [asked(peer), asked(peer), asked(peer)] == [0, 1, 2]


def test_params_are_sent_absent_null_or_unchanged() -> None:
    peer = Peer()
    peer.request("a", ABSENT, None)
    peer.request("a", None, None)
    peer.notify("b", ABSENT)
    peer.notify("b", {"c": 1})
    assert sent(peer) == [
        {"jsonrpc": "2.0", "id": 0, "method": "a"},
        {"jsonrpc": "2.0", "id": 1, "method": "a", "params": None},
        {"jsonrpc": "2.0", "method": "b"},
        {"jsonrpc": "2.0", "method": "b", "params": {"c": 1}},
    ]


def test_request_that_cannot_be_encoded_is_not_sent() -> None:
    peer = Peer()
    with pytest.raises(TypeError):
        peer.request("a", object(), "lost")
    assert peer.receive_eof() == []
    assert asked(peer) == 0


def test_response_has_the_object_attached_to_the_request() -> None:
    peer = Peer()
    asked(peer, call="first")
    asked(peer, call="second")
    late, early = receive(peer, frame(id=1, result={"x": 1}), frame(id=0, result=None))
    assert (late.call, bytes(late.result)) == ("second", b'{"x": 1}')
    assert (early.call, bytes(early.result)) == ("first", b"null")
    assert late.message is None


@requirement("R-ERR-01")
@pytest.mark.parametrize("code", [-32000, 0, 42, 2**31 - 1])
def test_error_response_keeps_code_message_and_data(code: int) -> None:
    peer = Peer()
    asked(peer)
    error = {"code": code, "message": "No", "data": [1]}
    (answer,) = receive(peer, frame(id=0, error=error))
    assert (answer.code, answer.message, answer.data) == (code, "No", [1])


def test_response_with_a_result_and_a_null_error_succeeds() -> None:
    peer = Peer()
    asked(peer)
    (answer,) = receive(peer, frame(id=0, result=1, error=None))
    assert (answer.message, bytes(answer.result)) == (None, b"1")


@requirement("R-GEN-06", "R-ERR-04")
@pytest.mark.parametrize("request_id", [1, "x", "00", 0.5, None, False, [0]])
def test_response_with_an_unknown_id_is_ignored(request_id: Any) -> None:
    peer = Peer()
    asked(peer)
    (event,) = receive(peer, frame(id=request_id, result=1))
    assert type(event) is UnexpectedMessage
    assert sent(peer) == []
    assert peer.receive_eof() == ["call"]


@requirement("R-GEN-06", "R-ERR-04")
@pytest.mark.parametrize("request_id", ["0", 0.0])
def test_response_with_the_id_in_another_type_fails_the_call(request_id: Any) -> None:
    peer = Peer()
    asked(peer)
    (event,) = receive(peer, frame(id=request_id, result=1))
    assert type(event) is Response
    assert event.fault == f"the response has the id {json.dumps(request_id)}, the request has 0"
    assert peer.receive_eof() == []


@requirement("R-ERR-04")
def test_second_response_is_ignored() -> None:
    peer = Peer()
    asked(peer)
    first, second = receive(peer, frame(id=0, result=1), frame(id=0, result=2))
    assert (type(first), type(second)) == (Response, UnexpectedMessage)
    assert sent(peer) == []


@requirement("R-ERR-04")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"error": 7},
        {"error": {}},
        {"error": {"code": "1", "message": "m"}},
        {"error": {"code": 1}},
        {"error": {"code": 1.5, "message": "m"}},
        {"error": None},
        {"jsonrpc": "1.0", "result": 1},
        {"jsonrpc": None, "error": {"code": 1, "message": "m"}},
    ],
    ids=str,
)
def test_malformed_response_fails_the_request_and_is_not_answered(fields: Any) -> None:
    peer = Peer()
    asked(peer)
    (answer,) = receive(peer, frame({"jsonrpc": "2.0", "id": 0, **fields}))
    assert (type(answer), answer.call, answer.code) == (Response, "call", -32603)
    assert answer.message is not None
    assert sent(peer) == []


@requirement("R-ERR-04")
@pytest.mark.parametrize("fields", [{"result": 1}, {"error": {"code": 1, "message": "m"}}])
def test_response_without_an_id_is_never_answered(fields: Any) -> None:
    peer = Peer()
    (event,) = receive(peer, frame({"jsonrpc": "2.0", **fields}))
    assert type(event) is UnexpectedMessage
    assert sent(peer) == []


@requirement("R-GEN-13")
def test_both_directions_have_separate_ids() -> None:
    peer = Peer()
    asked(peer, call="ours")
    request, answer = receive(peer, frame(id=0, method="theirs"), frame(id=0, result="theirs"))
    assert (type(request), type(answer)) == (Message, Response)
    assert answer.call == "ours"


def test_end_of_input_returns_the_unanswered_requests() -> None:
    peer = Peer()
    for call in "abc":
        asked(peer, call=call)
    receive(peer, frame(id=1, result=1))
    assert peer.receive_eof() == ["a", "c"]
    assert peer.receive_eof() == []


def test_frames_are_taken_once_and_in_order() -> None:
    peer = Peer()
    receive(peer, frame(id="x", method="a"))
    peer.notify("one", ABSENT)
    peer.respond("x", {})
    peer.request("two", ABSENT, None)
    assert [m.get("method", "answer") for m in sent(peer)] == ["one", "answer", "two"]
    assert sent(peer) == []


# Cancelling.


@requirement("R-REQCAN-02")
def test_cancel_request_has_the_id_of_the_request() -> None:
    peer = Peer()
    asked(peer)
    peer.cancel(0)
    assert sent(peer) == [
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 0}}
    ]


def test_answered_or_unknown_request_is_not_cancelled() -> None:
    peer = Peer()
    asked(peer)
    receive(peer, frame(id=0, result=1))
    peer.cancel(0)
    peer.cancel(99)
    assert sent(peer) == []


@requirement("R-REQCAN-12", "R-PROMPT-36")
def test_late_response_to_an_abandoned_request_is_dropped() -> None:
    peer = Peer()
    asked(peer)
    peer.forget(0)
    first, second = receive(peer, frame(id=0, result=1), frame(id=0, result=1))
    assert (type(first), type(second)) == (UnexpectedMessage, UnexpectedMessage)
    assert peer.receive_eof() == []
    assert sent(peer) == []


@pytest.mark.parametrize("request_id", [3, "three", None])
def test_cancel_of_an_unanswered_request_is_an_event(request_id: Any) -> None:
    peer = Peer()
    cancel = frame(method="$/cancel_request", params={"requestId": request_id})
    _, event = receive(peer, frame(id=request_id, method="a"), cancel)
    assert event == CancelRequest(request_id)
    assert sent(peer) == []


@requirement("R-REQCAN-02", "R-REQCAN-06")
@pytest.mark.parametrize("request_id", [4, "3", None])
def test_cancel_of_an_unknown_request_is_ignored(request_id: Any) -> None:
    peer = Peer()
    for _ in range(5):
        asked(peer)
    cancel = frame(method="$/cancel_request", params={"requestId": request_id})
    assert len(receive(peer, frame(id=3, method="a"), cancel)) == 1
    assert sent(peer) == []


@requirement("R-REQCAN-06")
def test_cancel_of_an_answered_request_is_ignored() -> None:
    peer = Peer()
    receive(peer, frame(id=3, method="a"))
    peer.respond(3, {})
    assert receive(peer, frame(method="$/cancel_request", params={"requestId": 3})) == []


@requirement("R-GEN-05")
@pytest.mark.parametrize("params", [ABSENT, None, {}, [], {"requestId": 1.5}, {"requestId": []}])
def test_malformed_cancel_is_ignored(params: Any) -> None:
    peer = Peer()
    fields = {} if params is ABSENT else {"params": params}
    assert receive(peer, frame(id=3, method="a"), frame(method="$/cancel_request", **fields)) != []
    assert sent(peer) == []


# Arbitrary input.

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=5)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
IDS = st.integers(0, 3) | st.sampled_from(["0", "1", "\ud800"]) | st.none()
METHODS = st.sampled_from(["a", "$/cancel_request", "\ud800"])
# Almost valid messages: any part can be wrong or missing.
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | SCALARS,
        "id": IDS | JSON,
        "method": METHODS | JSON,
        "params": st.fixed_dictionaries({"requestId": IDS}) | JSON,
        "result": JSON,
        "error": st.fixed_dictionaries({"code": st.integers(), "message": st.text()}) | JSON,
    },
)
FRAMES = st.lists(
    st.binary(max_size=40)
    | st.sampled_from([b"NaN", b"[", b'{"jsonrpc":"2.0","id":1e400,"method":"a"}'])
    | (JSON | NEARLY).map(lambda value: json.dumps(value).encode())
    | NEARLY.map(lambda value: json.dumps({**value, "jsonrpc": "2.0"}).encode()),
    max_size=8,
)


@given(FRAMES)
def test_receiving_never_raises_and_all_output_is_json(frames: list[bytes]) -> None:
    peer = Peer()
    for call in range(3):
        peer.request("ask", ABSENT, call)
    answered: list[Any] = []
    for event in peer.receive(frames):
        if type(event) is Response:
            answered.append(event.call)
        elif type(event) is Message and event.id is not ABSENT:
            peer.respond(event.id, None)
    assert len(set(answered)) == len(answered)
    assert sorted([*answered, *peer.receive_eof()]) == [0, 1, 2]
    for message in sent(peer):
        assert message["jsonrpc"] == "2.0"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "tell"]),
            st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec=None)) | st.none(),
            JSON,
        )
    ),
    st.randoms(use_true_random=False),
)
def test_every_request_is_answered_exactly_once(
    messages: list[tuple[str, Any, Any]], random: Any
) -> None:
    peer = Peer()
    frames = [
        frame(id=request_id, method=kind, params=params) if kind == "ask" else frame(method=kind)
        for kind, request_id, params in messages
    ]
    events: list[Any] = [event for text in frames for event in peer.receive([text])]
    requests = [event for event in events if event.id is not ABSENT]
    random.shuffle(requests)
    for number, request in enumerate(requests):
        if number % 2:
            peer.respond(request.id, {})
        else:
            peer.fail(request.id, RequestError())
    answers = sent(peer)
    refused = sum(answer["id"] is None and "error" in answer for answer in answers)
    asked_ids = [(type(i), i) for kind, i, _ in messages if kind == "ask"]
    answered = [(type(answer["id"]), answer["id"]) for answer in answers]
    assert len(answers) == len(asked_ids)
    assert refused >= len(asked_ids) - len(set(asked_ids))
    assert set(answered) - {(type(None), None)} == set(asked_ids) - {(type(None), None)}
    assert peer.unanswered == 0


def test_byte_order_mark_is_skipped() -> None:
    peer = Peer()
    (event,) = peer.receive([b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}'])
    assert isinstance(event, Message)
    assert event.method == "m"


@requirement("R-ERR-03")
def test_parse_error_of_the_peer_is_logged_as_an_error() -> None:
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    (event,) = Peer().receive([error])
    assert isinstance(event, UnexpectedMessage)
    assert event.level == logging.WARNING


def test_error_code_can_be_written_with_a_point() -> None:
    peer = Peer()
    request = asked(peer)
    error = b'{"code":-32000.0,"message":"Log in"}'
    (answer,) = receive(peer, b'{"jsonrpc":"2.0","id":%d,"error":%b}' % (request, error))
    assert (answer.code, answer.message) == (-32000, "Log in")


@pytest.mark.parametrize("text", ["1.0", "1e0", "0.1e1"])
def test_id_to_cancel_can_be_written_with_a_point(text: str) -> None:
    peer = Peer()
    receive(peer, frame(id=1, method="a"))
    cancel = f'{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{text}}}}}'
    assert receive(peer, cancel.encode()) == [CancelRequest(1)]


@pytest.mark.parametrize(
    "params", ['{"requestId":1.5}', '{"requestId":[]}', "[]", "{", '{"requestId":1e400}']
)
def test_cancel_without_an_id_is_ignored(params: str) -> None:
    peer = Peer()
    receive(peer, frame(id=1, method="a"))
    text = f'{{"jsonrpc":"2.0","method":"$/cancel_request","params":{params}}}'
    assert receive(peer, text.encode()) == []
