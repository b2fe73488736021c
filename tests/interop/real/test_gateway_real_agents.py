"""Real agents behind `accord gateway`, with a model of the test, and a client of each protocol.

One session of an agent is used by the OpenAI API, MCP and A2A; a thread of AG-UI is another one.
Each protocol gets a text, has a permission rejected that its caller cannot answer, allows one, and
leaves a turn, which is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from accord_terminal.sessions.journal import Ended, JournalReader, Queued
from accord_terminal.sessions.records import Store
from bridges.gateway_harness import stop_owners
from interop.real.test_real_tools import leave_out
from recordings.agents import AGENTS, Known
from recordings.fake_model import CONTENT, HELLO
from recordings.record import Place, fake_model

pytest.importorskip("mcp", reason="the library `mcp` is not installed")
pytest.importorskip("a2a.client", reason="the library `a2a-sdk` is not installed")
httpx: Any = pytest.importorskip("httpx", reason="the library `httpx` is not installed")
openai: Any = pytest.importorskip("openai", reason="the library `openai` is not installed")

import httpx2  # noqa: E402
from a2a.client import ClientConfig, ClientFactory  # noqa: E402
from a2a.types import (  # noqa: E402
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)
from mcp import Client, types  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

NAMES = (
    "accord-script",
    "accord-coder",
    "opencode",
    "qwen-code",
    "claude-agent-acp",
    "codex-acp",
)
KNOWN = {known.name: known for known in AGENTS}
START_S, TURN_S = 60.0, 60.0
ONCE = re.compile("allow|allow once|yes|yes, proceed", re.IGNORECASE)  # in words of the agents
PERMISSION = {"type": "function", "function": {"name": "acp_permission"}}


@dataclass
class Words:
    """What an agent is told, and what it answers."""

    prompt: str
    text: str
    write: Callable[[Path], str]
    slow: str


MODEL = Words("Say hello.", HELLO, lambda path: f"Write the file {path}.", "Count slowly.")
WORDS = {
    "accord-script": Words("stream 3 one", "one one one ", lambda _: "permission", "wait forever"),
    "accord-coder": Words(
        "help",
        "read",
        lambda path: f'create {path.name} "{CONTENT.strip()}"',
        "run sleep 60",
    ),
}


class Behind:
    """A gateway with an agent, and where the agent works."""

    def __init__(self, known: Known, url: str, token: str, project: Path) -> None:
        self.name = known.name
        self.words = WORDS.get(known.name, MODEL)
        self.url = url
        self.token = token
        self.project = project
        self.login = {"Authorization": f"Bearer {token}"}
        self._files = count(1)

    def file(self) -> Path:
        """Return a path of a file that does not exist."""
        return self.project / f"notes-{next(self._files)}.txt"

    def check(self, path: Path, text: str, *, allowed: bool) -> None:
        """Check that a file was written, or was not."""
        if self.name == "accord-script":  # it writes no file
            assert f"{allowed:d} of 1 allowed" in text
        elif allowed:
            assert path.read_text("utf-8").strip() == CONTENT.strip()
        else:
            assert not path.exists()


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Generator[Path, None, None]:
    """Yield the folder of a test, with sessions of its own; a short path, for the sockets."""
    folder = Path(tempfile.mkdtemp(prefix="acc-", dir="/tmp")).resolve()
    for name in ("config", "data", "state", "run"):
        (folder / name).mkdir(mode=0o700)
    monkeypatch.setenv("ACCORD_STATE", str(folder / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def behind(name: str, state: Path) -> AsyncGenerator[Behind, None]:
    """Run a gateway with an agent that has a home directory of its own."""
    known = KNOWN[name]
    if not known.is_installed:
        leave_out(known.argv[-1])
    async with fake_model() as model:
        place = Place(state / "place", model)
        place.prepare(known)
        env = {key: value for key, value in place.environment(known).items() if value is not None}
        mode = "" if known.mode is None else f'mode = "{known.mode}"\n'
        table = f"[agents.{name}]\ncommand = {json.dumps([*known.argv])}\n{mode}"
        (state / "config/settings.toml").write_text(table)
        env |= {
            "ACCORD_CONFIG": str(state / "config"),
            "ACCORD_DATA": str(state / "data"),
            "ACCORD_STATE": str(state / "state"),
            "XDG_RUNTIME_DIR": str(state / "run"),
        }
        options = ("--port", "0", "--token-file", state / "token", "--cwd", place.project)
        options += ("--allow", "execute:sleep *")  # what the bundled agent does slowly
        words = (sys.executable, "-m", "accord", "gateway", *map(str, options), name)
        process = await asyncio.create_subprocess_exec(*words, env=env, stderr=subprocess.PIPE)
        assert process.stderr is not None
        try:
            lines: list[str] = []
            async with asyncio.timeout(START_S):
                while "AG-UI:" not in "".join(lines):
                    line = (await process.stderr.readline()).decode()
                    assert line, lines
                    lines.append(line)
            url = lines[0].split()[-1]
            yield Behind(known, url, (state / "token").read_text().strip(), place.project)
        finally:
            process.terminate()
            await process.communicate()
            await stop_owners()


# The OpenAI API.


async def by_chat(here: Behind, client: Any) -> str:
    """Use chat completions; return the session."""

    async def chat(*messages: Any, session: str = "", **options: Any) -> Any:
        headers = {"Acp-Session-Id": session} if session else {}
        return await client.chat.completions.create(
            model=here.name, messages=[*messages], extra_headers=headers, **options
        )

    def said(text: str) -> dict[str, str]:
        return {"role": "user", "content": text}

    stream = await chat(said(here.words.prompt), stream=True)
    parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert here.words.text in "".join(parts)
    session: str = stream.response.headers["acp-session-id"]

    path = here.file()
    answer = await chat(said(here.words.write(path)), session=session)
    assert len(answer.acp["rejected"]) == 1
    here.check(path, answer.choices[0].message.content or "", allowed=False)

    path = here.file()
    question = said(here.words.write(path))
    asked = await chat(question, session=session, tools=[PERMISSION])
    assert asked.choices[0].finish_reason == "tool_calls"
    [call] = asked.choices[0].message.tool_calls
    by_kind = {one["kind"]: one["id"] for one in json.loads(call.function.arguments)["options"]}
    result = {"role": "tool", "tool_call_id": call.id, "content": by_kind["allow_once"]}
    calling = {"role": "assistant", "content": None, "tool_calls": [call.to_dict()]}
    answer = await chat(question, calling, result, session=session, tools=[PERMISSION])
    here.check(path, answer.choices[0].message.content or "", allowed=True)

    stream = await chat(said(here.words.slow), session=session, stream=True)
    async for chunk in stream:  # the first one is empty
        if chunk.choices and (chunk.choices[0].delta.content or here.name.startswith("accord-")):
            break
    await stream.close()
    answer = await chat(said(here.words.prompt), session=session)
    assert here.words.text in answer.choices[0].message.content
    return session


async def by_responses(here: Behind, client: Any, session: str) -> None:
    """Use responses."""

    async def respond(given: Any, **options: Any) -> Any:
        return await client.responses.create(model=here.name, input=given, **options)

    place = {"metadata": {"session_id": session}}
    answer = await respond(here.words.prompt, **place)
    assert here.words.text in answer.output_text

    path = here.file()
    answer = await respond(here.words.write(path), **place)
    here.check(path, answer.output_text, allowed=False)

    path = here.file()
    tools = [{"type": "function", **PERMISSION["function"]}]
    asked = await respond(here.words.write(path), tools=tools, **place)
    [call] = [one for one in asked.output if one.type == "function_call"]
    by_kind = {one["kind"]: one["id"] for one in json.loads(call.arguments)["options"]}
    output = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": by_kind["allow_once"],
    }
    answer = await respond([output], tools=tools, previous_response_id=asked.id)
    here.check(path, answer.output_text, allowed=True)

    stream = await respond(here.words.slow, stream=True, **place)
    async for event in stream:
        if here.name.startswith("accord-") or event.type == "response.output_text.delta":
            break
    await stream.close()
    assert here.words.text in (await respond(here.words.prompt, **place)).output_text


# MCP.


async def by_mcp(here: Behind, session: str) -> None:
    """Use the tools of the MCP server."""
    asked: list[types.ElicitRequestParams] = []
    began = asyncio.Event()

    async def person(_context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        names = params.requested_schema["properties"]["decision"]["enum"]
        [once] = [name for name in names if ONCE.fullmatch(name)]
        return types.ElicitResult(action="accept", content={"decision": once})

    async def progress(*_: Any) -> None:
        began.set()

    @asynccontextmanager
    async def client(**options: Any) -> AsyncGenerator[Callable[..., Any], None]:
        async with httpx2.AsyncClient(headers=here.login, timeout=TURN_S) as http:
            transport = streamable_http_client(f"{here.url}/mcp", http_client=http)
            async with Client(transport, **options) as made:

                async def ask(prompt: str, **more: Any) -> dict[str, Any]:
                    arguments = {"prompt": prompt, "session": session, **more}
                    result = await made.call_tool("ask", arguments)
                    assert result.structured_content is not None, result
                    return result.structured_content

                ask.call_tool = made.call_tool  # type: ignore[attr-defined]
                yield ask

    async with client() as ask:
        assert here.words.text in (await ask(here.words.prompt))["text"]
        path = here.file()
        refused = await ask(here.words.write(path))
        assert len(refused["rejected"]) == 1
        here.check(path, refused["text"], allowed=False)
        assert (await ask(here.words.slow, seconds=1))["state"] == "working"
        cancelled = await ask.call_tool("cancel", {"session": session})  # type: ignore[attr-defined]
        assert cancelled.structured_content["stop_reason"] == "cancelled"
    async with client(elicitation_callback=person) as ask:
        path = here.file()
        allowed = await ask(here.words.write(path))
        assert allowed["rejected"] == []
        here.check(path, allowed["text"], allowed=True)
        assert len(asked) == 1


# A2A.


async def by_a2a(here: Behind, session: str) -> None:
    """Use the tasks of A2A, which outlive their callers: they are cancelled."""
    at = AgentInterface(
        url=f"{here.url}/a2a/{here.name}", protocol_binding="JSONRPC", protocol_version="1.0"
    )
    card = AgentCard(supported_interfaces=[at], capabilities=AgentCapabilities(streaming=True))
    async with httpx.AsyncClient(headers=here.login, timeout=TURN_S, trust_env=False) as http:
        config = ClientConfig(httpx_client=http, streaming=False)
        client = ClientFactory(config).create(card)

        async def send(text: str, task: Any = None, *, leave: bool = False) -> Any:
            message = Message(
                message_id=text[:8] + str(next(numbers)),
                role=Role.ROLE_USER,
                parts=[Part(text=text)],
                task_id="" if task is None else task.id,
                context_id=session,
            )
            request = SendMessageRequest(message=message)
            request.configuration.return_immediately = leave
            async for event in client.send_message(request):
                return event.task
            raise AssertionError("no response")

        def text_of(task: Any) -> str:
            parts = (one.parts for one in task.artifacts if one.name == "response")
            return "".join(part.text for several in parts for part in several)

        numbers = count()
        assert here.words.text in text_of(await send(here.words.prompt))
        for answer in ("reject", "allow"):
            path = here.file()
            task = await send(here.words.write(path))
            assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            task = await send(f"{answer}_once", task)
            here.check(path, text_of(task), allowed=answer == "allow")
        task = await send(here.words.slow, leave=True)
        cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        assert here.words.text in text_of(await send(here.words.prompt))


# AG-UI.


async def by_ag_ui(here: Behind) -> str:
    """Use a thread of AG-UI; return its session."""
    numbers = count()
    async with httpx2.AsyncClient(headers=here.login, timeout=TURN_S) as http:

        @asynccontextmanager
        async def run(text: str, **fields: Any) -> AsyncGenerator[Any, None]:
            message = {"id": f"u{next(numbers)}", "role": "user", "content": text}
            body = {
                "threadId": "t",
                "runId": f"r{next(numbers)}",
                "protocolVersion": "1.0",
                "messages": [message] if text else [],
                **fields,
            }
            path = f"{here.url}/ag-ui/{here.name}"
            async with http.stream("POST", path, json=body) as response:
                assert response.status_code == 200, await response.aread()

                async def events() -> AsyncGenerator[dict[str, Any], None]:
                    async for line in response.aiter_lines():
                        if line:
                            yield json.loads(line.removeprefix("data: "))

                yield events()

        async def ran(text: str, **fields: Any) -> tuple[str, dict[str, Any], str]:
            async with run(text, **fields) as events:
                found = [event async for event in events]
            last = found[-1]
            assert last["type"] == "RUN_FINISHED", last
            deltas = (one["delta"] for one in found if one["type"] == "TEXT_MESSAGE_CONTENT")
            [session] = {
                one["snapshot"]["acp"]["sessionId"]
                for one in found
                if one["type"] == "STATE_SNAPSHOT"
            }
            return "".join(deltas), last, session

        text, _, session = await ran(here.words.prompt)
        assert here.words.text in text

        path = here.file()
        text, last, _ = await ran(here.words.write(path), forwardedProps={"acp": {"ask": False}})
        assert len(last["result"]["rejected"]) == 1
        here.check(path, text, allowed=False)

        path = here.file()
        _, last, _ = await ran(here.words.write(path))
        [interrupt] = last["outcome"]["interrupts"]
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": "allow_once"}
        text, _, _ = await ran("", resume=[answer])
        here.check(path, text, allowed=True)

        async with run(here.words.slow) as events:
            async for event in events:
                if event["type"] in ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_START"):
                    break
        text, _, _ = await ran(here.words.prompt)
        assert here.words.text in text
    return session


@pytest.mark.parametrize("name", NAMES)
async def test_agent_behind_each_protocol(name: str, state: Path) -> None:
    async with behind(name, state) as here:
        client = openai.AsyncOpenAI(
            base_url=f"{here.url}/v1", api_key=here.token, max_retries=0, timeout=TURN_S
        )
        async with client:
            shared = await by_chat(here, client)
            # Not before: two Codex that start at once in a new home cannot both make its database.
            other = asyncio.create_task(by_ag_ui(here))
            await by_responses(here, client, shared)
        await by_mcp(here, shared)
        await by_a2a(here, shared)
        thread = await other
    for session, cancelled in ((shared, 4), (thread, 1)):
        entries = [*JournalReader(Store().journal_path(session)).new_entries()]
        slow = {
            one.prompt for one in entries if isinstance(one, Queued) and one.text == here.words.slow
        }
        reasons = [
            one.stop_reason for one in entries if isinstance(one, Ended) and one.prompt in slow
        ]
        assert len(reasons) == cancelled
        # OpenCode ends a turn that was cancelled now and then as if it were complete.
        assert set(reasons) <= ({"cancelled", "end_turn"} if name == "opencode" else {"cancelled"})
