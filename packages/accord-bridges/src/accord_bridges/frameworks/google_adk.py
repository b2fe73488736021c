"""google-adk: agents, apps and runners, with their session service, confirmations and sub-agents.

Each session works with a copy of the agent. Its events are kept by the session service that the
user has configured, and with the session otherwise. Calls that a cancel or a failure has left
without a response get one, so that the model can continue.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import Any

from accord import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    McpServerHttp,
    McpServerStdio,
    NotOffered,
    Session,
)
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, McpServer
from accord_bridges.editor import editor_tools
from accord_bridges.run import Question, Run

try:
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.apps.app import App
    from google.adk.artifacts import InMemoryArtifactService
    from google.adk.events.event import Event
    from google.adk.memory import InMemoryMemoryService
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types
except ImportError as error:
    raise ImportError(
        f"{error}; this bridge needs google-adk 2.13: pip install 'google-adk>=2.13'"
    ) from error

_CONFIRM = "adk_request_confirmation"
_CREDENTIAL = "adk_request_credential"
_SERVICES = ("session_service", "artifact_service", "memory_service", "credential_service")
_CALL_S = 300.0  # that a tool of an MCP server may take
_REFUSED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY")


class AdkError(Exception):
    """The model of an agent has reported an error; the text is its own."""


class AdkAgent(BridgedAgent):
    """An agent, an app or a runner of google-adk."""

    prompt_capabilities = frozenset({"image", "audio", "resource"})
    mcp_transports = frozenset({"stdio", "http", "sse"})
    reports = frozenset({"tokens"})
    knows_settings = frozenset({*_SERVICES, "long_running", "run_config", "state", "user_id"})

    def default_name(self) -> str:
        target = self.target
        agent = getattr(target, "root_agent", None) or getattr(target, "agent", None) or target
        return str(getattr(agent, "name", None) or type(agent).__name__)

    async def begin_session(self, session: Session) -> None:
        session.data["adk"] = _Copy(self, session)

    async def answer(self, run: Run) -> StopReason | None:
        mine: _Copy = run.session.data["adk"]
        await mine.open()
        await mine.prepare(run)
        return await _Turn(run, mine).work()


class _Copy:
    """The runner of a session, with its own agents, tools and model."""

    def __init__(self, bridge: AdkAgent, session: Session) -> None:
        self.bridge = bridge
        target, settings = bridge.target, bridge.options.settings
        self.settings = settings
        given = {name: settings.get(name) for name in _SERVICES}
        app: Any = target if isinstance(target, App) else None
        root: Any = target
        if isinstance(target, Runner):
            app, root = target.app, target.agent
            for name in _SERVICES:
                given[name] = given[name] or getattr(target, name, None)
        elif app is not None:
            root = app.root_agent
        self.root: Any = root.clone() if hasattr(root, "clone") else root.model_copy()
        if isinstance(given["session_service"], InMemorySessionService):
            given["session_service"] = None  # what it keeps would end with the process
        self.is_ours = given["session_service"] is None
        self.service: Any = given["session_service"] or InMemorySessionService()
        self.app_name = target.app_name if isinstance(target, Runner) else (
            app.name if app is not None else str(getattr(root, "name", "agent"))
        )  # fmt: skip
        services: dict[str, Any] = {
            "session_service": self.service,
            "artifact_service": given["artifact_service"] or InMemoryArtifactService(),
            "memory_service": given["memory_service"] or InMemoryMemoryService(),
            "credential_service": given["credential_service"],
        }
        if app is not None:
            copied = app.model_copy(update={"root_agent": self.root})
            self.runner = Runner(app=copied, app_name=self.app_name, **services)
        else:
            self.runner = Runner(agent=self.root, app_name=self.app_name, **services)
        self.user_id = str(settings.get("user_id", "user"))
        self.session_id = session.id
        # The events, and last what else is kept.
        *self._events, self._kept = session.remembered or [{}]
        self._is_open = False
        self._agents = [(each, list(each.tools), each.model, each.instruction)
                        for each in _llm_agents(self.root)]  # fmt: skip

    @property
    def key(self) -> dict[str, Any]:
        """What the session service knows the session by."""
        return {
            "app_name": self.app_name, "user_id": self.user_id, "session_id": self.session_id
        }  # fmt: skip

    async def open(self) -> None:
        """Make the session of ADK, from what is kept of it."""
        if self._is_open:
            return
        kept = self._kept
        if self.is_ours or await self.service.get_session(**self.key) is None:
            events = [Event.model_validate(each) for each in self._events]
            state = kept.get("state", self.settings.get("state"))
            source = kept.get("stored_as")
            if source is not None:  # a copy of a session that the user's service keeps
                found = await self.service.get_session(**{**self.key, "session_id": source})
                if found is not None:
                    events, state = found.events, found.state
            made = await self.service.create_session(state=state, **self.key)
            for event in events:
                await self.service.append_event(made, event.model_copy())
        self._is_open = True

    async def prepare(self, run: Run) -> None:
        """Set the model, the mode and the tools of a turn."""
        more: list[Any] = await self.bridge.open_mcp_servers(run, partial(_mcp_tools, run.cwd))
        if self.bridge.options.editor_tools:
            more += editor_tools(run)
        for at, (agent, tools, model, instruction) in enumerate(self._agents):
            agent.tools = [*tools, *more]
            if at == 0 and run.model is not None:
                agent.model = run.model
                if not isinstance(model, str) and hasattr(model, "model_copy"):
                    agent.model = model.model_copy(update={"model": run.model})
            if (mode := self.bridge.mode_text(run)) is not None:
                if isinstance(instruction, str):
                    agent.instruction = "\n\n".join(filter(None, (instruction, mode)))
                else:
                    agent.instruction = _with_mode(instruction, mode)

    async def remember(self, run: Run, said: str, author: str) -> None:
        """Give calls without a response one, and store the session."""
        stored = await self.service.get_session(**self.key)
        if stored is None:
            return
        calls: dict[str, tuple[Any, Event]] = {}
        for event in stored.events:
            calls.update((str(call.id), (call, event)) for call in event.get_function_calls())
            for response in event.get_function_responses():
                calls.pop(str(response.id), None)
        more: list[Event] = []
        for call, event in calls.values():
            if call.name in (_CONFIRM, _CREDENTIAL) or call.id in (
                event.long_running_tool_ids or ()
            ):
                continue
            parts = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=call.id, name=call.name, response={"error": "It was not completed"}
                    )
                )
            ]
            more.append(
                Event(
                    author=event.author, invocation_id=event.invocation_id, branch=event.branch,
                    content=types.Content(role="user", parts=parts),
                )
            )  # fmt: skip
        if said:
            content = types.Content(role="model", parts=[types.Part(text=said)])
            more.append(Event(author=author, invocation_id="interrupted", content=content))
        for event in more:
            await self.service.append_event(stored, event)
        if self.is_ours:
            events = [
                event.model_dump(mode="json", by_alias=True, exclude_none=True)
                for event in stored.events
            ]
            state = json.loads(json.dumps(stored.state, default=str))
            await run.remember([*events, {"state": state}])
        else:
            await run.remember([{"stored_as": self.session_id}])


class _Turn:
    """A turn: runs of the agent, each until it needs the user."""

    def __init__(self, run: Run, mine: _Copy) -> None:
        self.run = run
        self.mine = mine
        self.subagents: dict[str, tuple[Run, AsyncExitStack]] = {}
        self.waiting: dict[str, Any] = {}
        """Calls that the user, or the world, has to answer, by their ids."""
        self.said: dict[tuple[str, str | None], str] = {}
        """The text that has arrived in parts, by author and branch."""
        self.thought: set[tuple[str, str | None]] = set()
        self.messages = 0
        self.author = ""
        self.stop: StopReason | None = None
        self.failure: str | None = None

    async def work(self) -> StopReason | None:
        mine = self.mine
        given: Any = mine.settings.get("run_config") or RunConfig()
        config = given.model_copy(update={"streaming_mode": StreamingMode.SSE})
        message = types.Content(role="user", parts=_parts(self.run))
        try:
            while True:
                events = mine.runner.run_async(
                    user_id=mine.user_id, session_id=mine.session_id, new_message=message,
                    run_config=config,
                )  # fmt: skip
                async with aclosing(events):
                    async for event in events:
                        await self._show(event)
                if self.failure is not None:
                    raise AdkError(self.failure)
                answers = await self._answers()
                if not answers:
                    break
                message = types.Content(role="user", parts=answers)
        finally:
            await asyncio.shield(asyncio.ensure_future(self._end()))
        return self.stop

    async def _end(self) -> None:
        for _, stack in reversed(list(self.subagents.values())):
            await stack.aclose()
        said = "".join(self.said.values())
        await self.mine.remember(self.run, said, self.author or self.mine.root.name)

    async def _run_of(self, event: Any) -> Run:
        """Return where an event is shown: tasks and parallel branches are subagents."""
        key = event.isolation_scope or event.branch
        if not key:
            return self.run
        if key not in self.subagents:
            stack = AsyncExitStack()
            run = await stack.enter_async_context(self.run.subagent(event.author))
            self.subagents[key] = (run, stack)
        return self.subagents[key][0]

    async def _show(self, event: Any) -> None:
        content = event.content
        run = self.run
        if event.isolation_scope or event.branch:
            run = await self._run_of(event)
        key = (event.author, event.branch)
        parts = content.parts or () if content is not None else ()
        if event.partial:
            for part in parts:
                text = part.text
                if not text:
                    continue
                if key not in self.said and key not in self.thought:
                    self._begin_message(run, event.author)
                if part.thought:
                    self.thought.add(key)
                    await run.think(text)
                else:
                    self.said[key] = self.said.get(key, "") + text
                    await run.say(text)
            return
        await self._whole(run, event, key, parts)

    def _begin_message(self, run: Run, author: str) -> None:
        self.messages += 1
        self.author = author
        run.message(f"{id(self):x}:{self.messages}")

    async def _whole(self, run: Run, event: Any, key: tuple[str, str | None], parts: Any) -> None:
        said, thought = self.said.pop(key, None), key in self.thought
        self.thought.discard(key)
        long_running: set[str] = event.long_running_tool_ids or set()
        actions = event.actions
        pending = {*actions.requested_tool_confirmations, *actions.requested_auth_configs}
        if said is None and not thought and any(part.text for part in parts):
            self._begin_message(run, event.author)
        for part in parts:
            if part.text and part.thought and not thought:
                await run.think(part.text)
            elif part.text and not part.thought and said is None:
                await run.say(part.text)
            elif part.function_call is not None:
                call = part.function_call
                if call.id in long_running:
                    self.waiting[call.id] = call
                if call.name not in (_CONFIRM, _CREDENTIAL):
                    await run.begin_call(call.id, call.name, call.args or {})
                    await run.start_call(call.id)
            elif part.function_response is not None:
                response = part.function_response
                if response.id not in pending:
                    self.waiting.pop(response.id, None)
                    await self._respond(run, response)
            elif part.inline_data is not None and part.inline_data.data:
                await run.show(_Blob(part.inline_data.data, part.inline_data.mime_type))
            elif part.file_data is not None:
                name = part.file_data.display_name or "file"
                await run.show(f"[{name}]({part.file_data.file_uri})")
            elif part.executable_code is not None:
                self.messages += 1
                await run.begin_call(self._code_id, "execute_code",
                                     {"code": part.executable_code.code})  # fmt: skip
            elif part.code_execution_result is not None:
                result = part.code_execution_result
                good = str(getattr(result.outcome, "value", result.outcome)) == "OUTCOME_OK"
                outcome: Any = "completed" if good else "failed"
                await run.end_call(self._code_id, result.output, outcome=outcome)
        usage = event.usage_metadata
        if usage is not None:
            await run.used(
                input=usage.prompt_token_count or 0,
                output=(usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
                thought=usage.thoughts_token_count, cached_read=usage.cached_content_token_count,
            )  # fmt: skip
        await self._check(event)

    @property
    def _code_id(self) -> str:
        return f"code:{id(self):x}:{self.messages}"

    async def _respond(self, run: Run, response: Any) -> None:
        """End a call with its response, which ADK makes a dict."""
        value: Any = response.response
        failed = isinstance(value, Mapping) and set(value) == {"error"}
        if isinstance(value, Mapping) and len(value) == 1 and ("result" in value or failed):
            value = next(iter(value.values()))
        subagent = self.subagents.pop(response.id, None)
        if subagent is not None:
            await subagent[1].aclose()
        await run.end_call(response.id, value, outcome="failed" if failed else "completed")

    async def _check(self, event: Any) -> None:
        """Take the errors that a model reports in an event; an exception may follow it."""
        code = event.error_code
        if not code:
            return
        name = str(getattr(code, "value", code))
        text = event.error_message or name
        if name == "MAX_TOKENS":
            self.stop = "max_tokens"
        elif name in _REFUSED:
            self.stop = "refusal"
            await self.run.say(f"The model refused: {text}")
        elif name != "STOP":
            self.failure = text if name in text else f"{name}: {text}"

    # What a run waits for.

    async def _answers(self) -> list[Any]:
        """Ask for what the run has ended for, and return it for the next run."""
        waiting, self.waiting = self.waiting, {}
        found: list[Any] = []
        for call in waiting.values():
            args: Any = dict(call.args or {})
            if call.name == _CONFIRM:
                answer: Any = await self._confirm(args)
            elif call.name == _CREDENTIAL:
                await self.run.turn.show_notice(
                    "A tool needs a login of the user, which this bridge does not offer"
                )
                continue
            else:
                answer = await self._long_running(call, args)
                if answer is None:
                    continue
            response = types.FunctionResponse(id=call.id, name=call.name, response=answer)
            found.append(types.Part(function_response=response))
        return found

    async def _confirm(self, args: dict[str, Any]) -> dict[str, Any]:
        call = args.get("originalFunctionCall") or {}
        about = args.get("toolConfirmation") or {}
        answer = await self.run.approve(
            str(call.get("id")), str(call.get("name")), call.get("args") or {},
            description=about.get("hint") or None,
        )  # fmt: skip
        return {"confirmed": answer.allowed, "payload": about.get("payload")}

    async def _long_running(self, call: Any, args: dict[str, Any]) -> dict[str, Any] | None:
        """Run the function for a long-running tool; without one, the user gives the result."""
        work = self.mine.settings.get("long_running", {}).get(call.name)
        run = self.run
        await run.begin_call(call.id, call.name, args)
        if work is not None:
            result: Any = await work(**args)
        else:
            about = next((args[k] for k in ("question", "message", "prompt") if args.get(k)), None)
            options = args.get("options") or args.get("choices")
            choices = tuple(map(str, options)) if isinstance(options, list) else ()
            shown = f"The result of {call.name}({json.dumps(args, default=str)})"
            try:
                result = await run.ask(Question(str(about or shown), choices))
            except NotOffered:
                await run.say(str(about or shown))
                return None
        await run.end_call(call.id, result)
        return result if isinstance(result, dict) else {"result": result}


@asynccontextmanager
async def _mcp_tools(cwd: str, server: McpServer, name: str) -> AsyncGenerator[Any, None]:
    """Open a toolset of an MCP server."""
    from google.adk.tools.mcp_tool import (
        McpToolset,
        SseConnectionParams,
        StdioConnectionParams,
        StreamableHTTPConnectionParams,
    )
    from mcp import StdioServerParameters

    params: Any
    match server:
        case McpServerStdio(command=command, args=args, env=env):
            started = StdioServerParameters(
                command=command, args=list(args), env=dict(env), cwd=cwd
            )
            params = StdioConnectionParams(server_params=started, timeout=_CALL_S)
        case McpServerHttp(url=url, headers=headers):
            params = StreamableHTTPConnectionParams(url=url, headers=dict(headers))
        case _:
            params = SseConnectionParams(url=server.url, headers=dict(server.headers))
    toolset = McpToolset(connection_params=params, tool_name_prefix=name)
    try:
        await toolset.get_tools()
        yield toolset
    finally:
        await toolset.close()


class _Blob:
    """Bytes with their type, as `Run.show` takes them."""

    def __init__(self, data: bytes, mime_type: str | None) -> None:
        self.data, self.mime_type = data, mime_type


def _llm_agents(root: Any) -> list[Any]:
    """Return the agent that takes the tools of a session: the root, or those below it."""
    if hasattr(root, "tools") and hasattr(root, "instruction"):
        return [root]
    return [found for each in getattr(root, "sub_agents", ()) for found in _llm_agents(each)]


def _with_mode(instruction: Any, mode: str) -> Any:
    async def provide(context: Any) -> str:
        text = instruction(context)
        if asyncio.iscoroutine(text):
            text = await text
        return f"{text}\n\n{mode}"

    return provide


def _parts(run: Run) -> list[Any]:
    """Return a prompt as parts: its text, and what has bytes."""
    parts = [types.Part(text=run.text)] if run.text else []
    for each in run.content:
        if isinstance(each, ImageContent | AudioContent):
            data, mime = each.data, each.mime_type
        elif isinstance(each, EmbeddedResource) and isinstance(each.content, bytes):
            data, mime = each.content, each.mime_type or "application/octet-stream"
        else:
            continue
        parts.append(types.Part(inline_data=types.Blob(data=data, mime_type=mime)))
    return parts
