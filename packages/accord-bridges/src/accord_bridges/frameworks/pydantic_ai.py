"""Agents of pydantic-ai: `Agent`, and all else that derives from `AbstractAgent`.

A turn is one run, whose events are shown by a handler in the same task. Tools that wait for an
approval or an answer are resolved inside the run, by a capability that comes after the agent's own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Sequence
from functools import partial
from inspect import isroutine
from typing import Any, ClassVar

from pydantic_ai import (
    AbstractToolset,
    BinaryContent,
    FunctionToolset,
    capture_run_messages,
)
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import CapabilityOrdering, HandleDeferredToolCalls
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPartDelta,
    ThinkingPartDelta,
    ToolCallEvent,
    ToolResultEvent,
)
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.usage import RunUsage

from accord import (
    AudioContent,
    ContentBlock,
    ContextUsage,
    EmbeddedResource,
    ImageContent,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    NotOffered,
    ResourceLink,
)
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, McpServer
from accord_bridges.failures import is_bad_request
from accord_bridges.run import Outcome, Question, Run

_OUTCOMES: dict[str, Outcome] = {
    "success": "completed",
    "denied": "cancelled",
    "interrupted": "cancelled",
}
_QUESTIONS = ("question", "prompt", "message", "text")
_CHOICES = ("options", "choices")


class PydanticAiAgent(BridgedAgent):
    """An agent of pydantic-ai.

    Settings: `deps`, or a function that makes them from the `Run` of a turn; `model_settings`;
    `usage_limits`; `toolsets`, additional ones.
    """

    target: AbstractAgent[Any, Any]
    prompt_capabilities = frozenset({"image", "audio", "resource"})
    mcp_transports = frozenset({"stdio", "http", "sse"})
    steering = True
    knows_settings: ClassVar[frozenset[str]] = frozenset(
        {"deps", "model_settings", "usage_limits", "toolsets"}
    )

    def default_name(self) -> str:
        return self.target.name or "agent"

    async def answer(self, run: Run) -> StopReason | None:
        settings = dict(self.options.settings)
        deps = settings.pop("deps", None)
        history = _History.of(run)
        shown = _Shown(run)
        with capture_run_messages() as messages:
            try:
                result = await self.target.run(
                    _prompt(run.content),
                    message_history=history.messages,
                    model=run.model,
                    instructions=self.mode_text(run),
                    deps=deps(run) if isroutine(deps) else deps,
                    model_settings=settings.get("model_settings"),
                    usage_limits=settings.get("usage_limits"),
                    toolsets=[*settings.get("toolsets", ()), *await self._toolsets(run)],
                    capabilities=[_LastHandler(partial(_resolve, run))],
                    event_stream_handler=shown.show,
                )
            except asyncio.CancelledError:
                await history.keep(messages)
                raise
            except Exception as error:
                if not is_bad_request(error):
                    await history.keep(messages)
                raise
        await history.keep(result.all_messages())
        await shown.end(result)
        return None

    async def _toolsets(self, run: Run) -> list[AbstractToolset[Any]]:
        found: list[AbstractToolset[Any]] = []
        if self.options.editor_tools:
            from accord_bridges.editor import editor_tools

            found.append(FunctionToolset(editor_tools(run)))
        make = partial(_mcp_toolset, run.cwd)
        return [*found, *await self.open_mcp_servers(run, make)]


def _mcp_toolset(cwd: str, server: McpServer, name: str) -> AbstractToolset[Any]:
    try:
        from fastmcp.client import transports
        from pydantic_ai.mcp import MCPToolset
    except ImportError as error:
        raise ImportError("pip install 'pydantic-ai-slim[mcp]'") from error
    match server:
        case McpServerStdio():
            client: Any = transports.StdioTransport(
                server.command, list(server.args), env=dict(server.env), cwd=cwd, keep_alive=False
            )
        case McpServerHttp():
            client = transports.StreamableHttpTransport(server.url, dict(server.headers))
        case McpServerSse():
            client = transports.SSETransport(server.url, dict(server.headers))
    return MCPToolset(client, id=name, init_timeout=None).prefixed(name)


# The history.


class _History:
    """The messages of a session, each converted to JSON once."""

    def __init__(self, run: Run, messages: list[ModelMessage], stored: list[Any]) -> None:
        self._run = run
        self.messages = messages
        self._stored = stored

    @classmethod
    def of(cls, run: Run) -> _History:
        """Return the messages that the session remembers."""
        stored: list[Any] = run.remembered or []
        kept: tuple[list[ModelMessage], list[Any]] | None = run.session.data.get("pydantic_ai")
        if kept is None or kept[1] is not stored:
            kept = (ModelMessagesTypeAdapter.validate_python(stored), stored)
        return cls(run, *kept)

    async def keep(self, messages: Sequence[ModelMessage]) -> None:
        """Store the messages; this is completed even if the turn is cancelled."""
        messages = list(messages)
        if not messages:
            return
        same = 0
        for one, other in zip(messages, self.messages, strict=False):
            if one is not other:
                break
            same += 1
        new = ModelMessagesTypeAdapter.dump_python(messages[same:], mode="json")
        stored = [*self._stored[:same], *new]
        await asyncio.shield(self._run.remember(stored))
        if self._run.remembered is stored:
            self._run.session.data["pydantic_ai"] = (messages, stored)


def _prompt(content: Sequence[ContentBlock]) -> str | list[str | BinaryContent]:
    parts: list[str | BinaryContent] = []
    for block in content:
        match block:
            case ImageContent() | AudioContent():
                parts.append(BinaryContent(block.data, media_type=block.mime_type))
            case EmbeddedResource(uri=uri, content=bytes() as data, mime_type=mime_type):
                parts.append(f"[{uri}]({uri})")
                kind = mime_type or "application/octet-stream"
                parts.append(BinaryContent(data, media_type=kind))
            case EmbeddedResource(uri=uri, content=text):
                parts.append(f"[{uri}]({uri})\n\n{text}")
            case ResourceLink(uri=uri, name=name):
                parts.append(f"[{name}]({uri})")
            case str():
                parts.append(str(block))
    if all(isinstance(part, str) for part in parts):
        return "\n".join(str(part) for part in parts)
    return parts


# The events.


class _Shown:
    """Shows the events of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._calls: dict[int, str] = {}  # of the response, by the index of the part
        self._requests = 0
        self._usage = RunUsage()
        self._output_tool = False  # whether the last response gave the output by a tool

    async def show(self, ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        """Show the events of one step: a response of the model, or its calls."""
        say, think = self._run.say, self._run.think
        self._requests += 1
        self._calls.clear()
        async for event in events:
            if type(event) is PartDeltaEvent:
                delta = event.delta
                if type(delta) is TextPartDelta:
                    if delta.content_delta:
                        await say(delta.content_delta)
                elif type(delta) is ThinkingPartDelta:
                    if delta.content_delta:
                        await think(delta.content_delta)
                else:
                    await self._add_arguments(event)
            else:
                await self._show(ctx, event)
        await self._report_use(ctx)
        for message in self._run.turn.take_steering():
            prompt = _prompt(message.content)
            ctx.enqueue(*([prompt] if isinstance(prompt, str) else prompt))

    async def _add_arguments(self, event: PartDeltaEvent) -> None:
        call_id = self._calls.get(event.index)
        pieces = getattr(event.delta, "args_delta", None)
        if call_id is not None and isinstance(pieces, str):
            await self._run.add_arguments(call_id, pieces)

    async def _show(self, ctx: RunContext[Any], event: AgentStreamEvent) -> None:
        run = self._run
        if isinstance(event, PartStartEvent):
            await self._begin_part(ctx, event)
        elif isinstance(event, PartEndEvent):
            part: Any = event.part
            if event.index in self._calls and part.args is not None:
                await run.begin_call(part.tool_call_id, part.tool_name, part.args)
        elif isinstance(event, ToolCallEvent):
            part = event.part
            self._output_tool = _is_output(ctx, part.tool_name)
            if not self._output_tool:
                await run.begin_call(part.tool_call_id, part.tool_name, part.args)
                if event.args_valid:
                    await run.start_call(part.tool_call_id)
        elif isinstance(event, ToolResultEvent):
            await self._end_call(event.part, getattr(event, "content", None))
        elif event.event_kind == "custom":
            text = getattr(event, "message", None) or getattr(event, "text", None)
            if event.tool_call_id is not None and isinstance(text, str):
                await run.progress(event.tool_call_id, f"{text}\n")

    async def _begin_part(self, ctx: RunContext[Any], event: PartStartEvent) -> None:
        run, part = self._run, event.part
        if part.part_kind == "text":
            run.message(f"{self._requests}.{event.index}")
            if part.content:
                await run.say(part.content)
        elif part.part_kind == "thinking":
            if part.content:
                await run.think(part.content)
        elif part.part_kind == "file":
            await run.show(part.content)
        elif part.part_kind in ("tool-call", "builtin-tool-call"):
            if _is_output(ctx, part.tool_name):
                return
            self._calls[event.index] = part.tool_call_id
            pieces = part.args if isinstance(part.args, str) else None
            arguments = None if pieces is not None else part.args
            await run.begin_call(part.tool_call_id, part.tool_name, arguments or None)
            if pieces:
                await run.add_arguments(part.tool_call_id, pieces)
        elif part.part_kind == "builtin-tool-return":
            await self._end_call(part, None)

    async def _end_call(self, part: Any, more: Any) -> None:
        """Show what a tool has returned, and what the model is told beside it."""
        output = part.content
        if more is not None:
            output = [output, *(more if isinstance(more, list | tuple) else (more,))]
        # In older releases, such as 2.52, a call to repeat has a part that has no outcome.
        outcome = _OUTCOMES.get(getattr(part, "outcome", "retried"), "failed")
        if outcome == "failed" and not isinstance(output, str):
            text = getattr(part, "model_response_str", None) or part.model_response
            output = text()
        if isinstance(output, list):
            for each in output[:-1]:
                await self._run.progress(part.tool_call_id, each)
            output = output[-1] if output else None
        await self._run.end_call(part.tool_call_id, output, outcome=outcome)

    async def _report_use(self, ctx: RunContext[Any]) -> None:
        """Report what was used since the last report, that of delegated agents included."""
        run, now, before = self._run, ctx.usage, self._usage
        if now.requests == before.requests and now.total_tokens == before.total_tokens:
            return
        thought = now.details.get("reasoning_tokens", 0) - before.details.get("reasoning_tokens", 0)
        read = now.cache_read_tokens - before.cache_read_tokens
        write = now.cache_write_tokens - before.cache_write_tokens
        await run.used(
            input=now.input_tokens - before.input_tokens,
            output=now.output_tokens - before.output_tokens,
            thought=thought or None,
            cached_read=read or None,
            cached_write=write or None,
        )
        cost = float((now.cost or 0) - (before.cost or 0))
        self._usage = now + RunUsage()  # a copy
        last = next((m for m in reversed(ctx.messages) if isinstance(m, ModelResponse)), None)
        size = ctx.model.context_window
        if cost > 0:
            await run.cost(cost)
        elif last is not None and size:
            await run.context(ContextUsage(last.usage.total_tokens, size))

    async def end(self, result: Any) -> None:
        """Show an output that is not the text which was shown already."""
        output = result.output
        if isinstance(output, BinaryContent):
            return  # a part of the response
        said = result.response.text or ""
        is_said = output == said if isinstance(output, str) else _is_json(said)
        if is_said and not self._output_tool:
            return
        self._run.message("output")
        await self._run.show(output)


def _is_output(ctx: RunContext[Any], name: str) -> bool:
    """Return whether a call of a tool gives the output of the run."""
    manager = ctx.tool_manager
    found = manager.get_tool_def(name) if manager is not None and manager.tools else None
    return found is not None and found.kind == "output"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# Approvals and questions.


class _LastHandler(HandleDeferredToolCalls[Any]):
    """Resolves what no handler of the agent itself has resolved."""

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")


async def _resolve(
    run: Run, _: RunContext[Any], requests: DeferredToolRequests
) -> DeferredToolResults:
    """Ask the user about the calls that wait for an approval or an answer."""
    results = DeferredToolResults(metadata=requests.metadata)
    for call in requests.approvals:
        about = requests.metadata.get(call.tool_call_id)
        answer = await run.approve(
            call.tool_call_id,
            call.tool_name,
            call.args,
            description=_described(about),
            editable=True,
        )
        results.approvals[call.tool_call_id] = (
            ToolApproved(override_args=answer.input if answer.changed else None)
            if answer.allowed
            else ToolDenied("The user does not allow this call.")
        )
    for call in requests.calls:
        results.calls[call.tool_call_id] = await _answered(run, call)
    return results


def _described(metadata: dict[str, Any] | None) -> str | None:
    """Return what the tool says of its request for an approval."""
    if not metadata:
        return None
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, default=str)}"
        for name, value in metadata.items()
    )


async def _answered(run: Run, call: Any) -> Any:
    """Return the user's answer to a call that is a question; others have nobody to run them."""
    arguments: dict[str, Any] = call.args_as_dict()
    message = next((v for k in _QUESTIONS if isinstance(v := arguments.get(k), str)), None)
    if message is None:
        await run.turn.show_notice(
            f"The tool {call.tool_name} cannot run here",
            severity="warning",
            description="It is deferred: a program outside of the agent must run it, and there is"
            " none. Resolve it with a HandleDeferredToolCalls capability of the agent.",
        )
        return ToolFailed(f"{call.tool_name} cannot run here: no program for it is connected.")
    listed: Any = next((v for k in _CHOICES if isinstance(v := arguments.get(k), list)), [])
    choices = tuple(each for each in listed if isinstance(each, str))
    try:
        answer = await run.ask(Question(message, choices))
    except NotOffered:
        await run.say(message)
        return ToolFailed("The user's program has no forms. End your turn: the question is shown.")
    return ToolFailed("The user does not answer.") if answer is None else answer
