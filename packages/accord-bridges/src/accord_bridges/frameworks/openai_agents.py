"""Agents of the OpenAI Agents SDK (`openai-agents`).

A turn is a streamed run, and another one from its state after each approval. The history is a
`Session` of the SDK that is stored with ours.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, ClassVar

from agents import (
    Agent,
    RunConfig,
    RunHooks,
    Runner,
    RunResultStreaming,
    Usage,
    function_tool,
)
from agents.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp

from accord import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    ResourceLink,
)
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, McpServer, stopping
from accord_bridges.failures import is_bad_request
from accord_bridges.run import Run

_CALL_S = 300.0  # that a tool of an MCP server may take
_FAILED = "An error occurred while running the tool"  # how the SDK begins the text of a failure
_CANCELLED = "The call was cancelled before it had a result."
# Fields of the calls that the provider runs itself, with what they do.
_HOSTED = ("arguments", "action", "queries", "code", "input")


class OpenAiAgentsAgent(BridgedAgent):
    """An agent of the OpenAI Agents SDK.

    Settings: `context`, or a function that makes it from the `Run` of a turn; `run_config`;
    `max_turns`.
    """

    target: Agent[Any]
    prompt_capabilities = frozenset({"image", "resource"})
    mcp_transports = frozenset({"stdio", "http", "sse"})
    knows_settings: ClassVar[frozenset[str]] = frozenset({"context", "run_config", "max_turns"})

    async def answer(self, run: Run) -> StopReason | None:
        settings = self.options.settings
        history = _History(run)
        context = settings.get("context")
        config = settings.get("run_config") or RunConfig()
        shown = _Shown(run)
        more: dict[str, Any] = {
            "context": context(run) if inspect.isroutine(context) else context,
            "session": history,
            "hooks": shown,
            "run_config": dataclasses.replace(
                config,
                model=run.model or config.model,
                tool_error_formatter=shown.failing(config.tool_error_formatter),
            ),
        }  # fmt: skip
        if "max_turns" in settings:
            more["max_turns"] = settings["max_turns"]
        agent = await self._agent(run, history.agent)
        given: Any = _prompt(run.content)
        try:
            while True:
                result = Runner.run_streamed(agent, given, **more)
                await shown.show(result)
                if not result.interruptions:
                    break
                given = result.to_state()
                for item in result.interruptions:
                    await _decide(run, given, item)
        except asyncio.CancelledError:
            await history.complete()
            raise
        except Exception as error:
            await (history.undo() if is_bad_request(error) else history.complete())
            raise
        await history.end(result.last_agent.name, self.target.name)
        await shown.end(result.final_output)
        return None

    async def _agent(self, run: Run, name: str | None) -> Agent[Any]:
        """Return the agent that has the conversation, with what the session adds to it."""
        found = _reachable(self.target).get(name or self.target.name, self.target)
        changes: dict[str, Any] = {}
        if opened := await self.open_mcp_servers(run, partial(_mcp_server, run.cwd)):
            changes["mcp_servers"] = [*found.mcp_servers, *opened]
            changes["mcp_config"] = {**found.mcp_config, "include_server_in_tool_names": True}
        if self.options.editor_tools:
            from accord_bridges.editor import editor_tools

            added = [function_tool(tool) for tool in editor_tools(run)]
            changes["tools"] = [*found.tools, *added]
        if (mode := self.mode_text(run)) is not None:
            changes["instructions"] = _instructions(found, mode)
        return found.clone(**changes) if changes else found


def _mcp_server(cwd: str, server: McpServer, name: str) -> AbstractAsyncContextManager[MCPServer]:
    more: dict[str, Any] = {
        "name": name,
        "cache_tools_list": True,
        "client_session_timeout_seconds": _CALL_S,
    }
    match server:
        case McpServerStdio():
            made: Any = MCPServerStdio(
                {
                    "command": server.command,
                    "args": list(server.args),
                    "env": dict(server.env),
                    "cwd": cwd,
                },
                **more,
            )
        case McpServerHttp():
            made = MCPServerStreamableHttp(
                {"url": server.url, "headers": dict(server.headers)}, **more
            )
        case McpServerSse():
            made = MCPServerSse({"url": server.url, "headers": dict(server.headers)}, **more)
    return made


def _instructions(agent: Agent[Any], mode: str) -> Any:
    """Return the instructions of an agent, followed by those of a mode."""
    own = agent.instructions
    if not callable(own):
        return f"{own}\n\n{mode}" if own else mode

    async def both(context: Any, asked: Any) -> str:
        text: Any = own(context, asked)
        text = await text if inspect.isawaitable(text) else text
        return f"{text}\n\n{mode}"

    return both


def _reachable(agent: Agent[Any]) -> dict[str, Agent[Any]]:
    """Return the agents that a conversation can be handed to, by name, as far as they are known."""
    found: dict[str, Agent[Any]] = {}
    waiting: list[Any] = [agent]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, Agent):  # a handoff, which has a weak reference to its agent
            reference: Callable[[], Any] | None = getattr(each, "_agent_ref", None)
            each = reference() if reference is not None else None
        if each is not None and each.name not in found:
            found[each.name] = each
            waiting += each.handoffs
    return found


def _prompt(content: Sequence[ContentBlock]) -> list[Any]:
    parts: list[dict[str, Any]] = []
    for block in content:
        match block:
            case ImageContent():
                url = _data_url(block.data, block.mime_type)
                parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
            case EmbeddedResource(uri=uri, content=bytes() as data, mime_type=mime_type):
                name = uri.rpartition("/")[2] or uri
                url = _data_url(data, mime_type or "application/octet-stream")
                parts.append({"type": "input_file", "filename": name, "file_data": url})
            case EmbeddedResource(uri=uri, content=text):
                parts.append({"type": "input_text", "text": f"[{uri}]({uri})\n\n{text}"})
            case ResourceLink(uri=uri, name=name):
                parts.append({"type": "input_text", "text": f"[{name}]({uri})"})
            case str():
                parts.append({"type": "input_text", "text": str(block)})
    return [{"role": "user", "content": parts}]


def _data_url(data: bytes, mime_type: str) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


async def _decide(run: Run, state: Any, item: Any) -> None:
    """Ask the user about a call that waits for an approval."""
    raw = item.raw_item
    call_id = str(_field(raw, "call_id") or _field(raw, "id"))
    name = item.tool_name or "tool"
    answer = await run.approve(call_id, name, _field(raw, "arguments"))
    if answer.allowed:
        state.approve(item)
    else:
        state.reject(item, rejection_message="The user does not allow this call.")


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


# The history.


class _History:
    """The items of a session: the `Session` of the SDK, stored with ours.

    After a handoff, a last item has the name of the agent that has the conversation.
    """

    session_settings: Any = None

    def __init__(self, run: Run) -> None:
        self._run = run
        self.session_id: str = run.session.id
        stored: list[Any] = list(run.remembered or [])
        self.agent: str | None = stored.pop()["agent"] if stored and "agent" in stored[-1] else None
        self._items = stored
        self._before = list(stored)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return self._items[-limit:] if limit else list(self._items)

    async def add_items(self, items: list[Any]) -> None:
        self._items += items
        await self._store()

    async def pop_item(self) -> Any:
        item = self._items.pop() if self._items else None
        await self._store()
        return item

    async def clear_session(self) -> None:
        self._items.clear()
        await self._store()

    async def end(self, agent: str, first: str) -> None:
        """Store which agent has the conversation."""
        if agent != (self.agent or first):
            self.agent = agent
            await self._store()

    async def complete(self) -> None:
        """Give each call that has no output one, so that the conversation can go on."""
        outputs = {item.get("call_id") for item in self._items if _is_output(item)}
        complete: list[Any] = []
        for item in self._items:
            complete.append(item)
            if item.get("type") == "function_call" and item.get("call_id") not in outputs:
                complete.append(
                    {
                        "type": "function_call_output",
                        "call_id": item["call_id"],
                        "output": _CANCELLED,
                    }
                )
        self._items = complete
        await self._store()

    async def undo(self) -> None:
        """Forget what the turn has added: the provider refuses it."""
        self._items = list(self._before)
        await self._store()

    async def _store(self) -> None:
        last = [{"agent": self.agent}] if self.agent is not None else []
        await asyncio.shield(self._run.remember([*self._items, *last]))


def _is_output(item: Any) -> bool:
    return str(item.get("type")).endswith("_output")


# The events.


class _Shown(RunHooks[Any]):
    """Shows the events of runs; the ends of tools as they happen, which events do not tell."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._responses = 0
        self._calls: dict[int, str] = {}  # of the response, by the index of the item
        self._said = False  # whether the last response had text
        self._usage = Usage()
        self._errors: dict[str, BaseException] = {}  # of tools, by the id of the call

    def failing(self, own: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        """Return a formatter of tool errors that keeps the reason, which only the user reads."""

        async def formatted(args: Any) -> str | None:
            if (error := getattr(args, "error", None)) is not None:
                self._errors[args.call_id] = error
            text = None if own is None else own(args)
            return await text if inspect.isawaitable(text) else text

        return formatted

    async def show(self, result: RunResultStreaming) -> None:
        """Show a run until it ends, needs approvals, or fails."""
        say = self._run.say
        task = result.run_loop_task
        assert task is not None, "a streamed run has a task"
        async with stopping(task):
            try:
                async for event in result.stream_events():
                    if event.type == "raw_response_event":
                        data: Any = event.data
                        if data.type == "response.output_text.delta":
                            if not self._said:
                                self._said = True
                                self._run.message(f"{self._responses}")
                            await say(data.delta)
                        else:
                            await self._show_raw(data)
                    elif event.type == "run_item_stream_event":
                        await self._show_item(event.item)
            finally:
                await self._report_use(result.context_wrapper.usage)

    async def _show_raw(self, data: Any) -> None:
        run = self._run
        match data.type:
            case "response.created":
                self._responses += 1
                self._said = False
                self._calls.clear()
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                await run.think(data.delta)
            case "response.reasoning_summary_part.added" if data.summary_index:
                await run.think("\n\n")
            case "response.refusal.delta":
                await run.say(data.delta)
            case "response.output_item.added" if data.item.type.endswith("_call"):
                item = data.item
                call_id = self._calls[data.output_index] = _id(item)
                await run.begin_call(call_id, _name(item))
            case "response.function_call_arguments.delta":
                if (call := self._calls.get(data.output_index)) is not None:
                    await run.add_arguments(call, data.delta)
            case "response.output_item.done" if data.item.type.endswith("_call"):
                await self._end_item(data.item)
            case _:
                pass

    async def _end_item(self, item: Any) -> None:
        """Show what a call does; one that the provider has run itself has ended."""
        await self._run.begin_call(_id(item), _name(item), _arguments(item))
        status = getattr(item, "status", None)
        image = getattr(item, "result", None) if item.type == "image_generation_call" else None
        if image is not None:
            output: Any = {"type": "image", "data": image, "mimeType": "image/png"}
        else:
            output = getattr(item, "output", None) or getattr(item, "results", None)
        error = getattr(item, "error", None)
        if getattr(item, "call_id", None) is None:  # no call that the SDK runs
            failed = status == "failed" or error is not None
            await self._run.end_call(
                _id(item), error or output, outcome="failed" if failed else "completed"
            )

    async def _show_item(self, item: Any) -> None:
        run = self._run
        if item.type in ("tool_call_item", "handoff_call_item"):
            raw = item.raw_item
            if _field(raw, "call_id") is not None:
                await run.begin_call(_id(raw), _name(raw), _arguments(raw))
        elif item.type == "tool_call_output_item":
            await self._end(str(_field(item.raw_item, "call_id")), item.output)
        elif item.type == "handoff_output_item":
            call_id = str(_field(item.raw_item, "call_id"))
            await run.end_call(call_id, f"{item.target_agent.name} has the conversation")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        call_id = getattr(context, "tool_call_id", None)
        if call_id is not None:
            await self._run.begin_call(call_id, tool.name, getattr(context, "tool_arguments", None))
            await self._run.start_call(call_id)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        call_id = getattr(context, "tool_call_id", None)
        if call_id is not None:
            await self._end(call_id, result)

    async def _end(self, call_id: str, output: Any) -> None:
        error = self._errors.pop(call_id, None)
        failed = error is not None or (isinstance(output, str) and output.startswith(_FAILED))
        output = output if error is None else f"{type(error).__name__}: {error}"
        await self._run.end_call(call_id, output, outcome="failed" if failed else "completed")

    async def _report_use(self, now: Usage) -> None:
        """Report what was used since the last report."""
        before = self._usage
        if now.requests == before.requests and now.total_tokens == before.total_tokens:
            return
        self._usage = dataclasses.replace(now)
        read = now.input_tokens_details.cached_tokens - before.input_tokens_details.cached_tokens
        thought = (
            now.output_tokens_details.reasoning_tokens
            - before.output_tokens_details.reasoning_tokens
        )
        await self._run.used(
            input=now.input_tokens - before.input_tokens,
            output=now.output_tokens - before.output_tokens,
            thought=thought or None,
            cached_read=read or None,
        )

    async def end(self, output: Any) -> None:
        """Show an output that no text has said: that of a tool at which the agent stops."""
        if not self._said:
            await self._run.show(output)


def _id(item: Any) -> str:
    return str(_field(item, "call_id") or _field(item, "id"))


def _name(item: Any) -> str:
    """Return the name of a tool; of a hosted one, that of its kind."""
    name = _field(item, "name")
    return str(name) if name else str(_field(item, "type")).removesuffix("_call")


def _arguments(item: Any) -> Any:
    for name in _HOSTED:
        value = _field(item, name)
        if value is not None:
            dump = getattr(value, "model_dump", None)
            value = dump(mode="json", exclude_none=True) if dump is not None else value
            return {name: value} if name in ("queries", "code", "input") else value
    return None
