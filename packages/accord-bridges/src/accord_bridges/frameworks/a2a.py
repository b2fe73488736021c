"""Remote A2A agents as agents: `a2a+https://host/…`, the URL of a card, a card, or a client.

A session is a context of the agent, a turn is a task. What the agent asks is asked of the user: a
permission or a form if it says so as `accord gateway` does, else a question in words. A question
that the client has no form for is said, and the next prompt answers it.

The token is A2A_TOKEN, which is sent to the server of the card only. Settings: `token_variable`,
another name for it; `http`, an `httpx.AsyncClient` of your own; `metadata`, sent with each message.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
    TaskStatus,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from accord import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    NotOffered,
    PlanEntry,
    ResourceLink,
)
from accord.types.content import text_of
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, Options
from accord_bridges.run import Question, Run

_WELL_KNOWN = "/.well-known/agent-card.json"
_FINAL = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
}
_ASKS = TaskState.TASK_STATE_INPUT_REQUIRED
_RESTS = {*_FINAL, _ASKS, TaskState.TASK_STATE_AUTH_REQUIRED}
_THOUGHTS = frozenset(("thought", "thoughts", "thinking", "reasoning"))
_CANCEL_S = 5.0
_POLL_S = 1.0
_TRIES = 3  # to follow a task whose stream has broken
_SAID = 40_000  # characters of a conversation that a copy of a session is told
_KINDS = {"integer": int, "number": float, "boolean": bool, "choices": list[str]}


class A2aAgent(BridgedAgent):
    """An agent whose turns are tasks of a remote agent."""

    prompt_capabilities = frozenset({"image", "audio", "resource"})
    takes_models = False
    takes_editor_tools = False
    knows_settings = frozenset({"token_variable", "http", "metadata"})

    def __init__(self, target: Any, options: Options | None = None) -> None:
        self._client: Client | None = target if isinstance(target, Client) else None
        self._connecting = asyncio.Lock()
        self._own_http: httpx.AsyncClient | None = None
        super().__init__(target, options)

    def default_name(self) -> str:
        """Return the name on the card, or the host."""
        if isinstance(self.target, AgentCard):
            return self.target.name
        if isinstance(self.target, str):
            return urlsplit(self.target).netloc.rpartition("@")[2]
        return "A2A agent"

    async def aclose(self) -> None:
        """Close the connections to the agent."""
        await super().aclose()
        if self._own_http is not None:
            await self._own_http.aclose()

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        settings = self.options.settings
        name = settings.get("token_variable", "A2A_TOKEN")
        token = os.environ.get(name)
        http = settings.get("http")
        if http is None:
            if self._own_http is not None:
                await self._own_http.aclose()
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            http = self._own_http = httpx.AsyncClient(
                headers=headers, timeout=httpx.Timeout(30, read=None)
            )
        card: AgentCard = self.target
        if isinstance(self.target, str):
            url = self.target.removeprefix("a2a+")
            base, known, _ = url.partition(_WELL_KNOWN)
            path = "" if known or not url.endswith(".json") else urlsplit(url).path
            if path:
                base = url.removesuffix(path)
            answer = await http.get(url if known or path else f"{base.rstrip('/')}{_WELL_KNOWN}")
            if answer.status_code in (401, 403):
                raise RuntimeError(
                    f"{urlsplit(url).netloc} wants a login ({answer.status_code}): set {name}, an"
                    " API key or a token, in the environment of this agent"
                )
            answer.raise_for_status()
            resolver = A2ACardResolver(http, base, agent_card_path=path or _WELL_KNOWN)
            card = await resolver.get_agent_card()
            if token is not None:
                _check_origins(url, card, name)
        return ClientFactory(ClientConfig(httpx_client=http)).create(card)

    async def answer(self, run: Run) -> StopReason | None:
        client = await self._connected()
        memory: dict[str, Any] = dict(run.remembered or {})
        parts = [_part(block) for block in run.content]
        if memory.get("session", run.session.id) != run.session.id:  # a copy of a session
            said = "\n\n".join(f"{who}: {text}" for who, text in memory.get("said", ()))
            parts.insert(0, Part(text=f"The conversation so far:\n\n{said}\n\n---\n\n"))
            memory = {"said": memory.get("said", [])}
        memory["session"] = run.session.id
        turn = _TaskTurn(run, client, memory)
        memory.setdefault("said", []).append(["user", run.text])
        try:
            reason = await turn.send(parts, self.options.settings.get("metadata"))
            while turn.state == _ASKS:
                answers = await turn.answers()
                if answers is None:
                    break
                reason = await turn.send(answers, None)
            return reason
        except asyncio.CancelledError:
            await turn.cancel()
            raise
        finally:
            memory["said"] = _shortened([*memory["said"], ["agent", "".join(turn.said)]])
            await run.remember(memory)


def _check_origins(url: str, card: AgentCard, name: str) -> None:
    """Raise `RuntimeError` if the token would be sent to another server than that of the card."""
    here = urlsplit(url)
    for one in card.supported_interfaces:
        there = urlsplit(one.url)
        if (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise RuntimeError(
                f"The card of {here.netloc} names another server, {there.scheme}://{there.netloc}:"
                f" {name} is not sent there. Use that server's own card, or no token"
            )


def _shortened(said: list[list[str]]) -> list[list[str]]:
    """Return the end of a conversation."""
    left = _SAID
    kept: list[list[str]] = []
    for who, text in reversed(said):
        kept.insert(0, [who, text[-left:]])
        left -= len(text)
        if left <= 0:
            break
    return kept


class _TaskTurn:
    """The task of a turn, as the run shows it."""

    def __init__(self, run: Run, client: Client, memory: dict[str, Any]) -> None:
        self.state: Any = TaskState.TASK_STATE_UNSPECIFIED
        self.said: list[str] = []
        self._run = run
        self._client = client
        self._memory = memory
        self._status = TaskStatus()
        self._task: str | None = memory.pop("task", None)  # one that waits for an answer
        self._texts: dict[str, str] = {}  # of artifacts
        self._calls = 0
        self._names: dict[str, str] = {}  # of the tools of calls

    async def send(self, parts: Sequence[Part], metadata: Any) -> StopReason | None:
        """Send a message, and show what happens until the task rests."""
        message = Message(
            message_id=secrets.token_hex(16),
            role=Role.ROLE_USER,
            parts=parts,
            context_id=self._memory.get("context", ""),
            task_id=self._task or "",
        )
        if metadata:
            message.metadata.update(metadata)
        self.state = TaskState.TASK_STATE_SUBMITTED
        await self._follow(self._client.send_message(SendMessageRequest(message=message)))
        tries = 0
        while self._task is not None and self.state not in _RESTS:
            tries += 1
            if tries > _TRIES:
                raise RuntimeError(f"The task {self._task} cannot be followed to its end")
            await self._follow(self._rest())
        return await self._ended()

    async def _rest(self) -> AsyncGenerator[StreamResponse, None]:
        """Yield what happens to a task that is not streamed any more."""
        assert self._task is not None
        try:
            stream = self._client.subscribe(SubscribeToTaskRequest(id=self._task))
            async for event in stream:
                yield event
            return
        except (httpx.HTTPError, NotImplementedError):
            pass
        except Exception:  # noqa: BLE001  # it has ended meanwhile, or cannot be subscribed to
            pass
        while True:
            task = await self._client.get_task(GetTaskRequest(id=self._task))
            yield StreamResponse(task=task)
            if task.status.state in _RESTS:
                return
            await asyncio.sleep(_POLL_S)

    async def _follow(self, stream: Any) -> None:
        try:
            async with aclosing(stream) as events:
                await self._first(events)
                async for event in events:
                    await self._take(event)
        except Exception as error:
            broken = isinstance(error.__cause__ or error, httpx.HTTPError)
            if self._task is None or not broken:
                raise

    async def _first(self, events: Any) -> None:
        """Take the first event, also if the turn is cancelled: it has the ids to cancel."""
        first = asyncio.ensure_future(anext(events, None))
        try:
            await asyncio.shield(first)
        except asyncio.CancelledError:
            await asyncio.wait([first], timeout=_CANCEL_S)
            if first.done() and not first.cancelled() and first.exception() is None:
                event = first.result()
                if event is not None and event.WhichOneof("payload") == "task":
                    self._task, self._memory["context"] = event.task.id, event.task.context_id
            first.cancel()
            await asyncio.wait([first])
            raise
        event = first.result()
        if event is not None:
            await self._take(event)

    async def _take(self, event: StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "message":
                self._memory["context"] = event.message.context_id
                self.state = TaskState.TASK_STATE_COMPLETED
                await self._show("message", "message", event.message.parts, append=False)
            case "task":
                task = event.task
                self._task = task.id
                self._memory["context"] = task.context_id
                for artifact in task.artifacts:
                    name = artifact.name or artifact.artifact_id
                    await self._show(artifact.artifact_id, name, artifact.parts, append=False)
                await self._set(task.status, task)
            case "status_update":
                await self._set(event.status_update.status, event.status_update)
            case "artifact_update":
                update = event.artifact_update
                artifact = update.artifact
                name = artifact.name or artifact.artifact_id
                await self._show(artifact.artifact_id, name, artifact.parts, append=update.append)
            case _:
                pass

    # Artifacts.

    async def _show(
        self, artifact_id: str, name: str, parts: Sequence[Part], *, append: bool
    ) -> None:
        """Show parts of an artifact, without what was shown of it already."""
        run = self._run
        if name == "plan" and (entries := _entries(parts)) is not None:
            await run.plan(entries)
            return
        whole = "".join(part.text for part in parts)
        before = self._texts.get(artifact_id, "")
        if not append and before:
            if whole == before:
                return
            if whole.startswith(before):
                parts, whole = [Part(text=whole[len(before) :])], whole[len(before) :]
            else:
                before = ""
        self._texts[artifact_id] = before + whole
        thinks = name.casefold() in _THOUGHTS
        for part in parts:
            block = _block(part)
            if block is None:
                continue
            run.message(f"{artifact_id} {self._calls}")
            if thinks or _is_thought(part):
                await run.think(text_of((block,)))
            elif isinstance(block, str) and part.media_type == "text/x-diff":
                await run.say(f"\n```diff\n{block}\n```\n")
            else:
                self.said.append(text_of((block,)))
                await run.say(block)

    # States.

    async def _set(self, status: TaskStatus, event: Any) -> None:
        self.state = status.state
        self._status = status
        for part in status.message.parts:
            about: Any = _data(part)
            if isinstance(about, dict) and "toolCallId" in about:
                await self._tool(about)
        used = MessageToDict(event.metadata).get("acp", {}).get("usage")
        if used and status.state in _FINAL:
            await self._run.used(
                input=int(used.get("inputTokens", 0)), output=int(used.get("outputTokens", 0))
            )
        if status.state == TaskState.TASK_STATE_WORKING and not any(
            part.WhichOneof("content") == "data" for part in status.message.parts
        ):
            text = _text(status.message)
            if text:
                self._run.message(f"status {status.message.message_id}")
                await self._run.think(text)

    async def _tool(self, about: dict[str, Any]) -> None:
        """Show a tool call of an agent that reports its calls as `accord gateway` does."""
        run, call_id = self._run, str(about["toolCallId"])
        status = about.get("status")
        if not run.is_open(call_id):
            if call_id in self._texts:
                return
            self._texts[call_id] = ""
            self._calls += 1
            self._names[call_id] = str(about.get("name") or about.get("title") or "tool")
            await run.begin_call(
                call_id,
                self._names[call_id],
                about.get("input"),
                title=about.get("title"),
                kind=about.get("kind"),
            )
        if status in ("completed", "failed", "cancelled"):
            self._calls += 1
            await run.end_call(call_id, about.get("output"), outcome=status)
        elif status == "in_progress":
            await run.start_call(call_id)

    async def _ended(self) -> StopReason | None:
        """Return the stop reason of a task that rests. Raises `RuntimeError` if it has failed."""
        state, text = self.state, _text(self._status.message)
        if state == TaskState.TASK_STATE_COMPLETED:
            if text and not self.said:
                await self._say(text)
            return None
        if state == _ASKS:
            return None
        self._memory.pop("task", None)
        if state == TaskState.TASK_STATE_REJECTED:
            await self._say(text or "The remote agent has rejected the task")
            return "refusal"
        if state == TaskState.TASK_STATE_AUTH_REQUIRED:
            raise RuntimeError(f"The remote agent needs a login: {text or 'it does not say where'}")
        what = "cancelled" if state == TaskState.TASK_STATE_CANCELED else "failed"
        raise RuntimeError(text or f"The remote agent has {what} the task")

    async def _say(self, text: str) -> None:
        self._run.message(f"end {self._task}")
        self.said.append(text)
        await self._run.say(text)

    # Questions.

    async def answers(self) -> list[Part] | None:
        """Ask the user what the task asks; None if the next prompt is the answer."""
        found: list[Part] = []
        message = self._status.message
        for part in message.parts:
            about: Any = _data(part)
            if isinstance(about, dict) and "id" in about and "type" in about:
                answer = await self._asked(about)
                if answer is not None:
                    found.append(_data_part({"id": about["id"], **answer}))
        if found:
            return found
        text = _text(message) or "The remote agent waits for an answer"
        try:
            answer = await self._run.ask(Question(text))
        except NotOffered:
            answer = None
        if isinstance(answer, str):
            return [Part(text=answer)]
        await self._say(text)
        self._memory["task"] = self._task
        return None

    async def _permitted(self, about: dict[str, Any]) -> dict[str, Any] | None:
        """Let the user decide a permission. What they always allow is remembered here."""
        run = self._run
        options = {str(one["kind"]): str(one["id"]) for one in about.get("options", ())}
        allow = options.get("allow_once") or options.get("allow_always")
        reject = options.get("reject_once") or options.get("reject_always")
        if allow is None or reject is None:
            return None
        title = str(about.get("title") or about.get("command") or "An action")
        call_id = str(about.get("toolCallId") or about["id"])
        is_call = run.is_open(call_id)
        if not is_call:
            await run.begin_call(call_id, title, title=title, kind=about.get("kind"))
        for one in about.get("diffs", ()):
            await run.progress(call_id, f"```diff\n{one.get('patch', '')}\n```\n")
        more = about.get("description")
        name = self._names.get(call_id, title)
        approval = await run.approve(call_id, name, question=title, description=more)
        if approval.allowed and not is_call:
            await run.end_call(call_id)
        return {"option": allow if approval.allowed else reject}

    async def _asked(self, about: dict[str, Any]) -> dict[str, Any] | None:
        turn = self._run.turn
        if about["type"] == "permission":
            return await self._permitted(about)
        try:
            if about["type"] == "url":
                page = await turn.elicit_url(str(about["url"]), str(about.get("message", "")))
                return {"accepted": page is not None}
            if about["type"] == "form":
                fields = about.get("fields", [])
                form: Any = msgspec.defstruct("Answer", [_field(one) for one in fields])
                given = await turn.elicit_form(form, str(about.get("message", "")))
                if given is None:
                    return {"declined": True}
                values = msgspec.to_builtins(given)
                kept = {name: value for name, value in values.items() if value is not None}
                return {"values": kept}
        except (NotOffered, TypeError, ValueError):
            pass  # asked in words
        return None

    async def cancel(self) -> None:
        """Cancel the task, if it runs."""
        if self._task is None or self.state in _FINAL:
            return

        async def stop() -> None:
            with suppress(Exception):
                async with asyncio.timeout(_CANCEL_S):
                    await self._client.cancel_task(CancelTaskRequest(id=self._task or ""))

        stopping = asyncio.create_task(stop(), name="accord bridge: cancel a task")
        while not stopping.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(stopping)


# Content.


def _text(message: Message) -> str:
    return "".join(part.text for part in message.parts).strip()


def _data(part: Part) -> Any:
    return MessageToDict(part.data) if part.WhichOneof("content") == "data" else None


def _data_part(value: dict[str, Any]) -> Part:
    part = Part()
    ParseDict(value, part.data)
    return part


def _is_thought(part: Part) -> bool:
    metadata: Mapping[str, Any] = MessageToDict(part.metadata)
    return bool(metadata.get("adk_thought") or metadata.get("thought"))


def _entries(parts: Sequence[Part]) -> list[PlanEntry] | None:
    """Return the entries of a plan, if it has them as data."""
    for part in parts:
        about: Any = _data(part)
        if isinstance(about, dict) and isinstance(about.get("entries"), list):
            return [
                PlanEntry(
                    str(one["content"]),
                    str(one.get("status", "pending")),
                    str(one.get("priority", "medium")),
                )
                for one in about["entries"]
            ]
    return None


def _field(about: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the field of a form."""
    name, kind = str(about["name"]), _KINDS.get(str(about.get("kind")), str)
    choices = tuple(str(one["value"]) for one in about.get("choices", ()))
    if choices:
        from typing import Literal

        literal: Any = Literal[choices]
        kind = list[literal] if about.get("kind") == "choices" else literal
    if "default" in about:
        return name, kind, msgspec.convert(about["default"], kind, strict=False)
    return (name, kind) if about.get("required") else (name, kind | None, None)


def _block(part: Part) -> ContentBlock | None:
    """Return the content of a part; None for an empty one."""
    name = part.filename or "file"
    match part.WhichOneof("content"):
        case "text":
            return part.text or None
        case "raw":
            if part.media_type.startswith("image/"):
                return ImageContent(part.raw, part.media_type)
            if part.media_type.startswith("audio/"):
                return AudioContent(part.raw, part.media_type)
            return EmbeddedResource(f"a2a:///{name}", part.raw, part.media_type or None)
        case "url":
            return ResourceLink(part.url, name, mime_type=part.media_type or None)
        case "data":
            text = msgspec.json.format(msgspec.json.encode(_data(part)), indent=1).decode()
            return f"\n```json\n{text}\n```\n"
        case _:
            return None


def _part(block: ContentBlock) -> Part:
    """Return the part of a message for content of the prompt."""
    match block:
        case ImageContent() | AudioContent():
            return Part(raw=block.data, media_type=block.mime_type)
        case ResourceLink() if block.uri.startswith(("http://", "https://")):
            return Part(url=block.uri, filename=block.name, media_type=block.mime_type or "")
        case EmbeddedResource() if isinstance(block.content, bytes):
            name = block.uri.rpartition("/")[2]
            return Part(raw=block.content, filename=name, media_type=block.mime_type or "")
        case _:
            return Part(text=text_of((block,)), media_type="text/plain")
