"""The bridge of remote A2A agents: the contract, against a server of the library a2a-sdk."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import accord
from accord import Agent, RequestError, ToolCall
from accord.transports.memory import pair
from accord_bridges import as_agent
from accord_bridges.frameworks.a2a import A2aAgent
from accord_bridges.testing import BridgeContract, ModelError, Reply, Script, ToolUse

OPTIONS = [
    {"id": "yes", "name": "Allow", "kind": "allow_once"},
    {"id": "always", "name": "Always", "kind": "allow_always"},
    {"id": "no", "name": "Reject", "kind": "reject_once"},
]


def data(value: dict[str, Any]) -> Part:
    part = Part()
    ParseDict(value, part.data)
    return part


class Played(AgentExecutor):
    """An agent of a2a-sdk that follows a script. Its contexts have histories."""

    def __init__(self, script: Script, tools: Any, histories: dict[str, list[Any]]) -> None:
        self.script = script
        self.tools = {tool.__name__: tool for tool in (*tools.plain, *tools.guarded)}
        self.histories = histories
        self.playing: dict[str, asyncio.Task[None]] = {}
        self.asked: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self.answers: dict[str, asyncio.Queue[Any]] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id
        assert context.context_id
        assert context.message
        task_id = context.task_id
        updater = TaskUpdater(event_queue, task_id, context.context_id)
        playing = self.playing.get(task_id)
        parts = [MessageToDict(part) for part in context.message.parts]
        if playing is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.start_work()
            self.asked[task_id], self.answers[task_id] = asyncio.Queue(), asyncio.Queue()
            history = self.histories.setdefault(context.context_id, [])
            history.append(["user", *parts])
            playing = asyncio.create_task(self.play(task_id, history, updater))
            self.playing[task_id] = playing
        else:
            await updater.start_work()
            await self.answers[task_id].put(parts)
        asking = asyncio.create_task(self.asked[task_id].get())
        try:
            await asyncio.wait([playing, asking], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                question = asking.result()
                message = updater.new_agent_message(
                    [Part(text=question.get("message", "May I?")), data(question)]
                    if question.get("type")
                    else [Part(text=question["message"])]
                )
                await updater.requires_input(message)
            else:
                playing.result()
        finally:
            asking.cancel()
            if playing.done():
                self.playing.pop(task_id, None)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id
        playing = self.playing.pop(context.task_id, None)
        if playing is not None:
            playing.cancel()
            await asyncio.wait([playing])
        await TaskUpdater(event_queue, context.task_id, context.context_id or "").cancel()

    async def play(self, task_id: str, history: list[Any], updater: TaskUpdater) -> None:
        used = [0, 0]
        try:
            number = 0
            while True:
                reply = self.script.reply(history)
                reply.raise_failure()
                number += 1
                for name, deltas in (("thoughts", reply.thoughts), ("response", reply.text)):
                    # The server copies the whole task for each event.
                    size = 1 + len(deltas) // 100
                    joined = ["".join(deltas[n : n + size]) for n in range(0, len(deltas), size)]
                    for place, text in enumerate(joined):
                        await updater.add_artifact(
                            [Part(text=text)], artifact_id=f"{name}-{number}", name=name,
                            append=place > 0,
                        )  # fmt: skip
                history.append(["agent", "".join(reply.text)])
                if reply.hangs:
                    await self.script.hang()
                used[0] += reply.input_tokens
                used[1] += reply.output_tokens
                if not reply.calls:
                    break
                async with asyncio.TaskGroup() as group:
                    for use in reply.calls:
                        entry = ["call", use.name, json.dumps(dict(use.arguments)), "cancelled"]
                        history.append(entry)
                        group.create_task(self.call(task_id, use, entry, updater))
            usage = {"inputTokens": used[0], "outputTokens": used[1]}
            await updater.update_status(
                TaskState.TASK_STATE_COMPLETED, metadata={"acp": {"usage": usage}}
            )
        except (ModelError, ConnectionError) as error:
            message = updater.new_agent_message([Part(text=str(error))])
            if "filtered" in str(error):
                await updater.reject(message)
            else:
                await updater.failed(message)

    async def ask(self, task_id: str, question: dict[str, Any]) -> Any:
        await self.asked[task_id].put(question)
        return await self.answers[task_id].get()

    async def call(
        self, task_id: str, use: ToolUse, entry: list[str], updater: TaskUpdater
    ) -> None:
        arguments = dict(use.arguments)
        if use.name == "update_plan":
            entries = [{"content": step, "status": "pending"} for step in arguments["steps"]]
            await updater.add_artifact(
                [data({"entries": entries})], artifact_id="plan", name="plan"
            )
            entry[-1] = "planned"
            return
        if use.name == "ask_user":
            field = {"name": "answer", "kind": "text", "required": True}
            message = arguments["question"]
            question = {"type": "form", "id": use.id, "message": message, "fields": [field]}
            [answer] = await self.ask(task_id, question)
            values = answer["data"].get("values", {})
            entry[-1] = values.get("answer", "no answer")
            return

        async def show(status: str, **more: Any) -> None:
            about = {"toolCallId": use.id, "name": use.name, "status": status, **more}
            message = updater.new_agent_message([Part(text=use.name), data(about)])
            await updater.update_status(TaskState.TASK_STATE_WORKING, message)

        await show("pending", input=arguments)
        if use.name == "write_note_file":
            question = {
                "type": "permission", "id": f"q-{use.id}", "toolCallId": use.id,
                "title": f"Write {arguments['text']} to {arguments['path']}", "options": OPTIONS,
            }  # fmt: skip
            [answer] = await self.ask(task_id, question)
            option = answer["data"]["option"]
            if option == "no":
                await show("cancelled", output="not allowed")
                entry[-1] = "not allowed"
                return
        await show("in_progress")
        try:
            entry[-1] = await self.tools[use.name](**arguments)
            await show("completed", output=entry[-1])
        except ValueError as error:
            entry[-1] = str(error)
            await show("failed", output=entry[-1])


def make_card(url: str) -> AgentCard:
    return AgentCard(
        name="remote",
        description="An agent",
        version="1",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="a", name="a", description="a", tags=["a"])],
    )


class Server:
    """A server of a2a-sdk in this process."""

    def __init__(self, executor: AgentExecutor, token: str | None = None) -> None:
        AppStatus.should_exit = False  # of the server before
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        card = make_card(self.url)
        self.handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
        app = Starlette(
            routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(self.handler, "/")]
        )

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and token is not None:
                given = Request(scope).headers.get("authorization")
                if given != f"Bearer {token}":
                    response: Response = JSONResponse({}, 401)
                    await response(scope, receive, send)
                    return
            await app(scope, receive, send)

        config = uvicorn.Config(guarded, log_level="critical", lifespan="off")
        self.server = uvicorn.Server(config)
        self.server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self.task = asyncio.create_task(self.server.serve(sockets=[self.socket]))

    async def aclose(self) -> None:
        self.server.should_exit = self.server.force_exit = AppStatus.should_exit = True
        await self.task
        self.socket.close()
        await self.handler.aclose()


class TestA2a(BridgeContract):
    """The contract."""

    can = frozenset(
        ("thoughts", "approvals", "plans", "questions", "images", "usage", "parallel_calls",
         "fork")
    )  # fmt: skip

    @cached_property
    def histories(self) -> dict[str, list[Any]]:
        """The contexts of the remote agent, which does not end with its clients."""
        return {}

    async def make_agent(self, script: Script, **options: Any) -> Agent:
        histories = self.histories
        if Path(sys.argv[0]).name == "-c":  # the process of a contract: its server ends with it
            file = Path(sys.argv[1]).with_suffix(".contexts")
            histories = _Kept(file)
        agent = as_agent("a2a+http://127.0.0.1:1", **options)
        assert isinstance(agent, A2aAgent)
        server = Server(Played(script, self.tools, histories))
        agent.target = f"a2a+{server.url}"
        closing = agent.aclose

        async def aclose() -> None:
            await closing()
            await server.aclose()

        agent.aclose = aclose  # type: ignore[method-assign]
        return agent

    async def test_cancel_while_a_tool_hangs(self) -> None:
        """The remote agent is ahead of its stream: this waits until the call is shown."""
        for version in (1, 2):
            script = Script(
                Reply(calls=(ToolUse("wait_forever", {"what": "word-event"}),)),
                Reply(text=("I am back.",)),
            )
            async with self.connected(script, version) as client:
                session = await client.session()
                async with session.prompt("word-first") as turn:
                    async for event in turn:
                        if isinstance(event, ToolCall) and event.status == "in_progress":
                            await turn.cancel()
                await self.tools.until_idle()
                [call] = turn.tool_calls
                assert call.status == ("cancelled" if version == 2 else "failed")
                await self._goes_on(client, session, turn)
                assert self.tools.count("wait_forever") == version, "it is not run again"

    async def test_refused_connection_is_a_readable_error(self) -> None:
        async with connected("a2a+http://127.0.0.1:9") as (_, session):
            with pytest.raises(RequestError, match="cannot be reached"):
                await said(session, "go")


class _Short(AgentExecutor):
    """An agent that ends each task with one state, and keeps the messages that it gets."""

    def __init__(self, *states: TaskState, text: str = "") -> None:
        self.states = list(states)
        self.text = text
        self.got: list[tuple[str, str]] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message
        self.got.append((context.task_id or "", context.get_user_input()))
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        message = updater.new_agent_message([Part(text=self.text)]) if self.text else None
        await updater.update_status(self.states.pop(0), message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@asynccontextmanager
async def connected(
    target: Any, **options: Any
) -> AsyncGenerator[tuple[accord.ConnectedAgent, accord.ClientSession], None]:
    here, there = pair()
    agent = as_agent(target)
    serving = asyncio.create_task(accord.serve(agent, there))
    try:
        async with accord.connect(here, versions=(2,), unstable=True, **options) as client:
            yield client, await client.new_session(Path.cwd())
    finally:
        await here.aclose()
        await asyncio.wait([serving], timeout=5)
        await agent.aclose()


@asynccontextmanager
async def served(executor: AgentExecutor, token: str | None = None) -> AsyncGenerator[Server, None]:
    server = Server(executor, token)
    try:
        yield server
    finally:
        await server.aclose()


async def said(session: accord.ClientSession, text: str) -> accord.ClientTurn:
    async with session.prompt(text) as turn:
        await turn.wait()
    return turn


async def test_question_in_words_is_a_form_or_the_next_prompt() -> None:
    asks, done = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_COMPLETED

    async def fill(form: Any) -> Any:
        assert form.message == "Which city?"
        return {"answer": "Rome"}

    for answer in (fill, None):
        remote = _Short(asks, done, text="Which city?")
        async with served(remote) as server:
            card = make_card(server.url)
            async with connected(card, on_elicit_form=answer) as (_, session):
                turn = await said(session, "Weather?")
                assert turn.stop_reason == "end_turn"
                if answer is None:
                    assert turn.text == "Which city?"
                    await said(session, "Rome")
        assert [text for _, text in remote.got] == ["Weather?", "Rome"]
        assert len({task for task, _ in remote.got}) == 1, "it is one task"


async def test_states_become_stop_reasons_or_errors() -> None:
    for state, text, reason in (
        (TaskState.TASK_STATE_COMPLETED, "All done", "end_turn"),
        (TaskState.TASK_STATE_REJECTED, "Not my job", "refusal"),
        (TaskState.TASK_STATE_FAILED, "Out of paper", None),
        (TaskState.TASK_STATE_AUTH_REQUIRED, "Log in at home", None),
    ):
        async with (
            served(_Short(state, text=text)) as server,
            connected(f"a2a+{server.url}") as (_, session),
        ):
            if reason is None:
                with pytest.raises(RequestError, match=text):
                    await said(session, "go")
            else:
                turn = await said(session, "go")
                assert (turn.text, turn.stop_reason) == (text, reason)


async def test_token_is_of_the_environment_and_for_the_server_of_the_card_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote = _Short(TaskState.TASK_STATE_COMPLETED, text="Hello")
    monkeypatch.delenv("A2A_TOKEN", raising=False)
    async with served(remote, "secret") as server:
        url = f"{server.url}/.well-known/agent-card.json"
        async with connected(url) as (_, session):
            with pytest.raises(RequestError, match="A2A_TOKEN"):
                await said(session, "go")
        monkeypatch.setenv("A2A_TOKEN", "secret")
        async with connected(url) as (_, session):
            assert (await said(session, "go")).text == "Hello"
        other = url.replace("127.0.0.1", "localhost")  # the card names another server
        async with connected(other) as (_, session):
            with pytest.raises(RequestError, match="is not sent there"):
                await said(session, "go")
    assert len(remote.got) == 1


async def test_client_of_the_library_is_an_agent() -> None:
    async with served(_Short(TaskState.TASK_STATE_COMPLETED, text="Hello")) as server:
        client = ClientFactory(ClientConfig(streaming=False)).create(make_card(server.url))
        async with client, connected(client) as (_, session):
            assert (await said(session, "go")).text == "Hello"


class _Kept(dict[str, list[Any]]):
    """Contexts in a file, written when a reply is made."""

    def __init__(self, file: Path) -> None:
        super().__init__(json.loads(file.read_text()) if file.exists() else {})
        self._file = file

    def setdefault(self, key: str, default: Any = None) -> Any:
        kept = self

        class Entries(list[Any]):
            def append(self, item: Any) -> None:
                super().append(item)
                kept[key] = self
                kept._file.write_text(json.dumps(kept))

        found = self[key] = Entries(self.get(key, default))
        return found
