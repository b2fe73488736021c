"""Secrets in pieces: nothing of them stays, everything else stays as it was, in its order."""

from __future__ import annotations

import base64
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord_fleet.recording import text_in, with_text
from accord_fleet.redaction import SplitSecrets

SECRETS = ("ababcabd", "abcabcab", "babd")
PIECES = st.lists(
    st.tuples(st.sampled_from("xy"), st.text(st.sampled_from("abcd"), max_size=6)), max_size=40
)


def passed(pieces: list[tuple[str, str]], values: tuple[str, ...] = SECRETS) -> list[str]:
    """Return the texts that come out."""
    out: list[tuple[int, str | None]] = []
    split = SplitSecrets(values, "#", lambda item, text: out.append((item, text)))
    for number, (stream, text) in enumerate(pieces):
        split.add(number, len(text), stream=stream, text=text)
    split.flush()
    assert [number for number, _ in out] == [*range(len(pieces))]
    return [
        text if changed is None else changed
        for (_, changed), (_, text) in zip(out, pieces, strict=True)
    ]


@given(PIECES)
def test_streams_are_what_they_are_without_secrets_as_a_whole(
    pieces: list[tuple[str, str]],
) -> None:
    texts = passed(pieces)
    for stream in "xy":
        given_text = "".join(text for name, text in pieces if name == stream)
        out = "".join(text for (name, _), text in zip(pieces, texts, strict=True) if name == stream)
        if not any(value in given_text for value in SECRETS):
            assert out == given_text
        assert not any(value in out for value in SECRETS)
        assert re.sub("[^#]", "", out) <= "#" * len(given_text)


@given(st.lists(st.integers(1, 5), max_size=20), st.text(st.sampled_from("xyz")))
def test_secret_in_any_pieces_is_one_mark(sizes: list[int], around: str) -> None:
    secret = "sk-0123456789-abcdef"
    text, at = f"{around}{secret}{around}", 0
    pieces: list[tuple[str, str]] = []
    for size in [*sizes, len(text)]:
        pieces += [("x", text[at : at + size]), ("y", "other")]
        at += size
    texts = passed(pieces, (secret,))
    assert "".join(texts[::2]) == f"{around}#{around}"
    assert texts[1::2] == ["other"] * (len(pieces) // 2)


def test_what_waits_is_bounded_and_the_rest_of_the_secret_is_removed() -> None:
    out: list[str] = []
    split = SplitSecrets(("secret-value",), "#", lambda item, text: out.append(text or item))
    split.add("sec", 3, stream="x", text="sec")
    for _ in range(20):
        split.add("o", 100_000)
    assert out[:2] == ["sec", "o"]
    split.add("ret-value.", 10, stream="x", text="ret-value.")
    split.flush()
    assert out[-1] == "#."


def update(**fields: object) -> bytes:
    params = {"sessionId": "s", "update": fields}
    return msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params})


BLOCK = {"type": "text", "text": "piece"}
OUTPUT = base64.b64encode(b"piece").decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"sessionUpdate": "agent_message_chunk", "content": BLOCK},
        {"sessionUpdate": "agent_thought_chunk", "messageId": "m", "content": BLOCK},
        {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": "c",
            "content": {"type": "content", "content": BLOCK},
        },
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": OUTPUT},
        {"sessionUpdate": "terminal_update", "terminalId": "t", "output": {"data": OUTPUT}},
    ],
    ids=lambda fields: str(fields["sessionUpdate"]),
)
def test_pieces_of_messages(fields: dict[str, object]) -> None:
    found = text_in(update(**fields))
    assert found is not None
    assert found.text == "piece"
    changed = with_text(update(**fields), "other")
    again = text_in(changed)
    assert again is not None
    assert again == (found.stream, "other")
    assert with_text(changed, "piece") == update(**fields)


@pytest.mark.parametrize(
    "frame",
    [
        b"{",
        b'_chunk"',
        b'[{"params": {"update": "agent_message_chunk"}}]',
        update(sessionUpdate="agent_message_chunk", content={"type": "image", "data": "!"}),
        update(sessionUpdate="tool_call", content=[BLOCK]),
        update(sessionUpdate="plan_chunk"),
    ],
)
def test_other_messages_have_none(frame: bytes) -> None:
    assert text_in(frame) is None
