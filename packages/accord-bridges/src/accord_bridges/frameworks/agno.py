"""agno: agents and teams, with their pauses, their reasoning, their members and their database.

Each session works with a copy of the agent. Its runs are kept in the agent's own database if it
has one, and with the session otherwise; there, a run that was cancelled or has failed is closed, so
that the model knows of it in the next turn.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Any

from accord import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    NotOffered,
    PlanEntry,
    Session,
)
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, McpServer
from accord_bridges.editor import editor_tools
from accord_bridges.failures import is_bad_request
from accord_bridges.run import Question, Run

try:
    from agno.db.in_memory import InMemoryDb
    from agno.media import Audio, File, Image
    from agno.models.utils import get_model
    from agno.run.requirement import RunRequirement
    from agno.session import AgentSession, TeamSession
except ImportError as error:
    raise ImportError(f"{error}; this bridge needs agno 3.1: pip install 'agno>=3.1'") from error

_CALL_S = 300  # that a tool of an MCP server may take
_SAVE_S = 5.0  # that agno has to store a run that was cancelled
_STATUSES = {"in_progress": "in_progress", "completed": "completed", "failed": "cancelled"}


class AgnoError(Exception):
    """A run of agno has failed; the text is agno's."""


class AgnoAgent(BridgedAgent):
    """An agent or a team of agno."""

    prompt_capabilities = frozenset({"image", "audio", "resource"})
    mcp_transports = frozenset({"stdio", "http", "sse"})
    reports = frozenset({"tokens", "cost"})
    knows_settings = frozenset({"dependencies", "external", "user_id"})

    async def begin_session(self, session: Session) -> None:
        kept: Any = session.remembered or {}
        session.data["agno"] = _Copy(self, session.id, kept)

    async def answer(self, run: Run) -> StopReason | None:
        mine: _Copy = run.session.data["agno"]
        await mine.prepare(run)
        await _Turn(run, mine).work()
        return None


class _Copy:
    """The agent of a session, with its own tools, model and history."""

    def __init__(self, bridge: AgnoAgent, session_id: str, kept: Mapping[str, Any]) -> None:
        target = bridge.target
        self.bridge = bridge
        self.is_team = type(target).__name__ == "Team" or hasattr(target, "members")
        self.settings = bridge.options.settings
        self.errors: list[Exception] = []
        """What the model has raised, last of all: agno's events have its text only."""
        self.db: _Db | None = None
        self.session_id = session_id
        update: dict[str, Any] = {}
        if target.db is None:
            self.db = _Db()
            if kept.get("session"):
                cls = TeamSession if self.is_team else AgentSession
                stored = cls.from_dict(copy.deepcopy({**kept["session"], "session_id": session_id}))
                self.db.upsert_session(stored)
            update["db"] = self.db
        self.forked_from: str | None = kept.get("stored_as") if self.db is None else None
        self.agent: Any = target.deep_copy(update=update)
        if not target.add_history_to_context:  # a conversation has a history, all of it
            self.agent.add_history_to_context = True
            self.agent.num_history_runs = self.agent.num_history_messages = None
        if self.is_team:
            self.agent.stream_member_events = True
        self._model, self._tools = self.agent.model, self.agent.tools
        self._context = getattr(self.agent, "additional_context", None)

    async def prepare(self, run: Run) -> None:
        """Set the model, the mode and the tools of a turn."""
        model: Any = self._model
        if run.model is not None and run.model != getattr(model, "id", None):
            if ":" in run.model or model is None:
                model = get_model(run.model)
            else:
                model = copy.copy(model)
                model.id = run.model
        self.errors.clear()
        self.agent.model = self._noting_errors(model)
        more = await self.bridge.open_mcp_servers(run, partial(_mcp_tools, run.cwd))
        if self.bridge.options.editor_tools:
            more += editor_tools(run)
        if not callable(self._tools):
            self.agent.tools = [*(self._tools or ()), *more]
        elif more:
            await run.turn.show_notice("The agent makes its tools itself: it gets no other tools")
        if (mode := self.bridge.mode_text(run)) is not None:
            self.agent.additional_context = "\n".join(filter(None, (self._context, mode)))
        if self.forked_from is not None and self.forked_from != self.session_id:
            self.session_id = await self.agent.afork_session(source_session_id=self.forked_from)
            self.forked_from = None
        elif self.forked_from:
            self.session_id = self.forked_from

    def _noting_errors(self, model: Any) -> Any:
        if model is None:
            return None
        model = copy.copy(model)
        stream, errors = model.aresponse_stream, self.errors

        async def aresponse_stream(*args: Any, **more: Any) -> AsyncIterator[Any]:
            try:
                async for part in stream(*args, **more):
                    yield part
            except Exception as error:
                errors.append(error)
                raise

        model.aresponse_stream = aresponse_stream
        return model

    async def remember(self, run: Run, results: Mapping[str, str]) -> None:
        """Store the session, its unfinished runs closed."""
        if self.db is None:
            await run.remember({"stored_as": self.session_id})
            return
        stored = self.db.closed(self.session_id, results)
        if stored is not None:
            await run.remember({"session": stored})


def _mcp_tools(cwd: str, server: McpServer, name: str) -> Any:
    from agno.tools.mcp import MCPTools, SSEClientParams, StreamableHTTPClientParams
    from mcp import StdioServerParameters

    match server:
        case McpServerStdio():
            how: Any = "stdio"
            params: Any = StdioServerParameters(
                command=server.command, args=list(server.args), env=dict(server.env), cwd=cwd
            )
        case McpServerHttp():
            how = "streamable-http"
            params = StreamableHTTPClientParams(
                url=server.url, headers=dict(server.headers), timeout=_CALL_S,
                terminate_on_close=True,
            )  # fmt: skip
        case McpServerSse():
            how = "sse"
            params = SSEClientParams(url=server.url, headers=dict(server.headers), timeout=_CALL_S)
    return MCPTools(
        name=name, transport=how, server_params=params, tool_name_prefix=name,
        timeout_seconds=_CALL_S,
    )  # fmt: skip


class _Db(InMemoryDb):
    """The database of one session; it tells when a run was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[str, asyncio.Event] = {}

    def upsert_run(self, run: Any, session_id: str, *args: Any, **more: Any) -> None:
        super().upsert_run(run, session_id, *args, **more)
        status = run.get("status") if isinstance(run, dict) else run.status
        run_id = run.get("run_id") if isinstance(run, dict) else run.run_id
        if getattr(status, "value", status) in ("CANCELLED", "COMPLETED", "ERROR"):
            self.saved.setdefault(str(run_id), asyncio.Event()).set()

    def closed(self, session_id: str, results: Mapping[str, str]) -> Any:
        """Close the runs that have not completed, and return the session as JSON."""
        runs, _ = self.get_runs(session_id=session_id, deserialize=False)
        for each in runs:
            if each.get("status") != "COMPLETED":
                _close(each, results)
                super().upsert_run(each, session_id)
        stored = self.get_session(session_id, deserialize=False)
        return None if stored is None else json.loads(json.dumps(stored, default=str))


def _close(run: dict[str, Any], results: Mapping[str, str]) -> None:
    """Make a run that was cancelled or has failed one that the model can continue after."""
    messages: list[dict[str, Any]] = run.get("messages") or []
    if not messages:
        given = (run.get("input") or {}).get("input_content")
        messages = [{"role": "user", "content": given if isinstance(given, str) else str(given)}]
    answered = {each.get("tool_call_id") for each in messages if each.get("role") == "tool"}
    whole: list[dict[str, Any]] = []
    for at, each in enumerate(messages):
        whole.append(each)
        following = messages[at + 1] if at + 1 < len(messages) else {}
        if each.get("role") == "tool" and following.get("role") == "tool":
            continue
        calls = next(
            (m.get("tool_calls") for m in reversed(whole) if m.get("role") == "assistant"), None
        )
        for call in calls or ():
            if each.get("role") in ("assistant", "tool") and call.get("id") not in answered:
                answered.add(call.get("id"))
                whole.append(
                    {
                        "role": "tool",
                        "tool_call_id": call.get("id"),
                        "tool_name": (call.get("function") or {}).get("name"),
                        "content": results.get(call.get("id"), "(was not completed)"),
                    }
                )
    if whole[-1].get("role") != "assistant":
        whole.append({"role": "assistant", "content": "(was interrupted)"})
    run["messages"], run["status"] = whole, "COMPLETED"
    run["requirements"] = None


class _Turn:
    """A turn: the events of a run, its pauses, and the runs of members."""

    def __init__(self, run: Run, mine: _Copy) -> None:
        self.run = run
        self.mine = mine
        self.run_id = f"{run.session.id}-{id(run):x}-{asyncio.get_running_loop().time():.6f}"
        self.members: dict[str, tuple[Run, AsyncExitStack]] = {}
        self.parents: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.tasks: dict[str, PlanEntry] = {}
        self.spoke: set[str] = set()
        self.requests = 0
        self.streamed_thoughts = False
        self.paused: list[RunRequirement] | None = None
        self.failure: str | None = None

    async def work(self) -> None:
        agent, settings = self.mine.agent, self.mine.settings
        common: dict[str, Any] = {
            "stream": True, "stream_events": True, "session_id": self.mine.session_id,
            "user_id": settings.get("user_id"), "dependencies": settings.get("dependencies"),
        }  # fmt: skip
        try:
            events = agent.arun(self.run.text, run_id=self.run_id, **_media(self.run), **common)
            while True:
                self.paused = None
                await self._show(events)
                if self.paused is None:
                    break
                for each in self.paused:
                    await self._resolve(each)
                events = agent.acontinue_run(run_id=self.run_id, requirements=self.paused, **common)
            if self.failure is not None:
                cause = self.mine.errors[-1] if self.mine.errors else None
                raise cause or AgnoError(self.failure)
        finally:
            await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        """Leave the members, and store the history, also that of a cancelled run."""
        for _, stack in reversed(list(self.members.values())):
            await stack.aclose()
        db = self.mine.db
        if db is not None and self.paused is None:
            saved = db.saved.setdefault(self.run_id, asyncio.Event())
            try:
                async with asyncio.timeout(_SAVE_S):
                    await saved.wait()
            except TimeoutError:
                return
            del db.saved[self.run_id]
            errors = self.mine.errors
            if self.failure is not None and errors and is_bad_request(errors[-1]):
                db.delete_run(self.run_id)  # else, each later request would be refused as well
        await self.mine.remember(self.run, self.results)

    async def _show(self, events: AsyncGenerator[Any, None]) -> None:
        run, own = self.run, self.run_id
        say, think = run.say, run.think
        async with aclosing(events):
            async for event in events:
                kind = event.event
                if event.run_id == own and kind in ("RunContent", "TeamRunContent"):
                    text = event.content
                    if type(text) is str:
                        if text:
                            await say(text)
                    elif text is not None:
                        await run.show(text)
                    if event.reasoning_content:
                        self.streamed_thoughts = True
                        await think(event.reasoning_content)
                    if event.image is not None:
                        await self._pictures(run, [event.image])
                    self.spoke.add(own)
                else:
                    await self._event(event, kind.removeprefix("Team"))

    async def _run_of(self, event: Any, kind: str) -> Run:
        """Return where an event is shown: the turn, or the subagent of a member."""
        run_id = event.run_id
        if run_id is None or run_id == self.run_id:
            return self.run
        if run_id in self.members:
            return self.members[run_id][0]
        parent = self.members.get(event.parent_run_id or "")
        above = parent[0] if parent is not None else self.run
        if kind in ("RunCompleted", "RunContentCompleted"):
            return above
        name = getattr(event, "agent_name", "") or getattr(event, "team_name", "") or "Member"
        stack = AsyncExitStack()
        member = await stack.enter_async_context(above.subagent(name))
        self.members[run_id] = (member, stack)
        return member

    async def _event(self, event: Any, kind: str) -> None:
        if kind == "RunPaused" and event.run_id == self.run_id:
            self.paused = list(event.requirements or ())
            return
        if kind == "RunPaused" or kind.startswith("Task"):
            if kind in ("TaskCreated", "TaskUpdated"):
                status: Any = _STATUSES.get(event.status, "pending")
                self.tasks[event.task_id] = PlanEntry(event.title, status)
                await self.run.plan(self.tasks.values())
            return
        run = await self._run_of(event, kind)
        tool: Any = getattr(event, "tool", None)
        if kind == "RunContent":
            self.spoke.add(event.run_id)
            await run.show(event.content)
            if event.reasoning_content:
                await run.think(event.reasoning_content)
        elif kind == "ModelRequestStarted":
            self.requests += 1
            run.message(f"{event.run_id}:{self.requests}")
        elif kind == "ModelRequestCompleted":
            await run.used(
                input=event.input_tokens or 0, output=event.output_tokens or 0,
                thought=event.reasoning_tokens, cached_read=event.cache_read_tokens,
                cached_write=event.cache_write_tokens,
            )  # fmt: skip
        elif kind == "ToolCallStarted":
            await run.begin_call(tool.tool_call_id, tool.tool_name, tool.tool_args or {})
            await run.start_call(tool.tool_call_id)
        elif kind in ("ToolCallCompleted", "ToolCallError"):
            failed = kind == "ToolCallError" or bool(tool.tool_call_error)
            output = tool.result if tool.result is not None else getattr(event, "error", None)
            self.results[tool.tool_call_id] = str(output)
            if run.is_open(tool.tool_call_id):
                for picture in getattr(event, "images", None) or ():
                    if isinstance(picture.content, bytes):
                        await run.progress(tool.tool_call_id, [_shown(picture)])
            outcome = "failed" if failed else "completed"
            await run.end_call(tool.tool_call_id, output, outcome=outcome)
        elif kind == "CustomEvent":
            given = {k: v for k, v in vars(event).items() if k != "tool_call_id"}
            text = str(event.content if getattr(event, "content", None) else given)
            await run.progress(event.tool_call_id or "", text)
        elif kind == "ReasoningContentDelta":
            self.streamed_thoughts = True
            await run.think(event.reasoning_content)
        elif kind == "ReasoningStep" and not self.streamed_thoughts:
            step = event.content
            parts = [getattr(step, name, None) for name in ("title", "reasoning", "result")]
            await run.think("\n".join(filter(None, parts)) + "\n\n")
        elif kind == "RunError":
            if event.run_id == self.run_id:
                self.failure = str(event.content)
            else:
                await run.say(f"Failed: {event.content}")
                await self._leave(event.run_id)
        elif kind == "RunCompleted":
            if event.run_id not in self.spoke and event.content is not None:
                await run.show(event.content)
            await self._pictures(run, event.images)
            if event.run_id == self.run_id:
                cost = getattr(event.metrics, "cost", None)
                if cost:
                    await run.cost(cost)
            else:
                await self._leave(event.run_id)

    async def _leave(self, run_id: str) -> None:
        entry = self.members.pop(run_id, None)
        if entry is not None:
            await entry[1].aclose()

    async def _pictures(self, run: Run, images: Any) -> None:
        for picture in images or ():
            if isinstance(picture.content, bytes):
                await run.show(_shown(picture))
            elif picture.url:
                await run.show(f"![image]({picture.url})")

    # Pauses.

    async def _resolve(self, requirement: RunRequirement) -> None:
        """Ask the user what a paused run needs; a call that they do not allow is rejected."""
        run, tool = self.run, requirement.tool_execution
        if tool is None or tool.tool_call_id is None:
            return
        name, call_id = str(tool.tool_name), tool.tool_call_id
        try:
            if requirement.needs_user_feedback:
                await self._feedback(requirement)
            elif requirement.needs_user_input:
                await self._input(requirement)
            elif requirement.needs_external_execution:
                await self._external(requirement)
            elif requirement.needs_confirmation:
                answer = await run.approve(call_id, name, tool.tool_args or {}, editable=True)
                if answer.allowed:
                    tool.tool_args = answer.input
                    requirement.confirm()
                else:
                    self.results[call_id] = "Not allowed by the user"
                    requirement.reject("Not allowed by the user")
        except NotOffered as error:
            _reject(
                requirement, f"The user cannot be asked in a form ({error}): ask in your answer"
            )

    async def _input(self, requirement: RunRequirement) -> None:
        tool = requirement.tool_execution
        values: dict[str, Any] = {}
        known = ", ".join(f"{k}={v!r}" for k, v in (tool.tool_args or {}).items())
        for field in requirement.user_input_schema or ():
            if field.value is not None:
                values[field.name] = field.value
                continue
            about = f"{tool.tool_name}({known}): {field.description or field.name}"
            choices = ("True", "False") if field.field_type is bool else ()
            answer = await self.run.ask(Question(about, choices))
            if answer is None:
                _reject(requirement, "The user did not answer")
                return
            values[field.name] = _typed(answer, field.field_type)
        requirement.provide_user_input(values)

    async def _feedback(self, requirement: RunRequirement) -> None:
        chosen: dict[str, list[str]] = {}
        for question in requirement.user_feedback_schema or ():
            choices = tuple(option.label for option in question.options or ())
            answer = await self.run.ask(
                Question(question.question, choices, several=question.multi_select)
            )
            chosen[question.question] = [answer] if isinstance(answer, str) else answer or []
        requirement.provide_user_feedback(chosen)

    async def _external(self, requirement: RunRequirement) -> None:
        """Run a tool that agno does not run: with the function in the settings, or by the user."""
        run, tool = self.run, requirement.tool_execution
        call_id, name = tool.tool_call_id, str(tool.tool_name)
        work = self.mine.settings.get("external", {}).get(name)
        await run.begin_call(call_id, name, tool.tool_args or {})
        await run.start_call(call_id)
        if work is None:
            asked = f"The result of {name}({json.dumps(tool.tool_args or {}, default=str)})"
            answer = await run.ask(Question(asked))
            result = "The user gives no result" if answer is None else str(answer)
            outcome: Any = "cancelled" if answer is None else "completed"
        else:
            try:
                result, outcome = str(await work(**(tool.tool_args or {}))), "completed"
            except Exception as error:  # noqa: BLE001  # the model gets it as the result
                result, outcome = f"Error: {error}", "failed"
        self.results[call_id] = result
        requirement.set_external_execution_result(result)
        await run.end_call(call_id, result, outcome=outcome)


def _reject(requirement: RunRequirement, note: str) -> None:
    """Have agno answer a call with a note instead of running it."""
    tool = requirement.tool_execution
    tool.requires_user_input, tool.external_execution_required = False, False
    tool.requires_confirmation, tool.confirmed, tool.answered = True, False, True
    tool.confirmation_note = requirement.confirmation_note = note
    requirement.confirmation = False


def _typed(answer: Any, kind: Any) -> Any:
    if kind is bool:
        return answer == "True"
    if kind is str or not isinstance(answer, str):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def _media(run: Run) -> dict[str, list[Any]]:
    """Return the images, the audio and the files of a prompt."""
    found: dict[str, list[Any]] = {}
    for part in run.content:
        if isinstance(part, ImageContent):
            image = Image(content=part.data, mime_type=part.mime_type)
            found.setdefault("images", []).append(image)
        elif isinstance(part, AudioContent):
            form = part.mime_type.partition("/")[2]
            audio = Audio(content=part.data, mime_type=part.mime_type, format=form)
            found.setdefault("audio", []).append(audio)
        elif isinstance(part, EmbeddedResource) and isinstance(part.content, bytes):
            name = part.uri.rpartition("/")[2]
            try:
                file = File(content=part.content, mime_type=part.mime_type, filename=name)
            except ValueError:  # a type that agno does not take: the text names the file
                continue
            found.setdefault("files", []).append(file)
    return found


def _shown(picture: Any) -> ImageContent:
    return ImageContent(picture.content, picture.mime_type or "image/png")
