"""The A2A gateway, used by the client of the library `a2a-sdk` over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec.structs import replace

from accord.remote.access import Access, Principal
from accord.remote.server import Stop
from accord.types.session import AvailableCommand, Implementation
from accord_bridges.gateways import gateway
from accord_bridges.gateways.turns import AgentSessions, GatewaySettings
from accord_terminal.sessions.named import open_session
from accord_terminal.sessions.records import Approvals, Store
from bridges.gateway_harness import AGENT, listening, named, stop_owners

pytest.importorskip("mcp", reason="the library `mcp` is not installed")
pytest.importorskip("a2a.server.routes", reason="the library `a2a-sdk` is not installed")
httpx: Any = pytest.importorskip("httpx", reason="the library `httpx` is not installed")

from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory  # noqa: E402
from a2a.types import (  # noqa: E402
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (  # noqa: E402
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.routing import Mount  # noqa: E402

from accord_bridges.gateways.a2a_tasks import push_origin  # noqa: E402
from accord_bridges.gateways.a2a_turns import _Reader  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

TOKEN = "the-token-of-the-test"
PNG = b"\x89PNG\r\n\x1a\n0000"
ASKS = "TASK_STATE_INPUT_REQUIRED"
DONE = "TASK_STATE_COMPLETED"


def said(
    *parts: str | Part, task: Task | None = None, context: str = "", **metadata: Any
) -> SendMessageRequest:
    message = Message(
        message_id=os.urandom(8).hex(),
        role=Role.ROLE_USER,
        parts=[Part(text=part) if isinstance(part, str) else part for part in parts],
        task_id="" if task is None else task.id,
        context_id=context,
    )
    message.metadata.update(metadata)
    return SendMessageRequest(message=message)


def data(value: dict[str, Any]) -> Part:
    part = Part()
    ParseDict(value, part.data)
    return part


def state_of(task: Task) -> str:
    return TaskState.Name(task.status.state)


def texts(task: Task) -> dict[str, str]:
    """The artifacts of a task."""
    return {one.name: "".join(part.text for part in one.parts) for one in task.artifacts}


def questions(task: Task) -> list[Mapping[str, Any]]:
    """What a task asks."""
    parts = task.status.message.parts
    return [MessageToDict(part.data) for part in parts if part.WhichOneof("content") == "data"]


def after(events: Sequence[StreamResponse]) -> Task:
    """The task that the events of a stream say, as any client puts it together."""
    task = Task()
    for event in events:
        match event.WhichOneof("payload"):
            case "task":
                task.CopyFrom(event.task)
            case "status_update":
                task.status.CopyFrom(event.status_update.status)
                task.metadata.update(MessageToDict(event.status_update.metadata))
            case "artifact_update":
                update = event.artifact_update
                for one in task.artifacts:
                    if one.artifact_id == update.artifact.artifact_id:
                        if not update.append:
                            one.CopyFrom(update.artifact)
                        else:
                            one.parts.extend(update.artifact.parts)
                        break
                else:
                    assert not update.append
                    task.artifacts.append(update.artifact)
            case other:
                raise AssertionError(other)
    return task


class Caller:
    """A client of a gateway."""

    def __init__(self, url: str, token: str = TOKEN, agent: str = "caller") -> None:
        self.url = url
        self.agent = agent
        self.http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        )
        self.client: Client

    async def __aenter__(self) -> Self:
        # The real card starts the agent to look at it.
        here = AgentInterface(
            url=f"{self.url}/a2a/{self.agent}", protocol_binding="JSONRPC", protocol_version="1.0"
        )
        card = AgentCard(
            supported_interfaces=[here], capabilities=AgentCapabilities(streaming=True)
        )
        self.client = ClientFactory(ClientConfig(httpx_client=self.http)).create(card)
        polling = ClientConfig(httpx_client=self.http, streaming=False)
        self.polling = ClientFactory(polling).create(card)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.http.aclose()

    async def card(self, path: str = "/a2a/caller") -> AgentCard:
        return await A2ACardResolver(self.http, f"{self.url}{path}").get_agent_card()

    async def stream(self, request: SendMessageRequest) -> list[StreamResponse]:
        return [event async for event in self.client.send_message(request)]

    async def send(self, *parts: str | Part, **options: Any) -> Task:
        """Send a message by streaming; return the task as it then is."""
        return after(await self.stream(said(*parts, **options)))

    async def ask(self, *parts: str | Part, **options: Any) -> Task:
        """Send a message without streaming."""
        async for event in self.polling.send_message(said(*parts, **options)):
            return event.task
        raise AssertionError("no response")

    async def begin(self, *parts: str | Part, **options: Any) -> Task:
        """Send a message, and leave."""
        request = said(*parts, **options)
        request.configuration.return_immediately = True
        async for event in self.polling.send_message(request):
            return event.task
        raise AssertionError("no response")

    async def get(self, task: Task) -> Task:
        return await self.client.get_task(GetTaskRequest(id=task.id))

    async def until(self, task: Task, holds: Callable[[Task], bool]) -> Task:
        async with asyncio.timeout(20):
            while not holds(found := await self.get(task)):
                await asyncio.sleep(0)
        return found


class Gateway(Caller):
    """A gateway that listens, and a client of it."""

    def __init__(self, url: str, sessions: AgentSessions, stop: Stop) -> None:
        super().__init__(url)
        self.sessions = sessions
        self.stop = stop


@asynccontextmanager
async def serving(
    state: Path, *, access: Access | None = None, push: Sequence[str] = (), **settings: Any
) -> AsyncGenerator[Gateway, None]:
    agents = {name: named(name) for name in ("caller", "other")}
    decided = replace(GatewaySettings(cwd=state / "work", idle_s=30), **settings)
    app = gateway(agents, access or Access(token=TOKEN), decided, only=["a2a"], push_hosts=push)
    async with listening(app) as (url, stop), Gateway(url, app.sessions, stop) as gate:
        yield gate


async def test_card_has_the_agent_its_commands_and_the_login(state: Path) -> None:
    async with serving(state) as gate:
        card = await gate.card()
        assert card.name == "caller"
        assert [skill.name for skill in card.skills] == ["Work on a task", "/count"]
        assert list(card.skills[1].examples) == ["/count to a number"]
        [interface, *_] = card.supported_interfaces
        assert interface.url == f"{gate.url}/a2a/caller"
        assert (interface.protocol_binding, interface.protocol_version) == ("JSONRPC", "1.0")
        assert card.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
        assert card.capabilities.streaming
        assert not card.capabilities.push_notifications
        assert (await gate.card("")).name == "caller"
        assert (await gate.card("/a2a/other")).name == "other"
        async with asyncio.timeout(30):
            while list(Store()):  # the agents are only looked at
                await asyncio.sleep(0)
        for path in ("/.well-known/agent-card.json", "/a2a/caller"):
            assert (await httpx.AsyncClient().get(gate.url + path)).status_code == 401


async def test_card_has_the_address_of_its_request(state: Path) -> None:
    access = Access(token=TOKEN, origins=["https://a.example"])
    inner = gateway({"caller": named("caller")}, access, GatewaySettings())
    inner.sessions.look = _looked
    outer = Starlette(routes=[Mount("/agents", app=inner)])
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(outer), base_url="http://127.0.0.1"
        ) as http:
            headers = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-Proto": "https"}
            found = await http.get(
                "/agents/a2a/caller/.well-known/agent-card.json", headers=headers
            )
            assert found.json()["url"] == "http://127.0.0.1/agents/a2a/caller"
            asked = {
                "Origin": "https://a.example",
                "Access-Control-Request-Method": "POST",
            }
            preflight = await http.options("/agents/a2a/caller", headers=asked)
            allowed = preflight.headers["access-control-allow-headers"].split(", ")
            wanted = {"Acp-Cwd", "Mcp-Session-Id", "Mcp-Protocol-Version", "A2A-Version"}
            assert wanted <= set(allowed)
            assert "Mcp-Session-Id" in preflight.headers["access-control-expose-headers"]
    finally:
        await inner.drain(0)
        await inner.drain(0)  # as a server does that is stopped twice


@pytest.mark.parametrize(
    ("public", "host"),
    [
        ("https://agents.example/", "agents.example"),
        ("https://agents.example:8443/team", "agents.example:8443"),
    ],
)
async def test_card_behind_a_proxy_has_the_public_address(
    state: Path, public: str, host: str
) -> None:
    app = gateway(
        {"caller": named("caller")}, Access(token=TOKEN), GatewaySettings(), public_url=public
    )
    app.sessions.look = _looked
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8766"
        ) as http:
            headers = {
                "Authorization": f"Bearer {TOKEN}",
                "X-Forwarded-Host": "evil.example",
                "X-Forwarded-Proto": "http",
                "Forwarded": "host=evil.example;proto=http",
            }
            for name in (host, "127.0.0.1:8766"):  # as the proxy passes the host on, or does not
                found = await http.get(
                    "/a2a/caller/.well-known/agent-card.json", headers={**headers, "Host": name}
                )
                urls = {one["url"] for one in found.json()["supportedInterfaces"]}
                assert urls == {f"{public.rstrip('/')}/a2a/caller"}
            other = await http.get("/v1/models", headers={**headers, "Host": "evil.example"})
            assert other.status_code == 421
    finally:
        await app.drain(0)


@pytest.mark.parametrize(
    "url",
    [
        "agents.example",
        "ftp://agents.example",
        "https://",
        "https://a.example/?x=1",
        "https://me@a.example",
        "https://a.example:port",
        "https://a.example/\n",
        "https://a b.example",
    ],
)
def test_public_url_is_that_of_a_gateway(url: str, state: Path) -> None:
    with pytest.raises(ValueError, match=r"Expected the URL|Expected the name of a host"):
        gateway({"caller": named("caller")}, Access(token=TOKEN), GatewaySettings(), public_url=url)


async def _looked(agent: str) -> tuple[Implementation, Sequence[AvailableCommand]]:
    return Implementation(agent, "1"), ()


async def test_stream_has_text_thoughts_plan_edits_and_tool_calls(state: Path) -> None:
    async with serving(state, approvals=Approvals(allow=("edit",))) as gate:
        request = said("think hm\nsay one\nsay two\nplans first second\nedit")
        events = await gate.stream(request)
        assert events[0].WhichOneof("payload") == "task"
        task = after(events)
        assert state_of(task) == DONE
        assert texts(task)["response"] == "onetwoallowed"
        assert texts(task)["thoughts"] == "hm"
        plans = [
            event.artifact_update
            for event in events
            if event.artifact_update.artifact.name == "plan"
        ]
        assert len(plans) == 2
        assert not any(plan.append for plan in plans)
        [plan] = [one for one in task.artifacts if one.name == "plan"]
        assert plan.parts[0].text == "- [x] first\n- [ ] second"
        assert MessageToDict(plan.parts[1].data)["entries"][0]["status"] == "completed"
        [edit] = [one for one in task.artifacts if one.name == "edit /notes.txt"]
        assert "+b" in edit.parts[0].text
        working = [
            MessageToDict(event.status_update.status.message.parts[1].data)
            for event in events
            if event.status_update.status.message.parts
        ]
        assert [one["status"] for one in working][-1] == "completed"
        assert {one["title"] for one in working} == {"Edit notes"}
        about = MessageToDict(task.metadata)["acp"]
        assert about["stopReason"] == "end_turn"
        assert about["usage"]["totalTokens"] == 12
        assert about["sessionId"] == task.context_id
        stored = await gate.get(task)
        assert texts(stored) == texts(task)
        assert state_of(stored) == DONE
        assert [one.role for one in stored.history] == [Role.ROLE_USER]
        short = await gate.client.get_task(GetTaskRequest(id=task.id, history_length=0))
        assert not short.history


async def test_context_is_a_session_for_one_task_after_another(state: Path) -> None:
    async with serving(state) as gate:
        first = await gate.ask("pid")
        pid, context = texts(first)["response"], first.context_id
        assert pid.isdecimal()
        more = await gate.send("pid", context=context)
        assert (texts(more)["response"], more.context_id) == (pid, context)
        assert more.id != first.id
        # A caller may name a context.
        named = await gate.ask("pid", context="mine")
        again = await gate.ask("pid", context="mine")
        assert named.context_id == again.context_id == "mine"
        assert texts(named) == texts(again) != texts(first)
        # A person can take over.
        async with open_session(context, create=False) as shared:
            async with shared.session.prompt("pid") as turn:
                await turn.wait()
            assert turn.text == pid
        with pytest.raises(InvalidParamsError, match="Unknown session"):
            await gate.ask("pid", context="s-0123456789abcdef")


async def test_permission_is_asked_for_and_answered_by_id_kind_or_word(state: Path) -> None:
    async with serving(state) as gate:
        for answer in ("by id", "allow_once", "Allow", "reject"):
            task = await gate.send("edit")
            assert state_of(task) == ASKS
            [question] = questions(task)
            assert (question["type"], question["title"]) == ("permission", "Edit notes")
            assert "+b" in question["diffs"][0]["patch"]
            by_kind = {option["kind"]: option["id"] for option in question["options"]}
            with pytest.raises(InvalidParamsError, match="expected one of"):
                await gate.ask("perhaps", task=task)
            with pytest.raises(InvalidParamsError, match="expected an answer"):
                await gate.ask(data({"id": "call_0", "option": "x"}), task=task)
            part: str | Part = answer
            if answer == "by id":
                part = data({"id": question["id"], "option": by_kind["allow_once"]})
            ended = await gate.send(part, task=task)
            assert ended.id == task.id
            assert state_of(ended) == DONE
            expected = "rejected" if answer == "reject" else "allowed"
            assert texts(ended)["response"] == expected
            assert len(ended.history) >= 1
            stored = await gate.get(task)
            assert [one.role for one in stored.history] == [
                Role.ROLE_USER, Role.ROLE_AGENT, Role.ROLE_USER,
            ]  # fmt: skip


async def test_forms_and_urls_are_asked_for(state: Path) -> None:
    async with serving(state) as gate:
        task = await gate.ask("size")
        [question] = questions(task)
        assert question["type"] == "form"
        assert [field["name"] for field in question["fields"]] == ["number", "unit"]
        with pytest.raises(InvalidParamsError, match="number is missing"):
            await gate.ask(data({"id": question["id"], "values": {}}), task=task)
        values = {"number": 3, "unit": "m"}
        ended = await gate.ask(data({"id": question["id"], "values": values}), task=task)
        assert texts(ended)["response"] == "3 m"
        task = await gate.ask("size")
        assert texts(await gate.ask("decline", task=task))["response"] == "declined"
        task = await gate.ask("url")
        [question] = questions(task)
        assert question["url"] == "https://example.com/login"
        ended = await gate.ask(data({"id": question["id"], "accepted": True}), task=task)
        assert texts(ended)["response"] == "opened"


async def test_turn_outlives_its_connection_and_is_subscribed_to(state: Path) -> None:
    async with serving(state) as gate:
        stream: Any = gate.client.send_message(said("say one\nedit\nsay two"))
        task = (await anext(stream)).task
        await stream.aclose()
        asked = await gate.until(task, lambda found: state_of(found) == ASKS)
        watching = gate.client.subscribe(SubscribeToTaskRequest(id=task.id))
        events = [await anext(watching)]
        assert texts(events[0].task)["response"] == "one"
        await gate.ask("allow", task=asked)
        events += [event async for event in watching]
        found = after(events)
        assert (state_of(found), texts(found)["response"]) == (DONE, "oneallowedtwo")
        with pytest.raises(UnsupportedOperationError, match=DONE):
            [_ async for _ in gate.client.subscribe(SubscribeToTaskRequest(id=task.id))]


async def test_cancel_ends_the_turn_and_the_next_one_works(state: Path) -> None:
    async with serving(state) as gate:
        for words in ("wait", "edit"):
            task = await gate.begin(words)
            await gate.until(
                task, lambda found: bool(found.artifacts or found.status.message.parts)
            )
            cancelled = await gate.client.cancel_task(CancelTaskRequest(id=task.id))
            assert state_of(cancelled) == "TASK_STATE_CANCELED"
            with pytest.raises(TaskNotCancelableError):
                await gate.client.cancel_task(CancelTaskRequest(id=task.id))
            more = await gate.ask("say next", context=task.context_id)
            assert texts(more)["response"] == "next"
            assert state_of(more) == DONE


async def test_tasks_are_listed_by_pages_contexts_and_states(state: Path) -> None:
    async with serving(state) as gate:
        tasks = [await gate.ask("say a") for _ in range(2)]
        tasks.append(await gate.ask("edit", context=tasks[0].context_id))
        page = await gate.client.list_tasks(ListTasksRequest(page_size=2))
        assert [task.id for task in page.tasks] == [tasks[2].id, tasks[1].id]
        assert (page.total_size, page.tasks[1].artifacts) == (3, [])
        rest = await gate.client.list_tasks(ListTasksRequest(page_token=page.next_page_token))
        assert [task.id for task in rest.tasks] == [tasks[0].id]
        here = ListTasksRequest(context_id=tasks[0].context_id, include_artifacts=True)
        found = await gate.client.list_tasks(here)
        assert [task.id for task in found.tasks] == [tasks[2].id, tasks[0].id]
        assert texts(found.tasks[1]) == {"response": "a"}
        asking = ListTasksRequest(status=TaskState.TASK_STATE_INPUT_REQUIRED)
        found = await gate.client.list_tasks(asking)
        assert [task.id for task in found.tasks] == [tasks[2].id]
        for wrong in (ListTasksRequest(page_size=1000), ListTasksRequest(page_token="x")):
            with pytest.raises(InvalidParamsError, match="expected"):
                await gate.client.list_tasks(wrong)
        await gate.ask("allow", task=tasks[2])


async def test_principals_see_only_their_tasks_and_agents_only_theirs(state: Path) -> None:
    def login(request: Any) -> Principal | None:
        given = request.headers.get("authorization", [""])[0].removeprefix("Bearer ")
        return Principal("ann") if given == TOKEN else Principal("bob") if given == "bob" else None

    async with (
        serving(state, access=Access(authenticate=login)) as ann,
        Caller(ann.url, "bob") as bob,
    ):
        task = await ann.ask("edit")
        context = task.context_id
        assert not (await bob.client.list_tasks(ListTasksRequest())).tasks
        unknown = (
            bob.get(task),
            bob.client.cancel_task(CancelTaskRequest(id=task.id)),
            bob.ask("allow", task=task),
            anext(bob.client.subscribe(SubscribeToTaskRequest(id=task.id))),
        )
        for call in unknown:
            with pytest.raises(TaskNotFoundError):
                await call
        with pytest.raises(InvalidParamsError, match="Unknown session"):
            await bob.ask("say .", context=context)
        # The same words are another context.
        await ann.ask("say .", context="mine")
        assert (await bob.ask("prompt", context="mine")).context_id == "mine"
        owners = {record.id for record in Store()}
        assert len(owners) == 3
        # An agent does not know the tasks and contexts of another one.
        card = await ann.card("/a2a/other")
        other = ClientFactory(ClientConfig(httpx_client=ann.http)).create(card)
        with pytest.raises(TaskNotFoundError):
            await other.get_task(GetTaskRequest(id=task.id))
        with pytest.raises(InvalidParamsError, match="of another agent"):
            await anext(other.send_message(said("say .", context=context)))
        await ann.client.cancel_task(CancelTaskRequest(id=task.id))


async def test_files_and_data_of_messages_reach_the_agent(state: Path) -> None:
    async with serving(state, roots=(state / "work",)) as gate:
        image = Part(raw=PNG, media_type="image/png", filename="a.png")
        assert texts(await gate.ask(image, "say ."))["response"] == "1 image(s). ."
        shown = await gate.ask("prompt", data({"a": [1]}))
        assert '"a": [' in texts(shown)["response"]
        with pytest.raises(InvalidParamsError, match=r"parts\[1\].raw: expected a PNG"):
            await gate.ask("say .", Part(raw=b"hello", media_type="image/png"))
        with pytest.raises(InvalidParamsError, match="below"):
            await gate.ask("say .", cwd="/")
        (state / "work" / "inner").mkdir()
        found = await gate.ask("say .", cwd=str(state / "work" / "inner"))
        assert Store().read(found.context_id).cwd == str(state / "work" / "inner")


# Faults.


async def test_agent_that_dies_fails_its_task_alone(state: Path) -> None:
    async with serving(state) as gate:
        hanging = await gate.begin("wait")
        failed = await gate.ask("die")
        assert state_of(failed) == "TASK_STATE_FAILED"
        assert "The agent caller failed" in failed.status.message.parts[0].text
        more = await gate.ask("say on", context=failed.context_id)
        assert texts(more)["response"] == "on"
        assert state_of(await gate.get(hanging)) == "TASK_STATE_WORKING"
        # What the agent does not do is not called completed.
        cut = await gate.ask("stop max_tokens", context=failed.context_id)
        assert state_of(cut) == "TASK_STATE_FAILED"
        assert "max_tokens" in cut.status.message.parts[0].text
        refused = await gate.ask("stop refusal", context=failed.context_id)
        assert state_of(refused) == "TASK_STATE_REJECTED"
        await gate.client.cancel_task(CancelTaskRequest(id=hanging.id))


async def test_messages_at_once_wait_or_are_refused(state: Path) -> None:
    async with serving(state, waiting=1) as gate:
        first = await gate.begin("wait")
        await gate.until(first, lambda now: bool(now.artifacts))
        second = await gate.begin("say second", context=first.context_id)
        assert state_of(second) == "TASK_STATE_SUBMITTED"
        with pytest.raises(Exception, match="try again later"):
            await gate.begin("say third", context=first.context_id)
        # A task takes messages only when it asks.
        with pytest.raises(UnsupportedOperationError, match="asks nothing"):
            await gate.ask("say more", task=first)
        with pytest.raises(InvalidParamsError, match="is in the context"):
            await gate.ask("say more", task=first, context="mine")
        await gate.client.cancel_task(CancelTaskRequest(id=first.id))
        ended = await gate.until(second, lambda now: state_of(now) == DONE)
        assert texts(ended)["response"] == "second"
        with pytest.raises(UnsupportedOperationError, match=DONE):
            await gate.ask("say more", task=second)
        # Of two answers at once, one counts.
        asking = await gate.ask("edit", context=first.context_id)
        answers = [gate.ask(word, task=asking) for word in ("allow", "reject")]
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(one) for one in found].count(UnsupportedOperationError) == 1
        assert gate.sessions.running_turns == 0


async def test_malformed_requests_fail_alone_in_the_form_of_the_protocol(state: Path) -> None:
    async with serving(state) as gate:

        async def posted(body: bytes, path: str = "/a2a/caller", **headers: str) -> tuple[int, Any]:
            headers = {"A2A-Version": "1.0", "Content-Type": "application/json", **headers}
            found = await gate.http.post(gate.url + path, content=body, headers=headers)
            return found.status_code, found.json().get("error")

        async def code(method: str, params: Any) -> int:
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return (await posted(json.dumps(request).encode()))[1]["code"]

        assert (await posted(b"{"))[1]["code"] == -32700
        assert (await posted(b"[]"))[1]["code"] == -32600
        assert await code("Nothing", {}) == -32601
        assert await code("SendMessage", {"message": 3}) == -32602
        assert await code("SendMessage", {"message": {"messageId": "1", "parts": []}}) == -32602
        assert await code("GetTask", {"id": "x"}) == -32001
        assert await code("SubscribeToTask", {"id": ""}) in (-32001, -32602)
        assert (await posted(b"{}", "/a2a/nobody"))[0] == 404
        assert (await posted(b" " * (16 * 1024 * 1024 + 1)))[0] == 413
        wrong, error = await posted(b"{}", Authorization="Bearer wrong")
        assert (wrong, error["code"]) == (401, 401)
        assert (await posted(b"{}", Origin="https://evil.example"))[0] == 403
        # The binding of HTTP and JSON is there, too.
        message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "say hello"}]}
        found = await gate.http.post(
            f"{gate.url}/a2a/caller/message:send",
            json={"message": message},
            headers={"A2A-Version": "1.0"},
        )
        task = found.json()["task"]
        assert task["artifacts"][0]["parts"][0]["text"] == "hello"
        again = await gate.http.get(
            f"{gate.url}/a2a/caller/tasks/{task['id']}", headers={"A2A-Version": "1.0"}
        )
        assert again.json()["status"]["state"] == DONE


async def test_what_callers_leave_is_bounded(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord_bridges.gateways.a2a_tasks._KEPT", 1)
    monkeypatch.setattr("accord_bridges.gateways.a2a_turns._EVENTS", 10)
    async with serving(state) as gate:
        with pytest.raises(InvalidParamsError, match="contextId: expected at most 500"):
            await gate.ask("say .", context="c" * 501)
        request = said("say .")
        request.message.message_id = "m" * 501
        with pytest.raises(InvalidParamsError, match="messageId: expected at most 500"):
            await gate.stream(request)
        assert gate.sessions.running_turns == 0
        await gate.ask("say 1", context="first")
        await gate.ask("say 2", context="second")
        await gate.ask("say 3", context="second")
        rows = gate.sessions.database.execute("SELECT context FROM a2a_contexts").fetchall()
        assert rows == [("second",)]

    reader = _Reader(until_question=False)
    for _ in range(11):
        reader.put(TaskStatusUpdateEvent())
    assert not reader._items
    reader.put(TaskStatusUpdateEvent())
    reader.put_text(Task(), "response", "text")
    assert not reader._items
    with pytest.raises(InternalError, match="subscribe again"):
        await reader.next()


async def test_slow_subscriber_gets_everything_and_stops_nobody(state: Path) -> None:
    async with serving(state) as gate:
        stream = gate.client.send_message(said("many 5000"))
        events = [await anext(stream)]  # and reads no more for now
        async with asyncio.timeout(40):
            while gate.sessions.running_turns:
                await asyncio.sleep(0.01)
        events += [event async for event in stream]
        assert texts(after(events))["response"] == "x " * 5_000
        assert len(events) < 5_000


async def test_nobody_answers_in_time(state: Path) -> None:
    async with serving(state, answer_s=0.2) as gate:
        task = await gate.ask("edit")
        ended = await gate.until(task, lambda now: state_of(now) != ASKS)
        assert state_of(ended) == "TASK_STATE_CANCELED"


async def test_task_of_a_killed_gateway_is_failed_and_its_context_goes_on(state: Path) -> None:
    (state / "token").write_text(TOKEN)
    (state / "token").chmod(0o600)
    command = [sys.executable, "-m", "accord", "gateway", "--only", "a2a", "--port", "0"]
    command += ["--token-file", str(state / "token"), "--cwd", str(state / "work"), "--idle", "30"]
    command += ["--", sys.executable, str(AGENT), "caller"]

    @asynccontextmanager
    async def program() -> AsyncGenerator[tuple[asyncio.subprocess.Process, str]]:
        started = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert started.stderr is not None
        try:
            found = None
            while found is None:
                line = (await started.stderr.readline()).decode()
                assert line, "it has ended"
                found = re.search(r"http://127.0.0.1:\d+/a2a/\S+", line)
            yield started, found[0]
        finally:
            with suppress(ProcessLookupError):
                started.kill()
            await started.communicate()

    try:
        async with program() as (killed, url):
            async with Caller(url.partition("/a2a/")[0], agent=url.rpartition("/")[2]) as caller:
                done = await caller.ask("say kept")
                running = await caller.begin("say half\nwait")
                await caller.until(running, lambda now: "waiting" in texts(now).get("response", ""))
            killed.send_signal(signal.SIGKILL)
            await killed.wait()
        async with program() as (_, url):  # noqa: SIM117
            async with Caller(url.partition("/a2a/")[0], agent=url.rpartition("/")[2]) as caller:
                assert texts(await caller.get(done)) == {"response": "kept"}
                failed = await caller.get(running)
                assert state_of(failed) == "TASK_STATE_FAILED"
                assert failed.context_id in failed.status.message.parts[0].text
                assert texts(failed)["response"].startswith("half")
                page = await caller.client.list_tasks(ListTasksRequest())
                assert [task.id for task in page.tasks] == [running.id, done.id]
                more = await caller.ask("say on", context=done.context_id)
                assert texts(more) == {"response": "on"}
    finally:
        await stop_owners()


# Push notifications.


async def test_states_are_sent_to_allowed_hosts_only(state: Path) -> None:
    heard: list[tuple[dict[str, str], Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        heard.append(({**headers, "path": head[0].split()[1]}, json.loads(body)))
        # It is not followed.
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /evil\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    hooks = await asyncio.start_server(serve, "127.0.0.1", 0)
    host = f"127.0.0.1:{hooks.sockets[0].getsockname()[1]}"
    async with hooks, serving(state, push=[f"http://{host}"]) as gate:
        request = said("edit")
        config = TaskPushNotificationConfig(url=f"http://{host}/hook", token="secret")
        config.authentication.scheme = "Bearer"
        config.authentication.credentials = "login"
        request.configuration.task_push_notification_config.CopyFrom(config)
        task = after(await gate.stream(request))
        listed = await gate.client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert [one.url for one in listed.configs] == [config.url]
        await gate.ask("allow", task=task)
        async with asyncio.timeout(20):
            while len(heard) < 3:
                await asyncio.sleep(0)
        states = [body["statusUpdate"]["status"]["state"] for _, body in heard]
        assert states == [ASKS, "TASK_STATE_WORKING", DONE]
        assert {headers["path"] for headers, _ in heard} == {"/hook"}
        assert heard[0][0]["x-a2a-notification-token"] == "secret"
        assert heard[0][0]["authorization"] == "bearer login"
        delete = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=task.id)
        await gate.client.delete_task_push_notification_config(delete)
        for scheme in ("é", "Bearer\r\nX: y", "x" * 101):
            wrong = TaskPushNotificationConfig(task_id=task.id, url=config.url)
            wrong.authentication.scheme = scheme
            with pytest.raises(InvalidParamsError, match="scheme: expected"):
                await gate.client.create_task_push_notification_config(wrong)
        for url in (
            "http://127.0.0.1/hook",
            f"https://{host}/hook",
            f"http://user@{host}/hook",
            f"http://{host}.evil.example/hook",
            f"http://evil.example#@{host}/",
            f"http://[::ffff:127.0.0.1]:{host.rpartition(':')[2]}/hook",
            f"http://{host}/\r\nX: y",
            "file:///etc/passwd",
            "http://localhost/latest",
            "x" * 5000,
        ):
            with pytest.raises(InvalidParamsError):
                await gate.client.create_task_push_notification_config(
                    TaskPushNotificationConfig(task_id=task.id, url=url)
                )
    assert len(heard) == 3


async def test_without_allowed_hosts_there_are_no_notifications(state: Path) -> None:
    for wrong in ("", "ftp://host", "https://host/path", "a b"):
        with pytest.raises(ValueError, match="push notifications"):
            push_origin(wrong)
    assert push_origin("Hooks.example") == ("https", "hooks.example", 443)
    async with serving(state) as gate:
        request = said("say .")
        request.configuration.task_push_notification_config.url = "https://example.com"
        with pytest.raises(PushNotificationNotSupportedError, match="--push-host"):
            await gate.stream(request)
        assert gate.sessions.running_turns == 0
