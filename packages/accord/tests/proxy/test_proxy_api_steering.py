"""`Proxy.steer`: what the user says while a turn runs, on its way through proxies."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Agent, ClientSession, Proxy, ProxyTurn, RequestError, Steered, Turn, v1, v2
from accord.proxy.handlers import TypedStage
from accord.proxy.stage import Stage
from proxy.conversation import SESSION, Conversation, conversation

both_versions = pytest.mark.parametrize("version", [1, 2])

STEERING = "_session/steering"
ADVERTISED = {"steering": {"supported": True, "x": 1.0}, "other": 2.0}
Forward = Callable[[], Awaitable[Any]]


class Plain(Proxy):
    """Overrides nothing."""


class Checks(Proxy):
    """Handles prompts, and knows nothing of messages during a turn."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def prompt(self, turn: ProxyTurn, forward: Forward) -> Any:
        self.prompts.append(turn.text)
        turn.prepend("checked: ")
        return await forward()


class Edits(Checks):
    async def steer(self, turn: ProxyTurn, forward: Forward) -> Any:
        assert (turn.session_id, turn.cwd, turn.command) == (SESSION, "", None)
        turn.meta = {**(turn.meta or {}), "seen": True}
        turn.prepend("before ")
        turn.append("after")
        assert await forward() == "injected"


def _message(text: str = "faster", **more: Any) -> dict[str, Any]:
    block = {"type": "text", "text": text, "x": 1.0}
    return {"sessionId": SESSION, "prompt": [block], "y": 2, **more}


async def _advertised(talk: Conversation) -> Any:
    """Shake hands with an agent that can be steered; return the result that the client gets."""
    talk.ask_agent("initialize", {"protocolVersion": talk.version, "capabilities": {}})
    asked = await talk.agent_gets()
    result: dict[str, Any] = {"protocolVersion": talk.version, "x": 1.0, "_meta": ADVERTISED}
    if talk.version == 2:
        result |= {"info": {"name": "x", "version": "1"}, "capabilities": {}}
    talk.agent_answers(asked, result)
    return (await talk.client_gets())["result"], result


@both_versions
async def test_message_passes_byte_for_byte_where_it_is_not_overridden(version: int) -> None:
    async with conversation(Plain().stage(), version=version, initialize=False) as talk:
        seen, sent = await _advertised(talk)
        assert seen == sent
        params = b'{"sessionId":"s" ,"n":1.0,"prompt":[{"type":"text","text":"\\u0041"}]}'
        frame = b'{"jsonrpc":"2.0","id":7,"method":"%s","params":%s}'
        talk.ends.client.write([frame % (STEERING.encode(), params)])
        assert params in (await talk.ends.agent_has(2))[1]
        asked = await talk.agent_gets()
        answer = b'{"outcome" :"inject\\u0065d","n":1.0}'
        reply = b'{"jsonrpc":"2.0","id":%s,"result":%s}'
        talk.ends.agent.write([reply % (str(asked["id"]).encode(), answer)])
        assert answer in (await talk.ends.client_has(2))[1]


@both_versions
async def test_message_is_edited_and_unknown_fields_stay(version: int) -> None:
    async with conversation(Edits().stage(), version=version, initialize=False) as talk:
        seen, sent = await _advertised(talk)
        assert seen == sent
        talk.ask_agent(STEERING, _message(_meta={"k": "v"}))
        asked = await talk.agent_gets()
        texts = [
            {"type": "text", "text": "before "},
            {"type": "text", "text": "faster", "x": 1.0},
            {"type": "text", "text": "after"},
        ]
        meta = {"k": "v", "seen": True}
        assert asked["params"] == {"sessionId": SESSION, "prompt": texts, "y": 2, "_meta": meta}
        talk.agent_answers(asked, {"outcome": "injected", "z": 3})
        assert (await talk.client_gets())["result"] == {"outcome": "injected", "z": 3}


class Answers(Proxy):
    async def steer(self, turn: ProxyTurn, forward: Forward) -> Any:
        match turn.text:
            case "take":
                await turn.say("I have it")
                return None
            case "later":
                return "promptRequired"
            case "refuse":
                raise RequestError("No", code=7)
            case "break":
                raise ValueError("a secret of the proxy")
            case "lie":
                return "delivered"
            case "number":
                return 42
            case "ask":
                return "promptRequired" if await forward() is None else "injected"
            case _:
                return await forward()


@both_versions
async def test_proxy_answers_and_refuses_a_message(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {"code": -32603, "message": "The proxy failed: Answers.steer raised an exception"}
    outcomes: list[tuple[str, dict[str, Any]]] = [
        ("later", {"result": {"outcome": "promptRequired", "reason": "noRunningTurn"}}),
        ("refuse", {"error": {"code": 7, "message": "No"}}),
        ("break", {"error": broken}),
        ("lie", {"error": broken}),
        ("number", {"error": broken}),
    ]
    async with conversation(Answers().stage(), version=version) as talk:
        talk.ask_agent(STEERING, _message("take"))
        said = (await talk.client_gets())["params"]["update"]
        assert said["content"]["text"] == "I have it"
        assert ("messageId" in said) == (version == 2)
        assert (await talk.client_gets())["result"] == {"outcome": "injected"}
        for text, expected in outcomes:
            talk.ask_agent(STEERING, _message(text))
            answer = await talk.client_gets()
            assert {key: answer[key] for key in expected} == expected, text
        logged = [
            str(r.exc_info[1]) for r in caplog.records if r.levelno >= logging.ERROR and r.exc_info
        ]
        assert len(talk.ends.at_agent.frames) == 1  # only `initialize`
        assert "expected injected, startedNewTurn, promptRequired or None, got 'delivered'" in str(
            logged
        )
        # What the agent answers, with an outcome or without one, is the proxy's to judge.
        for text, result, expected in (
            ("ask", {}, {"outcome": "promptRequired", "reason": "noRunningTurn"}),
            ("ask", {"outcome": "startedNewTurn", "z": 3}, {"outcome": "injected"}),
            ("pass", {"a": 1.0}, {"a": 1.0}),
        ):
            talk.ask_agent(STEERING, _message(text))
            talk.agent_answers(await talk.agent_gets(), result)
            assert (await talk.client_gets())["result"] == expected
        talk.ask_agent(STEERING, _message("pass"))
        talk.agent_fails(await talk.agent_gets(), {"code": -32602, "message": "Empty", "x": 1})
        assert (await talk.client_gets())["error"] == {"code": -32602, "message": "Empty", "x": 1}


def _typed(version: int, **methods: Any) -> Stage:
    base: Any = v1.Proxy if version == 1 else v2.Proxy

    async def passes(self: Any, params: Any, forward: Any) -> Any:
        return await forward()

    return TypedStage(type("Typed", (base,), {"prompt": passes, **methods})())


@both_versions
async def test_proxy_of_prompts_is_not_bypassed(version: int) -> None:
    for stage in (Checks().stage(), _typed(version)):
        async with conversation(stage, version=version, initialize=False) as talk:
            seen, sent = await _advertised(talk)
            assert seen == {**sent, "_meta": {"other": 2.0}}
            talk.ask_agent(STEERING, _message())
            error = (await talk.client_gets())["error"]
            assert error["code"] == -32601
            assert "handles prompts only" in error["message"]
            assert len(talk.ends.at_agent.frames) == 1  # only `initialize`


@both_versions
async def test_typed_proxy_handles_a_message_as_an_extension(version: int) -> None:
    methods: list[str] = []

    async def extension_request(self: Any, method: str, params: Any, forward: Any) -> Any:
        methods.append(method)
        return await forward(params)

    stage = _typed(version, extension_request=extension_request)
    async with conversation(stage, version=version, initialize=False) as talk:
        seen, sent = await _advertised(talk)
        assert seen == sent
        talk.ask_agent(STEERING, _message())
        talk.agent_answers(await talk.agent_gets(), {"outcome": "injected"})
        assert (await talk.client_gets())["result"] == {"outcome": "injected"}
        assert methods == [STEERING]


async def test_both_hooks_of_an_extension_see_a_message_once() -> None:
    seen: list[str] = []

    class Both(Edits):
        async def extension_request(self, method: str, params: Any, forward: Any) -> Any:
            seen.append(method)
            return await forward(params)

    async with conversation(Both().stage()) as talk:
        talk.ask_agent(STEERING, _message())
        talk.agent_answers(await talk.agent_gets(), {"outcome": "injected"})
        assert (await talk.client_gets())["result"] == {"outcome": "injected"}
        talk.ask_agent("_other", {})
        talk.agent_answers(await talk.agent_gets(), 3)
        assert (await talk.client_gets())["result"] == 3
        assert seen == ["_other"]


# With Accord's client and agent.


class Listener(Agent):
    """Repeats what is said, until it hears `stop`; any other prompt than `listen` ends at once."""

    steering = True

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"[{turn.text}]")
        if not turn.text.endswith("listen"):
            return
        async for message in turn.steering():
            await turn.say(f"<{message.text}>")
            if message.text.endswith("stop"):
                return


@asynccontextmanager
async def session_of(*components: Any, version: Any) -> AsyncGenerator[tuple[Any, ClientSession]]:
    async with accord.connect(accord.chain(*components), versions=(version,)) as agent:
        yield agent, await agent.new_session("/")


def _texts(session: ClientSession) -> list[str]:
    return [item.text for item in session.transcript.items if isinstance(item, accord.Message)]


@both_versions
async def test_message_passes_a_chain_of_five_with_programs(version: int, tmp_path: Path) -> None:
    program = tmp_path / "polite.py"
    program.write_text(
        "import accord\n"
        "class Polite(accord.Proxy):\n"
        "    async def steer(self, turn, forward):\n"
        "        turn.prepend('please ')\n"
        "        assert await forward() == 'injected'\n"
        "Polite().run()\n"
    )
    passing = tmp_path / "passing.py"
    passing.write_text("import accord\naccord.Proxy().run()\n")
    polite, passes = [sys.executable, str(program)], [sys.executable, str(passing)]
    inner = [sys.executable, "-m", "accord", "chain", f"{sys.executable} {passing}"]
    parts = (Plain(), polite, passes, inner, Plain(), Listener)
    async with session_of(*parts, version=version) as (_, session):
        async with session.prompt("listen") as turn:
            assert await turn.steer("one") == Steered("injected")
            assert await turn.steer("stop") == Steered("injected")
            await turn.wait()
        said = "".join(_texts(session))
        assert "<please \none>" in said
        assert "<please \nstop>" in said


@both_versions
async def test_message_is_the_next_prompt_if_a_proxy_handles_prompts_only(version: int) -> None:
    checks = Checks()
    started = asyncio.Event()

    class Worker(Agent):
        steering = True

        async def prompt(self, turn: Turn) -> None:
            await turn.say(f"[{turn.text}]")
            if turn.text.endswith("work"):
                await started.wait()

    async with session_of(Plain(), checks, Plain(), Worker, version=version) as (agent, session):
        assert not agent.supports("steer")
        async with session.prompt("work") as turn:
            steered = await turn.steer("one")
            assert steered.outcome == "queued"
            started.set()
            await turn.wait()
        assert checks.prompts == ["work", "one"]
        assert "[checked: \none]" in "\n".join(_texts(session))


@both_versions
async def test_proxy_makes_a_message_the_next_prompt(version: int) -> None:
    class Commands(Checks):
        async def steer(self, turn: ProxyTurn, forward: Forward) -> Any:
            return "promptRequired" if turn.command else await forward()

    commands = Commands()
    async with session_of(commands, Listener, version=version) as (agent, session):
        async with session.prompt("listen") as turn:
            assert (await turn.steer("/help")).outcome == "queued"
            assert await agent.call_extension(
                STEERING, {"sessionId": session.id, "prompt": [{"type": "text", "text": "stop"}]}
            ) == {"outcome": "injected"}
            await turn.wait()
        assert commands.prompts == ["listen", "/help"]


async def test_message_is_shown_in_a_turn_whose_prompt_the_proxy_shows() -> None:
    class Announces(Proxy):
        async def prompt(self, turn: ProxyTurn, forward: Forward) -> Any:
            await turn.say("I begin. ")
            return await forward()

        async def steer(self, turn: ProxyTurn, forward: Forward) -> Any:
            return await forward()

    async with session_of(Announces(), Listener, version=2) as (_, session):
        async with session.prompt("listen") as turn:
            async for _ in turn:
                if "[listen]" in turn.text:
                    break
            assert await turn.steer("stop") == Steered("injected")
            await turn.wait()
        assert _texts(session) == ["listen", "I begin. ", "[listen]", "stop", "<stop>"]
