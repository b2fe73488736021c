"""The MCP gateway, used by the client of the library over HTTP and on stdio, in both its eras."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from accord.client.events import PermissionRequest
from accord.remote.access import Access, Principal, RemoteRequest
from accord.remote.server import Stop
from accord.types.permission import PermissionOption
from accord_bridges.gateways.app import GatewayApp
from accord_bridges.gateways.turns import AgentSessions, CallerQuestion, GatewaySettings
from accord_terminal.sessions.named import open_session
from accord_terminal.sessions.records import Approvals, Store
from bridges.gateway_harness import listening, named, stop_owners

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from accord_bridges.gateways.mcp_forms import answer_in, elicitation
from accord_bridges.gateways.mcp_server import McpGateway

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

AGENT = Path(__file__).with_name("gateway_mcp_agent.py")
TOKENS = {"the token of ann": "ann", "the token of bob": "bob"}
ANN, BOB = TOKENS
ERAS = ("legacy", "auto")
WAIT_S = 60


class Gateway:
    """A gateway that listens."""

    def __init__(self, url: str, sessions: AgentSessions, stop: Stop) -> None:
        self.url = f"{url}/mcp"
        self.sessions = sessions
        self.stop = stop

    @asynccontextmanager
    async def client(
        self, era: str = "auto", token: str = ANN, **options: Any
    ) -> AsyncGenerator[Client, None]:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=WAIT_S) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=era, **options) as client:
                yield client

    async def idle(self) -> None:
        """Wait until no turn runs."""
        async with asyncio.timeout(WAIT_S):
            while self.sessions.running_turns:
                await asyncio.sleep(0)


def authenticate(request: RemoteRequest) -> Principal | None:
    [given] = request.headers.get("authorization", [""])
    name = TOKENS.get(given.removeprefix("Bearer "))
    return None if name is None else Principal(name)


@asynccontextmanager
async def serving(
    state: Path, *, drain_s: float = 0, most: int = 256, idle_s: float = 60.0, **settings: Any
) -> AsyncGenerator[Gateway, None]:
    agents = {name: named(name, AGENT) for name in ("painter", "other")}
    decided = replace(GatewaySettings(cwd=state / "work", idle_s=30), **settings)
    sessions = AgentSessions(agents, decided)
    server = McpGateway(sessions, most=most, idle_s=idle_s)
    app = GatewayApp(sessions, [server.mount()], Access(authenticate=authenticate))
    async with listening(app, drain_s=drain_s) as (url, stop):
        yield Gateway(url, sessions, stop)


def found(result: types.CallToolResult) -> dict[str, Any]:
    return result.structured_content or {"error": text_of(result)}


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(one.text for one in result.content if isinstance(one, types.TextContent))


async def ask(client: Client, prompt: str, **more: Any) -> dict[str, Any]:
    if "session" not in more:
        more.setdefault("agent", "painter")
    return found(await client.call_tool("ask", {"prompt": prompt, **more}))


def person(*answers: dict[str, Any] | str) -> Any:
    """Return what answers elicitation, and keeps the questions in its `asked`."""
    left = list(answers)

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        answer.asked.append(params)  # type: ignore[attr-defined]
        given = left.pop(0)
        if isinstance(given, str):
            return types.ElicitResult(action=given)  # type: ignore[arg-type]
        return types.ElicitResult(action="accept", content=given)

    answer.asked = []  # type: ignore[attr-defined]
    return answer


@pytest.mark.parametrize("era", ERAS)
async def test_answer_has_progress_text_files_and_session(state: Path, era: str) -> None:
    lines: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        lines.append((progress, message))

    allowing = Approvals(allow=("edit",))
    async with serving(state, approvals=allowing) as gate, gate.client(era) as client:
        result = await client.call_tool(
            "ask",
            {"agent": "painter", "prompt": "steps paint\npicture\nsay one\nedit\npid"},
            progress_callback=progress,
        )
        first = found(result)
        assert first["state"] == "completed"
        assert first["stop_reason"] == "end_turn"
        assert first["text"].startswith("one\n\nallowed")
        assert first["changed_files"] == ["/notes.txt"]
        assert (first["usage"]["input"], first["rejected"]) == (10, [])
        assert [one.type for one in result.content] == ["text", "image", "text"]
        assert f"session: {first['session']}" in text_of(result)
        assert [number for number, _ in lines] == sorted({number for number, _ in lines})
        texts = [line for _, line in lines]
        assert "Plan, 1 of 2 done: paint" in texts
        assert "Edit notes: completed" in texts
        # The session goes on, is listed, and has a transcript.
        again = await ask(client, "pid", session=first["session"])
        assert first["text"].endswith(again["text"])
        other = await ask(client, "say x", agent="other")
        assert other["agent"] == "other"
        listed = found(await client.call_tool("sessions", {}))["sessions"]
        assert [(one["session"], one["agent"], one["state"]) for one in listed] == [
            (other["session"], "other", "idle"),
            (first["session"], "painter", "idle"),
        ]
        uri = f"accord://sessions/{first['session']}"
        assert uri in [str(one.uri) for one in (await client.list_resources()).resources]
        [transcript] = (await client.read_resource(uri)).contents
        assert isinstance(transcript, types.TextResourceContents)
        assert "steps paint" in transcript.text
        assert "Edit notes" in transcript.text
        # Slash commands.
        [mine, _] = (await client.list_prompts()).prompts
        assert (mine.name, mine.description) == ("painter.paint", "painter: Paint the shed.")
        [message] = (await client.get_prompt("painter.paint", {"input": "red"})).messages
        assert isinstance(message.content, types.TextContent)
        assert '"prompt":"/paint red"' in message.content.text


@pytest.mark.parametrize("era", ERAS)
async def test_person_at_the_client_decides_permissions(state: Path, era: str) -> None:
    async with serving(state) as gate:
        who = person({"decision": "Allow"}, {"decision": "Reject"}, "decline", "cancel", {})
        async with gate.client(era, elicitation_callback=who) as client:
            allowed = await ask(client, "edit")
            assert (allowed["text"], allowed["rejected"]) == ("allowed", [])
            question = who.asked[0]
            assert question.message.startswith(
                "The agent painter asks for permission: Edit notes\n"
            )
            assert "+b" in question.message
            for _ in range(4):
                refused = await ask(client, "edit", session=allowed["session"])
                assert (refused["text"], refused["rejected"]) == ("rejected", ["Edit notes"])
            assert len(who.asked) == 5
        hidden = person("decline")
        async with gate.client(era, elicitation_callback=hidden) as client:
            await ask(client, "hostile")
        assert "\x1b" not in hidden.asked[0].message
        assert "\u202e" not in hidden.asked[0].message


@pytest.mark.parametrize("era", ERAS)
async def test_without_elicitation_the_rules_decide(state: Path, era: str) -> None:
    async with serving(state, approvals=Approvals(deny=("delete",))) as gate:
        async with gate.client(era) as client:
            refused = await ask(client, "edit")
        assert (refused["text"], refused["rejected"]) == ("rejected", ["Edit notes"])


@pytest.mark.parametrize("era", ERAS)
async def test_forms_go_to_the_person_or_to_the_tool_answer(state: Path, era: str) -> None:
    async with serving(state) as gate:
        who = person({"colour": "red", "count": 2}, "decline")
        async with gate.client(era, elicitation_callback=who) as client:
            assert (await ask(client, "colour"))["text"] == "2 red"
            assert (await ask(client, "colour"))["text"] == "declined"
        assert who.asked[0].message == "The agent painter asks: Which colour?"
        schema = who.asked[0].requested_schema["properties"]["colour"]
        assert {one["const"] for one in schema["oneOf"]} == {"red", "blue"}
        async with gate.client(era) as client:
            asked = await ask(client, "colour")
            assert asked["state"] == "input_required"
            session = asked["session"]
            [question] = asked["questions"]
            assert question["schema"]["required"] == ["colour"]
            for values, words in (
                ({"colour": "green"}, "colour does not fit"),
                ({"colour": "red", "x": 1}, "x is not a field"),
                ({}, "colour is missing"),
            ):
                wrong = await client.call_tool("answer", {"session": session, "values": values})
                assert wrong.is_error
                assert words in text_of(wrong)
            unknown = {"session": session, "question": "q", "values": {}}
            assert question["id"] in text_of(await client.call_tool("answer", unknown))
            given = {"session": session, "values": {"colour": "blue"}}
            assert found(await client.call_tool("answer", given))["text"] == "1 blue"
            late = await client.call_tool("answer", given)
            assert "open are: none" in text_of(late)
            await ask(client, "colour", session=session)
            declined = await client.call_tool("answer", {"session": session})
            assert found(declined)["text"] == "declined"


@pytest.mark.parametrize("era", ERAS)
async def test_urls_go_to_the_person_if_the_client_opens_them(state: Path, era: str) -> None:
    async with serving(state) as gate:
        who = person("accept", "decline")
        async with gate.client(era, elicitation_callback=who) as client:
            assert (await ask(client, "url"))["text"] == "opened"
            assert (await ask(client, "url"))["text"] == "declined"
        question = who.asked[0]
        assert (question.mode, question.url) == ("url", "https://example.com/login")
        assert question.message == "The agent painter asks you to open a URL: Log in"
        async with gate.client(era) as client:
            assert (await ask(client, "url"))["text"] == "declined"


@pytest.mark.parametrize("era", ERAS)
async def test_long_turn_goes_on_without_its_caller(state: Path, era: str) -> None:
    async with serving(state) as gate, gate.client(era) as client:
        begun = await ask(client, "say a\nbegin work\nwait", seconds=0.1)
        assert (begun["state"], begun["stop_reason"]) == ("working", None)
        session = begun["session"]
        waited = found(await client.call_tool("wait", {"session": session, "seconds": 0.1}))
        assert waited["state"] == "working"
        [listed] = found(await client.call_tool("sessions", {}))["sessions"]
        assert listed["state"] == "working"
        # A second prompt waits for the first one, which is cancelled.
        second = asyncio.create_task(ask(client, "say b", session=session))
        async with asyncio.timeout(WAIT_S):
            while gate.sessions.running_turns < 2:
                await asyncio.sleep(0)
        [turn] = [one for one in gate.sessions._open.values() if one.id == session]
        assert turn.running is not None
        turn.running.cancel()
        assert (await second)["text"] == "b"
        assert found(await client.call_tool("wait", {"session": session}))["text"] == "b"
        hanging = await ask(client, "wait", session=session, seconds=0)
        cancelled = found(await client.call_tool("cancel", {"session": session}))
        assert (hanging["state"], cancelled["stop_reason"]) == ("working", "cancelled")
        # Nobody asks for it any more.
    async with serving(state, answer_s=0.2) as gate:
        async with gate.client(era) as client:
            await ask(client, "wait", seconds=0)
        await gate.idle()


@pytest.mark.parametrize("era", ERAS)
async def test_caller_that_cancels_ends_its_turn(state: Path, era: str) -> None:
    async with serving(state) as gate:
        begun = asyncio.Event()

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async def never(_context: Any, _params: Any) -> types.ElicitResult:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with gate.client(era, elicitation_callback=never) as client:
            session = (await ask(client, "say x"))["session"]
            for prompt in ("wait", "begin work\nwait", "edit", "colour"):
                begun.clear()
                arguments = {"prompt": prompt, "session": session}
                asking = asyncio.create_task(
                    client.call_tool("ask", arguments, progress_callback=progress)
                )
                if prompt != "wait":
                    async with asyncio.timeout(WAIT_S):
                        await begun.wait()
                asking.cancel()
                await asyncio.wait([asking])
                if era == "legacy" or prompt not in ("edit", "colour"):
                    await gate.idle()
                # In the other era nobody is connected while the person thinks.
                assert (await ask(client, "say next", session=session))["text"] == "next"
            await gate.idle()
        assert not gate.sessions.waiting


async def test_caller_of_the_old_era_that_disconnects_ends_its_turn(state: Path) -> None:
    async with serving(state) as gate:
        headers = {
            "Authorization": f"Bearer {ANN}",
            "Accept": "application/json, text/event-stream",
        }
        async with httpx2.AsyncClient(headers=headers, timeout=WAIT_S) as http:
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
            opened = await http.post(gate.url, json=call("initialize", hello))
            http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(gate.url, json=started)).status_code == 202
            arguments = {"agent": "painter", "prompt": "begin work\nwait"}
            params = {"name": "ask", "arguments": arguments, "_meta": {"progressToken": 1}}
            asked = call("tools/call", params)
            async with http.stream("POST", gate.url, json=asked) as response:
                async for line in response.aiter_lines():
                    if "begin" in line or "work" in line:
                        break
                assert gate.sessions.running_turns == 1
            await gate.idle()
            # Ending the session of the transport ends the turn, too.
            async with http.stream("POST", gate.url, json=asked) as response:
                async for line in response.aiter_lines():
                    if "work" in line:
                        break
                assert (await http.delete(gate.url)).status_code == 200
                await gate.idle()
            assert (await http.post(gate.url, json=call("tools/list", {}))).status_code == 404


INFO = {"name": "test", "version": "1"}


def call(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize("era", ERAS)
async def test_agent_that_dies_fails_its_call_alone(state: Path, era: str) -> None:
    async with serving(state) as gate, gate.client(era) as client:
        other = asyncio.create_task(ask(client, "begin a\nwait"))
        session = (await ask(client, "say one"))["session"]
        died = await client.call_tool("ask", {"prompt": "edit\ndie", "session": session})
        assert died.is_error
        assert "The agent painter failed" in text_of(died)
        assert (found(died)["state"], found(died)["rejected"]) == ("failed", ["Edit notes"])
        assert not other.done()
        assert (await ask(client, "say on", session=session))["text"] == "on"
        other.cancel()
        await asyncio.wait([other])
        await gate.idle()


async def test_bad_calls_say_what_was_expected(state: Path) -> None:
    async with serving(state, roots=(state / "work",), waiting=0) as gate, gate.client() as client:
        below = str(state / "work") + "/"
        good = await ask(client, "say x", directory=below)
        session = good["session"]
        for tool, arguments, words in (
            ("ask", {"prompt": "x", "agent": "nobody"}, "expected one of painter, other, got 'nob"),
            ("ask", {"prompt": "x"}, "expected one of painter, other, or a session"),
            ("ask", {"agent": "painter"}, "required field `prompt`"),
            ("ask", {"prompt": 3, "agent": "painter"}, "Expected `str`, got `int` - at `$.prompt`"),
            ("ask", {"prompt": "x", "agent": "painter", "cwd": "/"}, "unknown field `cwd`"),
            ("ask", {"prompt": "x", "session": "s-0123456789abcdef"}, "Unknown session"),
            ("ask", {"prompt": "x", "session": "../../x"}, "Unknown session"),
            ("ask", {"prompt": "x", "session": session, "agent": "other"}, "is of painter"),
            ("ask", {"prompt": "x", "session": session, "directory": "/"}, "when a session begins"),
            ("ask", {"prompt": "x", "agent": "painter", "directory": "/"}, "below"),
            ("ask", {"prompt": "x", "agent": "painter", "directory": "work"}, "absolute path"),
            ("ask", {"prompt": "x", "agent": "painter", "directory": ""}, "absolute path"),
            ("ask", {"prompt": "x", "agent": "painter", "directory": "/a\0b"}, "not a path"),
            ("ask", {"prompt": "x", "agent": "painter", "directory": f"/{'a' * 300}"}, "below"),
            ("ask", {"prompt": "x", "agent": "painter", "directory": below + "\0"}, "not a path"),
            ("ask", {"prompt": "x", "agent": "painter", "directory": below + "a" * 5000}, "not a"),
            ("ask", {"prompt": "x", "agent": "painter", "seconds": -1}, "`float` >= 0.0"),
            ("wait", {"session": "s-0123456789abcdef"}, "Unknown session"),
            ("cancel", {"session": "nonsense"}, "Unknown session"),
            ("answer", {"session": session, "values": {}}, "open are: none"),
            ("sessions", {"limit": 0}, "`int` >= 1"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error, (tool, arguments)
            assert words in text_of(result), (tool, arguments)
        with pytest.raises(MCPError, match="expected one of ask, wait"):
            await client.call_tool("allow_everything", {})
        for uri in ("accord://sessions/s-0123456789abcdef", "file:///etc/passwd"):
            with pytest.raises(MCPError, match=r"Unknown session|expected accord"):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match=r"known are painter\.paint"):
            await client.get_prompt("painter.rm", {})
        # A busy session refuses what it cannot queue.
        begun = await ask(client, "wait", session=session, seconds=0)
        assert begun["state"] == "working"
        busy = await client.call_tool("ask", {"prompt": "x", "session": session})
        assert "try again later" in text_of(busy)
        await client.call_tool("cancel", {"session": session})


async def test_requests_are_checked_before_the_library_sees_them(state: Path) -> None:
    async with serving(state) as gate, httpx2.AsyncClient() as http:
        login = {
            "Authorization": f"Bearer {ANN}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

        async def status(body: bytes = b"{}", **headers: str) -> int:
            response = await http.post(gate.url, content=body, headers=login | headers)
            if response.status_code != 406:
                assert response.json()["jsonrpc"] == "2.0"
            return response.status_code

        assert await status(Authorization="Bearer wrong") == 401
        assert await status(Host="evil.example") == 421
        assert await status(Origin="https://evil.example") == 403
        assert await status(b" " * (16 * 1024 * 1024 + 1)) == 413
        assert await status(b"{") == 400
        assert await status(b"[]") == 400
        assert await status(json.dumps(call("tools/list", {})).encode()) == 400  # no session
        unknown = {"Mcp-Session-Id": "0" * 32}
        assert await status(json.dumps(call("tools/list", {})).encode(), **unknown) == 404
        modern = {"MCP-Protocol-Version": "2026-07-28"}
        assert await status(b"{", **modern) == 400
        async with gate.client() as client:
            assert len((await client.list_tools()).tools) == 5


async def test_sessions_belong_to_their_principal(state: Path) -> None:
    async with serving(state) as gate:
        async with gate.client() as ann, gate.client(token=BOB) as bob:
            session = (await ask(ann, "say x"))["session"]
            assert "Unknown session" in (await ask(bob, "say x", session=session))["error"]
            assert found(await bob.call_tool("sessions", {}))["sessions"] == []
            assert (await bob.list_resources()).resources == []
            with pytest.raises(MCPError, match="Unknown session"):
                await bob.read_resource(f"accord://sessions/{session}")
            for tool in ("wait", "cancel", "answer"):
                refused = await bob.call_tool(tool, {"session": session})
                assert "Unknown session" in text_of(refused)
        # A session of the transport, too.
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers=headers) as http:
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
            http.headers["Authorization"] = f"Bearer {ANN}"
            opened = await http.post(gate.url, json=call("initialize", hello))
            http.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            assert (await http.post(gate.url, json=call("ping", {}))).status_code == 200
            http.headers["Authorization"] = f"Bearer {BOB}"
            assert (await http.post(gate.url, json=call("ping", {}))).status_code == 404
            assert (await http.delete(gate.url)).status_code == 404


async def test_answer_of_another_principal_does_not_reach_a_turn(state: Path) -> None:
    async with serving(state) as gate:
        who = person()
        async with gate.client(elicitation_callback=who) as ann, gate.client(token=BOB) as bob:
            arguments = {"agent": "painter", "prompt": "edit"}
            asked = await ann.session.call_tool("ask", arguments, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
            [question] = asked.input_requests or {}
            answer = types.ElicitResult(action="accept", content={"decision": "Allow"})
            given = {"input_responses": {question: answer}, "request_state": asked.request_state}
            stolen = await bob.session.call_tool("ask", arguments, **given)
            assert "Unknown session" in text_of(stolen)
            guessed = await ann.session.call_tool(
                "ask", arguments, **{**given, "request_state": "guessed"}
            )
            assert "has ended" in text_of(guessed)
            mine = await ann.session.call_tool("ask", arguments, **given)
            assert found(mine)["text"] == "allowed"


async def test_sessions_of_the_transport_are_bounded_and_end(state: Path) -> None:
    async with serving(state, most=1, idle_s=0.2) as gate:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {ANN}",
        }
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
        async with httpx2.AsyncClient(headers=headers) as http:
            assert (await http.post(gate.url, json=call("initialize", hello))).status_code == 200
            full = await http.post(gate.url, json=call("initialize", hello))
            assert full.status_code == 503
            async with asyncio.timeout(WAIT_S):
                while (
                    await http.post(gate.url, json=call("initialize", hello))
                ).status_code != 200:
                    await asyncio.sleep(0.02)


@pytest.mark.parametrize("era", ERAS)
async def test_gateway_ends_while_callers_wait(state: Path, era: str) -> None:
    async with serving(state, drain_s=0.1) as gate:
        begun = asyncio.Event()

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async with gate.client(era) as client:
            await client.list_tools()  # with which the client checks results
            asking = asyncio.create_task(
                client.call_tool(
                    "ask",
                    {"agent": "painter", "prompt": "begin work\nwait"},
                    progress_callback=progress,
                )
            )
            async with asyncio.timeout(WAIT_S):
                await begun.wait()
            gate.stop.request()
            async with asyncio.timeout(WAIT_S):
                assert found(await asking)["stop_reason"] == "cancelled"


# On stdio.


def program(state: Path, *options: str) -> list[str]:
    words = [sys.executable, "-m", "accord", "gateway", "--stdio-mcp"]
    return [*words, "--cwd", str(state / "work"), *options, "--", sys.executable, str(AGENT)]


@pytest.mark.parametrize("era", ERAS)
async def test_program_serves_the_client_that_starts_it(state: Path, era: str) -> None:
    command, *arguments = program(state)
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    who = person({"decision": "Allow"})
    try:
        async with Client(stdio_client(server), mode=era, elicitation_callback=who) as client:
            result = found(await client.call_tool("ask", {"prompt": "say x\nedit"}))
            assert result["text"] == "x\n\nallowed"
    finally:
        await stop_owners()


@pytest.mark.parametrize("how", ["eof", "sigterm"])
async def test_program_ends_with_its_client_and_cancels_the_turn(state: Path, how: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *program(state),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
    ask_it = {"name": "ask", "arguments": {"prompt": "begin work\nwait"}}
    messages = [
        call("initialize", hello),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {**call("tools/call", {**ask_it, "_meta": {"progressToken": 1}}), "id": 2},
    ]
    try:
        async with asyncio.timeout(WAIT_S):
            for message in messages:
                process.stdin.write(json.dumps(message).encode() + b"\n")
            await process.stdin.drain()
            lines: list[Any] = []
            while not lines or lines[-1].get("method") != "notifications/progress":
                lines.append(json.loads(await process.stdout.readline()))  # only the protocol
            if how == "eof":
                process.stdin.close()
            else:
                process.send_signal(signal.SIGTERM)
            rest = await process.stdout.read()
            assert await process.wait() == 0
        for line in rest.splitlines():
            assert json.loads(line)["jsonrpc"] == "2.0"
        [record] = Store()
        async with open_session(record.id, record.cwd, create=False) as shared:
            assert not (await shared.status()).queue
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await stop_owners()


def test_a_person_who_declines_chooses_no_option_and_knows_what_is_not_shown() -> None:
    option = PermissionOption("", "Allow", "allow_once")
    request = PermissionRequest(session_id="s", cwd="/", title="x" * 5_000, options=(option,))
    question = CallerQuestion("q", request)
    for given in (
        types.ElicitResult(action="decline"),
        types.ElicitResult(action="accept", content={"decision": "other"}),
        None,
    ):
        assert answer_in(question, given) is None
    chosen = types.ElicitResult(action="accept", content={"decision": "Allow"})
    assert answer_in(question, chosen) == ""
    params = elicitation("caller", question).params
    assert params.message.startswith("The agent caller asks for permission: xxx")
    assert params.message.endswith("x\n… 1,038 more characters, not shown")
