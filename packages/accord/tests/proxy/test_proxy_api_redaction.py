"""`redacted`: no secret passes, however it is split over the updates of a turn."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import PermissionRequest, Proxy, Text, ToolCall
from accord.client.events import Event
from accord.proxy.updates import SessionRedaction
from accord.text.redact import redactor
from accord.types.permission import PermissionOption
from proxy.conversation import Conversation, conversation

both_versions = pytest.mark.parametrize("version", [1, 2])
TEXT = st.text("abcd", max_size=6)
SECRETS = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=3)


@settings(max_examples=50)
@given(SECRETS, st.lists(st.tuples(TEXT, st.booleans())))
def test_no_secret_is_left_in_a_stream(secrets: list[str], parts: list[tuple[str, bool]]) -> None:
    found = redactor(secrets, "*")
    texts, data = found.text_stream(), found.data_stream()
    out, out_data = "", b""
    for text, flush in parts:
        out += texts.feed(text) + (texts.flush() if flush else "")
        out_data += data.feed(text.encode()) + (data.flush() if flush else b"")
    out += texts.flush()
    out_data += data.flush()
    whole = "".join(text for text, _ in parts)
    assert not any(secret in out for secret in secrets)
    assert out_data == out.encode()
    if not any(secret in whole for secret in secrets):
        assert out == whole  # nothing is lost


@settings(max_examples=50)
@given(SECRETS, TEXT)
def test_redacted_values_have_no_secret(secrets: list[str], text: str) -> None:
    found = redactor(secrets, "*")
    assert not any(secret in found.text(text) for secret in secrets)
    value = {text: [text, 1, None, {"x": text}], "id": text}
    clean = found.value(value, {"id"})
    assert clean["id"] == text
    assert clean[found.text(text)] == [found.text(text), 1, None, {"x": found.text(text)}]
    if not any(secret in text for secret in secrets):
        assert clean is value


class Redact(Proxy):
    def update(self, event: Event) -> Event:
        return event.redacted(["SECRET", 'a"b\n'])


async def _received(talk: Conversation, until: str) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    while True:
        got = await talk.client_gets()
        seen.append(got)
        if until in str(got):
            return seen


def _texts(seen: list[dict[str, Any]]) -> list[str]:
    updates = [m["params"]["update"] for m in seen if "params" in m]
    return [u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"]


@both_versions
async def test_secret_split_over_chunks_does_not_pass(version: int) -> None:
    async with conversation(Redact().stage(), version=version) as talk:
        talk.prompt()
        asked = await talk.agent_gets()
        for part in ("It is S", "EC", "RET, not SE", "CURE. The last is SECR"):
            talk.text(part, q=1.0)
        await talk.end_turn(asked)
        seen = await _received(talk, "stopReason")
        assert _texts(seen) == ["It is ", "[redacted], not ", "SECURE. The last is ", "SECR"]
        assert "SECR" in str(seen[:-1])  # before the end of the turn


@both_versions
async def test_text_is_released_before_another_event_and_the_rest_is_hidden(version: int) -> None:
    async with conversation(Redact().stage(), version=version) as talk:
        talk.text("key SEC")
        new = "tool_call" if version == 1 else "tool_call_update"
        talk.update({"sessionUpdate": new, "toolCallId": "SECRET-1", "title": "t"})
        talk.text("RET.")
        seen = await _received(talk, "[redacted].")
        assert _texts(seen) == ["key ", "SEC", "[redacted]."]
        assert seen[2]["params"]["update"]["toolCallId"] == "SECRET-1"  # an id is not changed


@both_versions
async def test_secrets_are_found_in_all_fields_of_an_update(version: int) -> None:
    async with conversation(Redact().stage(), version=version) as talk:
        talk.update(
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "t",
                "title": "SECRET",
                "rawInput": {"SECRET": ['a"b\n']},
                "content": [{"type": "content", "content": {"type": "text", "text": "xSECRET"}}],
                "unknown": {"deep": ["SECRET"]},
                "n": 1.0,
            },
            _meta={"k": "SECRET"},
        )
        got = (await talk.client_gets())["params"]
        mask = "[redacted]"
        assert got["update"] == {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "title": mask,
            "rawInput": {mask: [mask]},
            "content": [{"type": "content", "content": {"type": "text", "text": "x" + mask}}],
            "unknown": {"deep": [mask]},
            "n": 1.0,
        }
        assert got["_meta"] == {"k": mask}
        talk.ends.agent.write(
            [
                b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s",'
                b'"update":{"sessionUpdate":"of_tomorrow","x":"\\u0053ECRET"}}}'
            ]
        )
        assert (await talk.client_gets())["params"]["update"]["x"] == mask


@both_versions
async def test_updates_that_cannot_be_read_have_no_secret(version: int) -> None:
    async with conversation(Redact().stage(), version=version) as talk:
        chunk = {"sessionUpdate": "agent_message_chunk", "messageId": 1, "content": ["SECRET"]}
        talk.update(chunk)
        talk.update(chunk, session=5)  # type: ignore[arg-type]  # of no session: dropped
        talk.ask_client("other", {})
        got = await talk.client_gets()
        assert got["params"]["update"] == {**chunk, "content": ["[redacted]"]}
        assert (await talk.client_gets())["method"] == "other"


class RedactTwice(Proxy):
    def update(self, event: Event) -> Event:
        return event.redacted("abcX").redacted("bc!")


@both_versions
@pytest.mark.parametrize("ends", ["event", "message", "turn"])
async def test_text_that_one_redaction_releases_passes_the_next_one(
    version: int, ends: str
) -> None:
    """The first one holds back `abc`; the second one would hold back `bc` until `!` comes."""
    async with conversation(RedactTwice().stage(), version=version) as talk:
        talk.prompt()
        asked = await talk.agent_gets()
        talk.text("abc")
        if ends == "event":
            new = "tool_call" if version == 1 else "tool_call_update"
            talk.update(
                {"sessionUpdate": new, "toolCallId": "1", "title": "abcX", "new": "bc! abcX"}
            )
        if ends == "message":
            talk.text("!", messageId="m2")
        else:
            talk.text("!")
        await talk.end_turn(asked)
        seen = await _received(talk, "stopReason")
        shown = "".join(_texts(seen))
        assert "bc!" not in shown
        assert "bc" not in shown or ends != "turn"
        assert "abcX" not in str(seen)
        assert "bc!" not in str(seen)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(TEXT, st.booleans(), st.sampled_from("AB"))),
    SECRETS,
    SECRETS,
)
def test_no_secret_of_two_redactions_is_left(
    parts: list[tuple[str, bool, str]], first: list[str], second: list[str]
) -> None:
    session, shown, whole = SessionRedaction(), "", ""
    found = redactor(first, "*"), redactor(second, "*")
    for text, interrupts, message in parts:
        if interrupts:
            shown += "".join(event.text for event in session.end_turn())
        session.start(is_tool_content=False)
        event: Any = Text(text, message)
        for each in found:
            part = session.redacted_part(event, each)
            event = event if part is None else Text(part[1], message)
        shown += "".join(released.text for released in session.flush()) + event.text
        whole += text
    shown += "".join(event.text for event in session.end_turn())
    assert not any(secret in shown for secret in (*first, *second))
    if not any(secret in whole for secret in (*first, *second)):
        assert shown == whole


async def test_output_of_terminals_is_redacted() -> None:
    async with conversation(Redact().stage(), version=2) as talk:
        for piece in (b"x SEC", b"RET y"):
            data = base64.b64encode(piece).decode()
            talk.update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data})
        parts = [(await talk.client_gets())["params"]["update"]["data"] for _ in range(2)]
        assert b"".join(map(base64.b64decode, parts)) == b"x [redacted] y"


def test_events_and_requests_are_redacted_without_a_proxy() -> None:
    assert Text("my SECRET").redacted("SECRET", mask="…") == Text("my …")
    call = ToolCall(id="SECRET", title="SECRET", raw_input={"k": ["SECRET"]})
    request = PermissionRequest(
        session_id="s",
        cwd="/",
        title="SECRET",
        options=(PermissionOption("SECRET", "SECRET", "allow_once"),),
        tool_call=call,
    )
    clean = request.redacted(["SECRET"])
    assert clean.title == "[redacted]"
    assert clean.options == (PermissionOption("SECRET", "[redacted]", "allow_once"),)
    assert clean.tool_call == ToolCall(
        id="SECRET", title="[redacted]", raw_input={"k": ["[redacted]"]}
    )
    assert Text("x").redacted([]) == Text("x")
    with pytest.raises(TypeError, match="expected strings, got a int"):
        Text("x").redacted([1])  # type: ignore[list-item]


def _shown(content: Any) -> str:
    return content["content"]["text"] if content["type"] == "content" else content["text"]


def _tool_text(text: str, tool: str = "t") -> dict[str, Any]:
    block = {"type": "content", "content": {"type": "text", "text": text}}
    return {"sessionUpdate": "tool_call_content_chunk", "toolCallId": tool, "content": block}


async def test_chunks_of_the_content_of_a_tool_call_are_one_stream() -> None:
    async with conversation(Redact().stage(), version=2) as talk:
        for part in ("out SEC", "RET z", " SE", "CURE S"):
            talk.update(_tool_text(part))
        talk.update(_tool_text("ECRET", tool="other"))
        talk.update(_tool_text("ECRET."))
        seen = [m["params"]["update"] for m in await _received(talk, "[redacted].")]
        texts = [(update["toolCallId"], _shown(update["content"])) for update in seen]
        assert texts == [
            ("t", "out "),
            ("t", "[redacted] z"),
            ("t", " "),
            ("t", "SECURE "),
            ("t", "S"),
            ("other", "ECRET"),
            ("t", "[redacted]."),
        ]
        talk.update(_tool_text("S"))  # nothing passes yet
        talk.text(".")
        seen = [m["params"]["update"] for m in await _received(talk, "'.'")]
        assert [_shown(update["content"]) for update in seen] == ["S", "."]


@both_versions
@pytest.mark.parametrize("interrupted_by", ["agent_thought_chunk", "nothing"])
async def test_rest_of_a_secret_is_hidden_in_the_next_message(
    version: int, interrupted_by: str
) -> None:
    async with conversation(Redact().stage(), version=version) as talk:
        talk.text("key SEC", messageId="m1")
        if interrupted_by != "nothing":
            talk.update(
                {
                    "sessionUpdate": interrupted_by,
                    "messageId": "m2",
                    "content": {"type": "text", "text": "…"},
                }
            )
        talk.text("RET tail", messageId="m3")
        seen = [m["params"]["update"] for m in await _received(talk, "tail")]
        texts = [(update["messageId"], _shown(update["content"])) for update in seen]
        thought = [("m2", "…")] if interrupted_by != "nothing" else []
        assert texts == [("m1", "key "), ("m1", "SEC"), *thought, ("m3", "[redacted] tail")]
