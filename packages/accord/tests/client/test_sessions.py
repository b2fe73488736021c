"""Sessions: open, list, change and close them; login."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import (
    AuthRequired,
    AvailableCommand,
    BooleanOption,
    ClientSession,
    LocalProtocolError,
    McpServerHttp,
    McpServerStdio,
    NotOffered,
    OptionsChanged,
    RequestError,
    SelectOption,
    Text,
    UserText,
)
from client.wire_agents import BOTH, agent_by_hand, update
from quirk import quirk
from raw_peer import RawPeer
from requirement import requirement

V1_OFFERS = {
    "loadSession": True,
    "mcpCapabilities": {"http": True},
    "promptCapabilities": {"image": True},
    "sessionCapabilities": {
        "list": {},
        "resume": {},
        "close": {},
        "delete": {},
        "fork": {},
        "additionalDirectories": {},
    },
    "auth": {"logout": {}},
}
V2_OFFERS = {
    "session": {
        "delete": {},
        "fork": {},
        "additionalDirectories": {},
        "prompt": {"image": {}},
        "mcp": {"http": {}, "stdio": {}},
    },
}
LOGINS = {
    1: [{"id": "a", "name": "A"}, {"id": "t", "name": "T", "type": "terminal", "args": ["login"]}],
    2: [
        {"methodId": "a", "name": "A", "type": "agent"},
        {"methodId": "t", "name": "T", "type": "terminal", "args": ["login"]},
    ],
}


def by_hand(version: int, **options: Any) -> Any:
    offers = V1_OFFERS if version == 1 else V2_OFFERS
    key = "agentCapabilities" if version == 1 else "capabilities"
    more = {key: offers, "authMethods": LOGINS[version]}
    return agent_by_hand(version, initialize=more, **options)


async def answering(raw: RawPeer, call: Any, result: Any, *updates: Any) -> tuple[Any, Any]:
    """Make a call and send its response; return the request and the result."""
    running = asyncio.ensure_future(call)
    request = await raw.get()
    session_id = request["params"].get("sessionId")
    for each in updates:
        raw.tell("session/update", {"sessionId": session_id, "update": each})
    raw.answer(request["id"], result)
    return request, await running


def said(kind: str, text: str, message_id: str) -> Any:
    return {
        "sessionUpdate": f"{kind}_message_chunk",
        "messageId": message_id,
        "content": {"type": "text", "text": text},
    }


@requirement("R-SESS-03", "R-GEN-01", "R-DIR-02")
@BOTH
async def test_directories_are_made_absolute(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    async with by_hand(version) as (agent, raw):
        opening = agent.new_session("sub", additional_directories=["other"])
        request, session = await answering(raw, opening, {"sessionId": "s1"})
    assert request["params"]["cwd"] == str(tmp_path / "sub")
    assert request["params"]["additionalDirectories"] == [str(tmp_path / "other")]
    assert session.directories == (str(tmp_path / "sub"), str(tmp_path / "other"))


@requirement("R-MCP-05")
@BOTH
async def test_mcp_servers_are_sent(version: int) -> None:
    servers = [
        McpServerStdio("a", "/bin/a", ("-x",), {"K": "v"}),
        McpServerHttp("b", "https://b", {"H": "v"}),
    ]
    async with by_hand(version) as (agent, raw):
        opening = agent.new_session("/", mcp_servers=servers)
        request, _ = await answering(raw, opening, {"sessionId": "s1"})
    stdio, http = request["params"]["mcpServers"]
    assert stdio["env"] == [{"name": "K", "value": "v"}]
    assert stdio["args"] == ["-x"]
    assert (http["type"], http["headers"]) == ("http", [{"name": "H", "value": "v"}])


@requirement("R-SESS-17", "R-SESS-27")
@BOTH
async def test_loaded_session_has_its_history(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        history = [said("user", "Hi", "1"), said("agent", "Hello", "2")]
        loading = agent.load_session("old", "/work")
        request, session = await answering(raw, loading, {}, *history)
        again = agent.load_session("old", "/work")
        _, reloaded = await answering(raw, again, {}, *history)
    if version == 1:
        assert request["method"] == "session/load"
    else:
        assert request["method"] == "session/resume"
        assert request["params"]["replayFrom"] == {"type": "start"}
    for each in (session, reloaded):
        assert [(m.role, m.text) for m in each.transcript.messages] == [
            ("user", "Hi"),
            ("agent", "Hello"),
        ]


@BOTH
async def test_session_is_resumed_without_history_on_request(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        request, session = await answering(raw, agent.load_session("old", "/", replay=False), {})
    assert request["method"] == "session/resume"
    assert "replayFrom" not in request["params"]
    assert session.id == "old"


@requirement("R-SESS-24")
@BOTH
async def test_forked_session_is_a_new_session(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        request, session = await answering(raw, agent.fork_session("old"), {"sessionId": "new"})
    assert request["method"] == "session/fork"
    assert session.id == "new"


@requirement("R-LIST-04", "R-LIST-05")
@BOTH
async def test_listing_requests_page_after_page(version: int) -> None:
    async with by_hand(version) as (agent, raw):

        async def collect() -> list[str]:
            return [listing.id async for listing in agent.list_sessions("/work")]

        running = asyncio.create_task(collect())
        pages = [("a", "c1"), ("b", "c2"), ("c", None)]
        cursors = []
        for session_id, cursor in pages:
            request = await raw.get()
            assert request["params"]["cwd"] == "/work"
            cursors.append(request["params"].get("cursor"))
            info = {"sessionId": session_id, "cwd": "/work"}
            raw.answer(request["id"], {"sessions": [info], "nextCursor": cursor})
        assert await running == ["a", "b", "c"]
    assert cursors == [None, "c1", "c2"]


@quirk("unknown-session-closed")
@requirement("R-SESS-31")
@BOTH
async def test_closing_and_deleting_a_missing_session_succeeds(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        _, session = await answering(raw, agent.new_session("/"), {"sessionId": "s1"})
        request, _ = await answering(raw, session.close(), {})
        assert request["method"] == "session/close"
        deleting = asyncio.create_task(agent.delete_session("s1"))
        request = await raw.get()
        error = {"code": -32002, "message": "Gone"}
        raw.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        await deleting


@requirement("R-SESS-07", "R-LIST-01")
async def test_unsupported_method_is_not_called() -> None:
    async with agent_by_hand(1) as (agent, _raw):
        assert not agent.supports("load_session")
        assert not agent.supports_content("image")
        with pytest.raises(NotOffered):
            await agent.load_session("old")
        with pytest.raises(NotOffered):
            await anext(agent.list_sessions())


@requirement("R-MCP-01")
@BOTH
async def test_supported_mcp_servers_are_known(version: int) -> None:
    stdio = accord.McpServerStdio("a", "/bin/a")
    servers = (
        stdio,
        accord.McpServerHttp("b", "https://b.example"),
        accord.McpServerSse("c", "https://c.example"),
        accord.McpServerAcp("d", "d"),
    )
    async with agent_by_hand(version) as (agent, _raw):
        expected = [stdio] if version == 1 else []  # all agents of version 1 can
        assert [one for one in servers if agent.supports_mcp_server(one)] == expected
    offered = {"http": True, "sse": True} if version == 1 else {"http": {}, "stdio": {}}
    shown: dict[str, Any] = {"agentCapabilities": {"mcpCapabilities": offered}}
    if version == 2:
        shown = {"capabilities": {"session": {"mcp": offered}}}
    async with agent_by_hand(version, initialize=shown) as (agent, _raw):
        supported = "abc" if version == 1 else "ab"
        assert "".join(one.name for one in servers if agent.supports_mcp_server(one)) == supported


@BOTH
async def test_supported_methods_are_known(version: int) -> None:
    async with by_hand(version) as (agent, _raw):
        assert agent.info.name == "raw"
        assert agent.version == version
        assert agent.supports("load_session")
        assert agent.supports_content("image")
        assert agent.supports_content("text")
        assert not agent.supports_content("audio")


@BOTH
async def test_login_and_logout(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        own, terminal = agent.auth_methods
        assert (own.id, own.terminal) == ("a", False)
        assert (terminal.id, terminal.terminal, terminal.args) == ("t", True, ("login",))
        opening = asyncio.create_task(agent.new_session("/"))
        error = {"code": -32000, "message": "Log in"}
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": error})
        with pytest.raises(AuthRequired):
            await opening
        request, _ = await answering(raw, agent.authenticate("a"), {})
        assert request["params"] == {"methodId": "a"}
        with pytest.raises(LocalProtocolError):
            await agent.authenticate("t")
        await answering(raw, agent.logout(), {})


# Options and modes.


def select(version: int, value: str, **more: Any) -> Any:
    return {
        "id" if version == 1 else "configId": "speed",
        "name": "Speed",
        "type": "select",
        "currentValue": value,
        "options": [{"value": "fast", "name": "Fast"}, {"value": "slow", "name": "Slow"}],
        **more,
    }


def switch(version: int, value: bool) -> Any:
    key = "id" if version == 1 else "configId"
    return {key: "loud", "name": "Loud", "type": "boolean", "currentValue": value}


async def with_options(agent: Any, raw: RawPeer, *options: Any, **more: Any) -> ClientSession:
    answer = {"sessionId": "s1", "configOptions": list(options), **more}
    return (await answering(raw, agent.new_session("/"), answer))[1]


@requirement("R-CONF-04", "R-CONF-07", "R-CONF-09", "R-CONF-10")
@BOTH
async def test_options_are_set_and_replaced_by_the_response(version: int) -> None:
    async with by_hand(version) as (agent, raw):
        session = await with_options(agent, raw, select(version, "fast"), switch(version, False))
        slow = {"configOptions": [select(version, "slow"), switch(version, True)]}
        request, _ = await answering(raw, session.set_option("speed", "slow"), slow)
        assert request["params"]["value"] == "slow"
        assert request["params"].get("type") == (None if version == 1 else "id")
        request, _ = await answering(raw, session.set_option("loud", True), slow)
        assert (request["params"]["type"], request["params"]["value"]) == ("boolean", True)
        speed, loud = session.transcript.options
        assert isinstance(speed, SelectOption)
        assert isinstance(loud, BooleanOption)
        assert (speed.value, loud.value) == ("slow", True)
        with pytest.raises(LocalProtocolError):
            await session.set_option("unknown", "x")
        with pytest.raises(LocalProtocolError):
            await session.set_mode("code")


@requirement("R-MODE-02", "R-MODE-04")
async def test_modes_of_v1_are_an_option() -> None:
    modes = {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
    }
    async with by_hand(1) as (agent, raw):
        answer = {"sessionId": "s1", "modes": modes}
        _, session = await answering(raw, agent.new_session("/"), answer)
        assert session.transcript.mode == "ask"
        request, _ = await answering(raw, session.set_mode("code"), {})
        assert request["method"] == "session/set_mode"
        assert session.transcript.mode == "code"
        request, _ = await answering(raw, session.set_option("mode", "ask"), {})
        assert request["method"] == "session/set_mode"
        assert session.transcript.mode == "ask"


@requirement("R-MODE-04")
async def test_mode_option_takes_precedence_over_modes() -> None:
    modes = {"currentModeId": "x", "availableModes": [{"id": "x", "name": "X"}]}
    async with by_hand(1) as (agent, raw):
        option = select(1, "fast", category="mode")
        session = await with_options(agent, raw, option, modes=modes)
        assert session.transcript.mode == "fast"
        slow = {"configOptions": [select(1, "slow", category="mode")]}
        request, _ = await answering(raw, session.set_mode("slow"), slow)
        assert request["method"] == "session/set_config_option"
        assert session.transcript.mode == "slow"


@requirement("R-MODE-04")
@quirk("mode-without-category")
async def test_option_with_the_id_mode_is_the_mode_without_a_category() -> None:
    modes = {"currentModeId": "x", "availableModes": [{"id": "x", "name": "X"}]}
    async with by_hand(1) as (agent, raw):
        option = {**select(1, "fast"), "id": "mode"}
        session = await with_options(agent, raw, option, modes=modes)
        assert [option.id for option in session.transcript.options] == ["mode"]
        assert session.transcript.mode == "fast"
        slow = {"configOptions": [{**select(1, "slow"), "id": "mode"}]}
        request, _ = await answering(raw, session.set_mode("slow"), slow)
        assert request["method"] == "session/set_config_option"
        assert session.transcript.mode == "slow"


MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}


@requirement("R-MODE-02", "R-CONF-13", "R-CONF-14")
@pytest.mark.parametrize("kind", ["select", "boolean"])
async def test_modes_and_an_option_of_another_category_with_the_id_mode(kind: str) -> None:
    """Both can be set by their ids, and the modes stay if the agent sends its options again."""

    def option(value: str) -> Any:
        if kind == "boolean":
            return {**switch(1, value == "slow"), "id": "mode", "category": "thought_level"}
        return {**select(1, value), "id": "mode", "category": "thought_level"}

    def shown(value: str) -> Any:
        return value if kind == "select" else value == "slow"

    async with by_hand(1) as (agent, raw):
        session = await with_options(agent, raw, option("fast"), modes=MODES)

        def values() -> dict[str, Any]:
            assert len({one.id for one in session.transcript.options}) == 2
            return {one.id: one.value for one in session.transcript.options}

        assert values() == {"session_mode": "ask", "mode": shown("fast")}
        request, _ = await answering(raw, session.set_mode("code"), {})
        assert request["method"] == "session/set_mode"
        slow = {"configOptions": [option("slow")]}
        request, _ = await answering(raw, session.set_option("mode", shown("slow")), slow)
        assert request["method"] == "session/set_config_option"
        assert request["params"]["configId"] == "mode"
        assert values() == {"session_mode": "code", "mode": shown("slow")}
        request, _ = await answering(raw, session.set_option("session_mode", "ask"), {})
        assert request["method"] == "session/set_mode"
        assert values() == {"session_mode": "ask", "mode": shown("slow")}
        async with session.events() as events:
            fast = [option("fast")]
            raw.tell(*update("s1", sessionUpdate="config_option_update", configOptions=fast))
            assert isinstance(await anext(events), OptionsChanged)
            assert values() == {"session_mode": "ask", "mode": shown("fast")}


@requirement("R-MODE-04", "R-CONF-04")
async def test_mode_option_that_comes_later_replaces_the_modes() -> None:
    async with by_hand(1) as (agent, raw):
        session = await with_options(agent, raw, select(1, "fast"), modes=MODES)
        assert [one.id for one in session.transcript.options] == ["mode", "speed"]
        later = [select(1, "slow", category="mode")]
        async with session.events() as events:
            raw.tell(*update("s1", sessionUpdate="config_option_update", configOptions=later))
            await anext(events)
        assert [one.id for one in session.transcript.options] == ["speed"]
        assert session.transcript.mode == "slow"


@quirk("set-model", "options-not-returned")
async def test_early_models_are_an_option() -> None:
    known = [{"modelId": name, "name": name} for name in ("m", "n")]
    models = {"currentModelId": "m", "availableModels": known}
    async with by_hand(1) as (agent, raw):
        answer = {"sessionId": "s1", "models": models}
        _, session = await answering(raw, agent.new_session("/"), answer)
        (option,) = session.transcript.options
        assert (option.category, option.value) == ("model", "m")
        request, _ = await answering(raw, session.set_option(option.id, "n"), {})
        assert request["method"] == "session/set_model"
        assert [option.value for option in session.transcript.options] == ["n"]


@quirk("options-not-returned")
@pytest.mark.parametrize("sent", ["nothing", "before", "after"])
async def test_option_that_was_set_is_not_stale(sent: str) -> None:
    """The options that the agent sends apply, whenever it sends them."""

    def options(*values: str) -> list[Any]:
        choices = [{"value": value, "name": value} for value in ("a", "b", "c")]
        return [
            {"id": f"o{n}", "name": "O", "type": "select", "currentValue": v, "options": choices}
            for n, v in enumerate(values)
        ]

    async with by_hand(1) as (agent, raw):
        opened = {"sessionId": "s1", "configOptions": options("a", "a")}
        _, session = await answering(raw, agent.new_session("/"), opened)
        update = {"sessionUpdate": "config_option_update", "configOptions": options("c", "b")}
        setting = session.set_option("o1", "b")
        before = [update] if sent == "before" else []
        answer = {"configOptions": options("c", "b") if sent == "after" else []}
        await answering(raw, setting, answer, *before)
        values = [option.value for option in session.transcript.options]
        assert values == (["a", "b"] if sent == "nothing" else ["c", "b"])


STATE = {"sessionUpdate": "session_info_update", "title": "Old"}
HISTORY = {
    1: [
        said("user", "Hi", "1"),
        said("agent", "Hello", "2"),
        {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "completed"},
        STATE,
    ],
    2: [
        said("user", "Hi", "1"),
        said("agent", "Hello", "2"),
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "T"},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "aGk="},
        STATE,
    ],
}


@quirk("replay-on-resume")
@requirement("R-SESS-12")
@pytest.mark.parametrize(
    ("version", "offers", "method"),
    [
        (1, {"loadSession": True}, "session/load"),
        (1, V1_OFFERS, "session/resume"),
        (2, V2_OFFERS, "session/resume"),
    ],
)
async def test_unrequested_history_is_dropped(version: int, offers: Any, method: str) -> None:
    key = "agentCapabilities" if version == 1 else "capabilities"
    async with agent_by_hand(version, initialize={key: offers}) as (agent, raw):
        opening = asyncio.ensure_future(agent.load_session("s1", "/", replay=False))
        request = await raw.get()
        assert request["method"] == method
        for each in HISTORY[version]:
            raw.tell("session/update", {"sessionId": "s1", "update": each})
        raw.answer(request["id"], {})
        # In the same read as the response: a new event.
        raw.tell("session/update", {"sessionId": "s1", "update": said("agent", "New", "3")})
        transcript = (await opening).transcript
        assert [m.text for m in transcript.messages] == ["New"]
        assert (transcript.items, transcript.terminals) == (transcript.messages, {})
        assert transcript.title == "Old"


@quirk("error-after-cancel")
@requirement("R-SESS-31")
@pytest.mark.parametrize("refused", [False, True])
async def test_turn_of_a_closed_session_ends_as_cancelled(refused: bool) -> None:
    error = {"code": -32603, "message": "App server connection closed"}
    async with by_hand(1) as (agent, raw):
        _, session = await answering(raw, agent.new_session("/"), {"sessionId": "s1"})
        with contextlib.suppress(RequestError):
            async with session.prompt("Hi") as turn:
                prompt = await raw.get()
                closing = asyncio.ensure_future(session.close())
                close = await raw.get()
                if refused:
                    raw.send({"jsonrpc": "2.0", "id": close["id"], "error": error})
                    with pytest.raises(RequestError):
                        await closing
                raw.send({"jsonrpc": "2.0", "id": prompt["id"], "error": error})
                if not refused:
                    raw.answer(close["id"], {})
                    await closing
        assert turn.stop_reason == ("error" if refused else "cancelled")


async def test_turn_of_a_session_that_is_loaded_again_ends(tmp_path: Path) -> None:
    async with by_hand(2) as (agent, raw):
        _, session = await answering(raw, agent.new_session("/"), {"sessionId": "s1"})
        async with session.events() as updates, session.prompt("Hi") as turn:
            prompt = await raw.get()
            raw.answer(prompt["id"], {"messageId": "m1"})
            _, loaded = await answering(raw, agent.load_session("s1", "/"), {})
            async with asyncio.timeout(20):
                assert await turn.wait() == "cancelled"
                assert [event async for event in updates] == []
        with pytest.raises(LocalProtocolError, match="loaded again"):
            async with session.prompt("Once more"):
                pass
        assert loaded.transcript.items == []


@requirement("R-CMD-01")
async def test_commands_of_a_v2_setup_response_are_known() -> None:
    command = {
        "type": "command",
        "name": "test",
        "description": "Run it",
        "input": {"type": "text", "hint": "what"},
    }
    async with by_hand(2) as (agent, raw):
        session = await with_options(agent, raw, availableCommands=[command])
        assert session.transcript.commands == (AvailableCommand("test", "Run it", "what"),)


# Unusual agents.


async def test_agent_that_claims_v2_but_sends_v1_is_treated_as_v1() -> None:
    more = {
        "protocolVersion": 2,
        "agentCapabilities": {},
        "agentInfo": {"name": "x", "version": "1"},
    }
    async with agent_by_hand(1, versions=(1, 2), initialize=more) as (agent, _raw):
        assert agent.version == 1


@quirk("prompt-echoed")
async def test_prompt_echoed_by_a_v1_agent_appears_once() -> None:
    async with agent_by_hand(1) as (agent, raw):
        _, session = await answering(raw, agent.new_session("/"), {"sessionId": "s1"})
        async with session.prompt("Hi there") as turn:
            request = await raw.get()
            for kind, text in (("user", "Hi "), ("user", "there"), ("agent", "Yes")):
                update = said(kind, text, kind)
                raw.tell("session/update", {"sessionId": "s1", "update": update})
            raw.answer(request["id"], {"stopReason": "end_turn"})
            events = [e async for e in turn if isinstance(e, UserText | Text)]
        assert [event.text for event in events] == ["Hi there", "Yes"]
        assert [m.text for m in session.transcript.messages] == ["Hi there", "Yes"]
