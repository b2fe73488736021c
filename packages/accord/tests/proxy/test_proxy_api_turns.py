"""`Proxy.prompt` and `Proxy.update` in both versions."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

import accord
from accord import Proxy, ProxyTurn, RequestError
from accord.client.events import Event
from proxy.conversation import SESSION, Conversation, conversation
from requirement import requirement

both_versions = pytest.mark.parametrize("version", [1, 2])

Forward = Callable[[], Awaitable[str]]


class Plain(Proxy):
    """Overrides nothing."""


class Edits(Proxy):
    async def prompt(self, turn: ProxyTurn, forward: Forward) -> str:
        turn.prepend("before ")
        turn.append("after")
        assert await forward() == "end_turn"
        await turn.say("footer")
        return "refusal"


@both_versions
@requirement("R-PROXY-04", "R-PROXY-05", "R-PROXY-20")
async def test_what_is_not_overridden_passes_byte_for_byte(version: int) -> None:
    async with conversation(Plain().stage(), version=version) as talk:
        frame = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s" ,'
            b'"update":{"n":1.0,"sessionUpdate":"agent_message_chunk","messageId":"m",'
            b'"content":{"type":"text","text":"\\u0041"}}}}'
        )
        talk.ends.agent.write([frame])
        assert (await talk.ends.client_has(2))[1] == frame


@both_versions
@requirement("R-PROXY-05")
async def test_prompt_is_edited_and_unknown_fields_stay(version: int) -> None:
    async with conversation(Edits().stage(), version=version) as talk:
        talk.prompt(_meta={"k": "v"})
        asked = await talk.agent_gets()
        assert asked["params"] == {
            "sessionId": SESSION,
            "prompt": [
                {"type": "text", "text": "before "},
                {"type": "text", "text": "hello", "x": 1.0},
                {"type": "text", "text": "after"},
            ],
            "y": 2,
            "_meta": {"k": "v"},
        }
        talk.text("hi")
        await talk.end_turn(asked)
        seen: list[Any] = [await talk.client_gets() for _ in range(3 if version == 1 else 4)]
        texts = [m["params"]["update"]["content"]["text"] for m in seen if "content" in str(m)]
        assert texts == ["hi", "footer"]
        last = seen[-1]
        if version == 1:
            assert last["result"] == {"stopReason": "refusal", "z": 3}
        else:
            assert seen[1]["result"] == {"messageId": "u", "z": 3}
            update = last["params"]["update"]
            assert (update["state"], update["stopReason"], update["z"]) == ("idle", "refusal", 3)


class Answers(Proxy):
    async def prompt(self, turn: ProxyTurn, forward: Forward) -> str | None:
        match turn.command:
            case "wait":
                await turn.say("waiting")
                await asyncio.Event().wait()
            case "fail":
                raise RequestError("No", code=7)
            case "break":
                raise ValueError("a secret of the proxy")
            case "say":
                await turn.say(turn.argument)
                return None
            case _:
                pass
        return await forward()


@both_versions
@requirement("R-PROMPT-35")
async def test_proxy_answers_a_prompt_itself(version: int) -> None:
    async with conversation(Answers().stage(), version=version) as talk:
        asked = talk.prompt("/say  it now ")
        if version == 1:
            said, answer = [await talk.client_gets() for _ in range(2)]
            assert answer == {"jsonrpc": "2.0", "id": asked, "result": {"stopReason": "end_turn"}}
        else:
            seen = [await talk.client_gets() for _ in range(5)]
            kinds = [m["params"]["update"]["sessionUpdate"] for m in seen if "params" in m]
            assert sorted(kinds) == [
                "agent_message_chunk",
                "state_update",
                "state_update",
                "user_message",
            ]
            (answer,) = [m for m in seen if "result" in m]
            (echo,) = [m for m in seen if "user_message" in str(m)]
            assert answer["result"]["messageId"] == echo["params"]["update"]["messageId"]
            assert seen[-1]["params"]["update"]["stopReason"] == "end_turn"
            (said,) = [m for m in seen if "agent_message_chunk" in str(m)]
        assert said["params"]["update"]["content"]["text"] == "it now"
        assert len(talk.ends.at_agent.frames) == 1  # only `initialize`


@both_versions
@requirement("R-CANCEL-05")
async def test_cancel_ends_a_prompt_that_the_proxy_answers(version: int) -> None:
    async with conversation(Answers().stage(), version=version) as talk:
        talk.prompt("/wait")
        while "waiting" not in str(await talk.client_gets()):
            pass
        talk.tell_agent("session/cancel", {"sessionId": SESSION})
        assert await talk.turn_ended() == "cancelled"
        assert (await talk.agent_gets())["method"] == "session/cancel"


@both_versions
async def test_errors_of_prompt_reach_the_client(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with conversation(Answers().stage(), version=version) as talk:
        talk.prompt("/fail")
        assert (await talk.client_gets())["error"] == {"code": 7, "message": "No"}
        talk.prompt("/break")
        error = (await talk.client_gets())["error"]
        assert error == {
            "code": -32603,
            "message": "The proxy failed: Answers.prompt raised an exception",
        }
        (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
        assert record.exc_info is not None  # the traceback
        talk.prompt("to the agent")
        asked = await talk.agent_gets()
        talk.agent_fails(asked, {"code": -32000, "message": "Log in", "x": 1})
        assert (await talk.client_gets())["error"] == {"code": -32000, "message": "Log in", "x": 1}


class Repeats(Proxy):
    async def prompt(self, turn: ProxyTurn, forward: Forward) -> str:
        if await forward() == "max_tokens":
            turn.replace("again")
            return await forward()
        raise AssertionError


@both_versions
async def test_prompt_can_be_repeated(version: int) -> None:
    async with conversation(Repeats().stage(), version=version) as talk:
        talk.prompt()
        await talk.end_turn(await talk.agent_gets(), "max_tokens")
        asked = await talk.agent_gets()
        assert [block["text"] for block in asked["params"]["prompt"]] == ["again"]
        if version == 2:
            talk.update({"sessionUpdate": "state_update", "state": "running"})
        talk.text("better")
        await talk.end_turn(asked)
        assert await talk.turn_ended() == "end_turn"  # and not with the first idle state


async def test_repeated_prompt_that_is_refused_ends_the_turn() -> None:
    async with conversation(Repeats().stage(), version=2) as talk:
        talk.prompt()
        await talk.end_turn(await talk.agent_gets(), "max_tokens")
        talk.agent_fails(await talk.agent_gets(), {"code": 7, "message": "No"})
        assert "messageId" in (await talk.client_gets())["result"]
        got = (await talk.client_gets())["params"]["update"]
        assert got["state"] == "idle"
        assert got["error"] == {"code": 7, "message": "No"}


class ReturnsNumbers(Proxy):
    async def prompt(self, turn: ProxyTurn, forward: Forward) -> Any:
        return 42


@both_versions
async def test_wrong_result_of_prompt_names_the_method(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with conversation(ReturnsNumbers().stage(), version=version) as talk:
        talk.prompt()
        message = "The proxy failed: ReturnsNumbers.prompt raised an exception"
        assert (await talk.client_gets())["error"]["message"] == message
    assert "the result of ReturnsNumbers.prompt: expected" in caplog.text
    assert "42" in caplog.text


class DropsAll(Proxy):
    def update(self, event: Event) -> Event | None:
        return None


async def test_states_are_not_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with conversation(DropsAll().stage(), version=2) as talk:
        talk.prompt()
        asked = await talk.agent_gets()
        talk.update({"sessionUpdate": "state_update", "state": "running"})
        talk.text("dropped")
        await talk.end_turn(asked)
        assert await talk.turn_ended() == "end_turn"
    warned = [r for r in caplog.records if "DropsAll.update" in r.getMessage()]
    assert len(warned) == 1


# Updates.


class Filters(Proxy):
    def update(self, event: Event) -> Any:
        match event:
            case accord.Text(text="drop"):
                return None
            case accord.Text(text="raise"):
                raise ValueError("secret")
            case accord.Text(text="wrong"):
                return accord.Thought("x")
            case accord.Text(text="later"):
                return self.later(event)
            case accord.Text(text=text):
                return msgspec.structs.replace(event, text=text.upper())
            case accord.ToolCall():
                return msgspec.structs.replace(event, title="hidden", raw_input={"b": 1})
            case _:
                return event

    async def later(self, event: accord.Text) -> accord.Text:
        for _ in range(3):
            await asyncio.sleep(0)
        return msgspec.structs.replace(event, text="waited")


async def _texts(talk: Conversation, count: int) -> list[str]:
    return [(await talk.client_gets())["params"]["update"]["content"]["text"] for _ in range(count)]


@both_versions
@requirement("R-PROXY-05", "R-PROXY-18")
async def test_updates_are_changed_dropped_and_keep_their_order(version: int) -> None:
    async with conversation(Filters().stage(), version=version) as talk:
        talk.text("a", q=1.0, _meta={"k": 1})
        talk.text("drop")
        talk.text("later")
        talk.text("b")
        first = await talk.client_gets()
        assert first["params"]["update"]["content"]["text"] == "A"
        assert first["params"]["update"]["q"] == 1.0
        assert first["params"]["update"]["_meta"] == {"k": 1}
        assert await _texts(talk, 2) == ["waited", "B"]
        call = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "title": "rm",
            "rawInput": {"a": 1},
            "u": 1.0,
        }
        talk.update(call, w=1)
        got = (await talk.client_gets())["params"]
        assert got == {
            "sessionId": SESSION,
            "update": {**call, "title": "hidden", "rawInput": {"b": 1}},
            "w": 1,
        }
        talk.update({"sessionUpdate": "of_tomorrow", "n": 1.0})
        assert (await talk.client_gets())["params"]["update"] == {
            "sessionUpdate": "of_tomorrow",
            "n": 1.0,
        }


@both_versions
@pytest.mark.parametrize("text", ["raise", "wrong"])
async def test_update_that_raises_fails_the_turn_and_passes_nothing(
    version: int, text: str
) -> None:
    async with conversation(Filters().stage(), version=version) as talk:
        talk.prompt()
        asked = await talk.agent_gets()
        talk.text(text)
        assert await talk.agent_gets() == {
            "jsonrpc": "2.0",
            "method": "session/cancel",
            "params": {"sessionId": SESSION},
        }
        await talk.end_turn(asked, "cancelled")
        got = await talk.client_gets()
        if version == 2:
            got = (await talk.client_gets())["params"]["update"]
            assert got["stopReason"] == "error"
        assert got["error"]["message"] == "The proxy failed: Filters.update raised an exception"
        assert not any(f'"{text}"'.encode() in bytes(f) for f in talk.ends.at_client.frames)


class Swallows(Filters):
    async def prompt(self, turn: ProxyTurn, forward: Forward) -> str:
        with suppress(RequestError):
            await forward()
        return "end_turn"


@both_versions
async def test_prompt_that_catches_the_error_of_update_fails_all_the_same(version: int) -> None:
    async with conversation(Swallows().stage(), version=version) as talk:
        talk.prompt()
        asked = await talk.agent_gets()
        talk.text("raise")
        assert (await talk.agent_gets())["method"] == "session/cancel"
        await talk.end_turn(asked, "cancelled")
        got = await talk.client_gets()
        if version == 2:
            got = (await talk.client_gets())["params"]["update"]
        assert got["error"]["message"] == "The proxy failed: Swallows.update raised an exception"


class Works(Proxy):
    async def prompt(self, turn: ProxyTurn, forward: Forward) -> str:
        await forward()
        await turn.say("working")
        await asyncio.Event().wait()
        return "end_turn"


@both_versions
@requirement("R-CANCEL-05")
async def test_cancel_ends_what_a_proxy_does_after_the_turn_of_the_agent(version: int) -> None:
    async with conversation(Works().stage(), version=version) as talk:
        talk.prompt()
        await talk.end_turn(await talk.agent_gets())
        while "working" not in str(await talk.client_gets()):
            pass
        talk.tell_agent("session/cancel", {"sessionId": SESSION})
        assert await talk.turn_ended() == "cancelled"


class Follows(Proxy):
    async def prompt(self, turn: ProxyTurn, forward: Forward) -> str:
        reason = await forward()
        await turn.say(f"after {turn.text}")
        return reason


@requirement("R-PROMPT-22")
async def test_two_prompts_of_a_session_end_with_one_state() -> None:
    async with conversation(Follows().stage(), version=2) as talk:
        talk.prompt("one")
        first = await talk.agent_gets()
        talk.agent_answers(first, {"messageId": "u1"})
        talk.prompt("two")
        talk.agent_answers(await talk.agent_gets(), {"messageId": "u2"})
        assert [(await talk.client_gets())["result"]["messageId"] for _ in range(2)] == ["u1", "u2"]
        talk.update({"sessionUpdate": "state_update", "state": "running"})
        talk.idle(stopReason="end_turn")
        seen = [await talk.client_gets() for _ in range(4)]
        assert sorted(_said(seen)) == ["after one", "after two"]
        assert seen[-1]["params"]["update"]["state"] == "idle"


def _said(seen: list[dict[str, Any]]) -> list[str]:
    updates = [message["params"]["update"] for message in seen]
    return [u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"]


@pytest.mark.parametrize("others", [False, True], ids=["one-session", "two-sessions"])
async def test_updates_behind_the_end_of_a_turn_wait_and_keep_their_order(*, others: bool) -> None:
    """They are read with it, and `Proxy.prompt` has not returned (R-PROXY-18, R-PROXY-19)."""

    class Waits(Proxy):
        async def prompt(self, turn: ProxyTurn, forward: Any) -> Any:
            reason = await forward()
            await may_end.wait()
            return reason

    def text(session: str, number: int) -> dict[str, Any]:
        content = {"type": "text", "text": f"{session}{number}"}
        kind = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}
        return {"sessionId": session, "update": kind}

    def state(value: str) -> dict[str, Any]:
        more = {"stopReason": "end_turn"} if value == "idle" else {}
        return {
            "sessionId": "s",
            "update": {"sessionUpdate": "state_update", "state": value, **more},
        }

    may_end = asyncio.Event()
    notes = [state("running"), *(text("s", number) for number in range(9)), state("idle")]
    notes += [text("s", number) for number in range(9, 18)]
    if others:
        notes += [text("t", number) for number in range(9)]
    # A second state, and what follows it, wait with the first one.
    notes += [state("running"), text("s", 18), state("idle"), text("s", 19)]
    async with asyncio.timeout(10), conversation(Waits().stage(), version=2) as talk:
        talk.prompt()
        talk.agent_answers(await talk.agent_gets(), {"messageId": "u"})
        assert "messageId" in (await talk.client_gets())["result"]
        talk.ends.agent.write(
            [
                json.dumps(
                    {"jsonrpc": "2.0", "method": "session/update", "params": one},
                    separators=(",", ":"),
                ).encode()
                for one in notes
            ]
        )
        before = notes[:10] + ([one for one in notes if one["sessionId"] == "t"])
        got = [(await talk.client_gets())["params"] for _ in before]
        assert got == before
        may_end.set()
        after = [one for one in notes[10:] if one["sessionId"] == "s"]
        assert [(await talk.client_gets())["params"] for _ in after] == after
