"""Agents of Microsoft's Agent Framework (`agent-framework-core`).

A turn is a streamed run, and another one after each answer of the user. The framework's session is
stored with ours, also that of a turn that was cancelled: its calls get results, so that models
accept the history.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.util import find_spec
from typing import Any

from agent_framework import (
    AgentResponse,
    AgentSession,
    BaseAgent,
    Content,
    FunctionMiddleware,
    HistoryProvider,
    InMemoryHistoryProvider,
    MCPStdioTool,
    MCPStreamableHTTPTool,
    Message,
    RawAgent,
    WorkflowAgent,
    tool,
)

from accord import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    McpServerHttp,
    McpServerStdio,
    ResourceLink,
    Session,
)
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, McpServer
from accord_bridges.editor import editor_tools
from accord_bridges.failures import is_bad_request
from accord_bridges.run import Run

_CALL_S = 300  # that a tool of an MCP server may take
_CANCELLED = "The call was cancelled before it had a result."
_REASONS: dict[str, StopReason] = {"length": "max_tokens", "content_filter": "refusal"}
_ASKING = ("function_approval_request", "function_approval_response")


class AgentFrameworkAgent(BridgedAgent):
    """An agent of Microsoft's Agent Framework.

    Settings: `function_invocation_kwargs`, what tools get beside their arguments, or a function
    that makes it from the `Run` of a turn.
    """

    target: BaseAgent
    prompt_capabilities = frozenset({"image", "audio", "resource"})
    mcp_transports = (
        frozenset({"stdio", "http"})
        if find_spec("mcp") and find_spec("tenacity")  # the framework's client needs both
        else frozenset[str]()
    )
    reports = frozenset({"tokens"})
    knows_settings = frozenset({"function_invocation_kwargs"})

    def _check_options(self) -> None:
        super()._check_options()
        if isinstance(self.target, WorkflowAgent):
            raise TypeError(
                "a WorkflowAgent keeps one conversation, which its sessions would share:"
                " expected an Agent"
            )
        options = self.options
        if not isinstance(self.target, RawAgent):
            for name in ("models", "modes", "editor_tools"):
                if getattr(options, name):
                    kind = type(self.target).__name__
                    raise TypeError(
                        f"{name}=…: expected an Agent, whose model runs here, got {kind}"
                    )

    async def begin_session(self, session: Session) -> None:
        session.data["agent_framework"] = _restored(session.remembered, session.id)

    async def answer(self, run: Run) -> StopReason | None:
        turn = _Turn(run, self.target, run.session.data["agent_framework"])
        more: dict[str, Any] = {}
        if isinstance(self.target, RawAgent):
            more = {"middleware": [turn.calls], "tools": await self._tools(run) or None}
            options = {"model": run.model, "instructions": self.mode_text(run)}
            more["options"] = {key: value for key, value in options.items() if value is not None}
            kwargs = self.options.settings.get("function_invocation_kwargs")
            kwargs = kwargs(run) if inspect.isroutine(kwargs) else kwargs
            more["function_invocation_kwargs"] = kwargs
        try:
            given: list[Any] = [Message("user", _contents(run.content))]
            while given:
                given = await turn.work(given, more)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._keep(run, turn)))
            raise
        except Exception as error:
            if is_bad_request(error):
                await self.begin_session(run.session)
            else:
                await self._keep(run, turn)
            raise
        await run.remember(_stored(turn.session))
        return turn.stop_reason

    async def _keep(self, run: Run, turn: _Turn) -> None:
        """Store what was done in a turn that did not come to its end."""
        await turn.complete()
        await run.remember(_stored(turn.session))

    async def _tools(self, run: Run) -> list[Any]:
        tools: list[Any] = list(
            await self.open_mcp_servers(run, partial(_mcp_tool, run.cwd))
            if self.mcp_transports
            else ()
        )
        if self.options.editor_tools:
            tools += [tool(each, approval_mode="never_require") for each in editor_tools(run)]
        return tools


def _restored(kept: Any, session_id: str) -> AgentSession:
    """Return the session of the framework as it was stored; in a fork, under the new id."""
    if not kept:
        return AgentSession(session_id=session_id)
    return AgentSession.from_dict(json.loads(json.dumps({**kept, "session_id": session_id})))


def _stored(session: AgentSession) -> Any:
    return json.loads(json.dumps(session.to_dict(), default=str))


def _mcp_tool(cwd: str, server: McpServer, name: str) -> AbstractAsyncContextManager[Any]:
    more: dict[str, Any] = {
        "name": name, "tool_name_prefix": name, "load_prompts": False,
        "request_timeout": _CALL_S, "approval_mode": "always_require",
    }  # fmt: skip
    match server:
        case McpServerStdio():
            return MCPStdioTool(
                command=server.command, args=list(server.args), env=dict(server.env), cwd=cwd,
                **more,
            )  # fmt: skip
        case McpServerHttp():
            return MCPStreamableHTTPTool(
                url=server.url, static_headers=dict(server.headers), **more
            )
        case _:
            raise TypeError("the framework has no client for servers that use SSE")


def _contents(content: Sequence[ContentBlock]) -> list[Any]:
    """Return the prompt as the framework's content."""
    parts: list[Any] = []
    for block in content:
        match block:
            case ImageContent() | AudioContent():
                parts.append(Content.from_data(block.data, block.mime_type))
            case EmbeddedResource(uri=uri, content=bytes() as data, mime_type=kind):
                name = uri.rpartition("/")[2] or uri
                parts.append(Content.from_data(data, kind or "application/octet-stream", name=name))
            case EmbeddedResource(uri=uri, content=text):
                parts.append(Content.from_text(f"[{uri}]({uri})\n\n{text}"))
            case ResourceLink(uri=uri, name=name):
                parts.append(Content.from_text(f"[{name}]({uri})"))
            case str():
                parts.append(Content.from_text(str(block)))
    return parts


class _Turn:
    """A turn: the updates of its runs, and the user's answers to their requests."""

    def __init__(self, run: Run, agent: BaseAgent, session: AgentSession) -> None:
        self.run = run
        self.agent = agent
        self.session = session
        self.calls = _Calls(run)
        self.stop_reason: StopReason | None = None
        self._given: list[Any] = []
        self._updates: list[Any] = []
        self._message_id: str | None = ""
        self._number = 0
        self._said: list[str] = []
        self._thought: list[str] = []
        self._used: dict[str, Any] = {}

    async def work(self, given: list[Any], more: dict[str, Any]) -> list[Any]:
        """Run the agent with messages; return those with the answers that it asks for."""
        self._given, updates = given, []
        self._updates, self._used = updates, {}
        asked: list[Any] = []
        stream: Any = self.agent.run(given, stream=True, session=self.session, **more)
        say = self.run.say
        try:
            async for update in stream:
                updates.append(update)
                for content in update.contents:
                    if content.type == "text" and content.merge_mode != "replace":
                        if text := content.text:
                            self._begin_message(update.message_id)
                            self._said.append(text)
                            await say(text)
                    elif content.type == "function_approval_request":
                        asked.append(content)
                    else:
                        await self._show(update, content)
                if (reason := update.finish_reason) is not None:
                    self.stop_reason = _REASONS.get(reason)
            await stream.get_final_response()
        except BaseException as error:
            await asyncio.shield(asyncio.ensure_future(stream.close(error)))
            raise
        self._given, self._updates = [], []
        return [Message("user", [await self._decide(each) for each in asked])] if asked else []

    def _begin_message(self, message_id: str | None) -> None:
        """Start a message if the framework has; after results of tools, it always has."""
        if message_id != self._message_id:
            self._message_id = message_id
            self._number += 1
            self._said.clear()
            self._thought.clear()
        self.run.message(f"message-{self._number}")

    async def _replace(self, said: list[str], text: str, show: Callable[[str], Any]) -> None:
        """Show a whole text: what is new in it, or all of it if it begins in another way."""
        before = "".join(said)
        if before and not text.startswith(before):
            self._number += 1
            self.run.message(f"message-{self._number}")
            before = ""
        said[:] = [text]
        if rest := text[len(before) :]:
            await show(rest)

    async def _show(self, update: Any, content: Any) -> None:
        run = self.run
        match content.type:
            case "text" if content.text:  # the whole, after its deltas or instead of them
                self._begin_message(update.message_id)
                await self._replace(self._said, content.text, run.say)
            case "text_reasoning" if content.text:
                self._begin_message(update.message_id)
                if content.merge_mode == "replace":
                    await self._replace(self._thought, content.text, run.think)
                else:
                    self._thought.append(content.text)
                    await run.think(content.text)
            case "function_call":
                await self._show_call(content)
            case "function_result":
                self._message_id = ""  # the next message is another one
                failed = content.exception is not None
                await run.end_call(
                    content.call_id, _output(content), outcome="failed" if failed else "completed"
                )
            case "usage":
                await self._report(content)
            case "error":
                await run.say(content.message or "The model has reported an error.")
            case "oauth_consent_request":
                await run.say(f"Consent is needed: {content.consent_link}")
            case "data" | "uri":
                await run.show(_shown(content))
            case kind if kind.endswith("_tool_call"):
                name = content.tool_name or kind.removesuffix("_tool_call")
                await run.begin_call(_id(content), name, _arguments(content))
            case kind if kind.endswith("_tool_result"):
                await run.end_call(_id(content), _output(content))
            case _:
                pass

    async def _report(self, content: Any) -> None:
        """Report tokens; from the second request of a run on, the framework gives its total."""
        before = self._used
        now = {key: value or 0 for key, value in (content.usage_details or {}).items()}
        if content.merge_mode != "replace":
            now = {key: before.get(key, 0) + value for key, value in now.items()}
        self._used = {**before, **now}
        more = {key: self._used[key] - before.get(key, 0) for key in now}
        await self.run.used(
            input=more.get("input_token_count", 0),
            output=more.get("output_token_count", 0),
            thought=more.get("reasoning_output_token_count"),
            cached_read=more.get("cache_read_input_token_count"),
            cached_write=more.get("cache_creation_input_token_count"),
        )

    async def _show_call(self, content: Any) -> None:
        run, arguments = self.run, content.arguments
        if not run.is_open(content.call_id):
            if not content.name or content.call_id in self.calls.ended:
                return
            await run.begin_call(content.call_id, content.name)
        if isinstance(arguments, str) and content.merge_mode != "replace":
            await run.add_arguments(content.call_id, arguments)
        elif arguments is not None:
            await run.begin_call(content.call_id, content.name or "", arguments)

    async def _decide(self, request: Any) -> Any:
        """Ask the user about a call; one that was edited is asked about again by the framework."""
        call = request.function_call
        edited = self.calls.edited.get(call.call_id)
        if edited is not None and call.parse_arguments() == edited:
            return request.to_function_approval_response(True)
        approval = await self.run.approve(
            call.call_id, call.name, call.arguments, editable=not call.hosted
        )
        if approval.allowed and approval.changed:
            self.calls.edited[call.call_id] = approval.input
        return request.to_function_approval_response(approval.allowed)

    async def complete(self) -> None:
        """Store the messages of the run that was cut, with a result for each call."""
        said = AgentResponse.from_updates(self._updates).messages if self._updates else []
        messages = [*self._given, *said]
        session, local = self.session, InMemoryHistoryProvider.DEFAULT_SOURCE_ID
        if session.service_session_id is not None:
            return
        providers: list[Any] = [
            each
            for each in getattr(self.agent, "context_providers", ())
            if isinstance(each, HistoryProvider)
        ] or [InMemoryHistoryProvider()]
        for provider in providers:
            state = session.state.setdefault(provider.source_id, {})
            before = await provider.get_messages(session.session_id, state=state)
            found = [*before, *messages]
            left = self._left(found)
            new = [_without_questions(each) for each in messages]
            if left:
                new.append(Message("tool", left))
            if provider.source_id == local:
                kept = [_without_questions(each) for each in before]
                state["messages"] = [each for each in (*kept, *new) if each.contents]
            else:
                await provider.save_messages(session.session_id, new, state=state)
        session.state.pop("tool_approval", None)

    def _left(self, messages: Sequence[Any]) -> list[Any]:
        """Return results for the calls that have none: those of tools that have run, if any."""
        contents = [each for message in messages for each in message.contents]
        done = {each.call_id for each in contents if each.type == "function_result"}
        open_calls = {
            each.call_id: each.id
            for each in contents
            if each.type == "function_call" and each.call_id not in done and not each.hosted
        }
        return [
            Content.from_function_result(
                call_id, id=own_id, result=self.calls.ended.get(call_id, _CANCELLED)
            )
            for call_id, own_id in open_calls.items()
        ]


def _without_questions(message: Any) -> Any:
    """Return a message without approvals, which only the framework itself continues from."""
    contents = [each for each in message.contents if each.type not in _ASKING]
    if len(contents) == len(message.contents):
        return message
    return Message(message.role, contents, author_name=message.author_name)


class _Calls(FunctionMiddleware):
    """Shows when calls begin and end, and runs those that the user has edited as edited."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.edited: dict[str, Any] = {}
        self.ended: dict[str, Any] = {}
        """The results of the calls that have ended, by id."""

    async def process(self, context: Any, call_next: Callable[[], Any]) -> None:
        run, call_id = self._run, context.metadata["call_id"]
        name = context.function.name
        await run.begin_call(call_id, name, context.arguments)
        if call_id in self.edited and "approval_response" in context.metadata:
            context.arguments = self.edited[call_id]
        else:
            await run.start_call(call_id)
        try:
            await call_next()
        except Exception as error:
            if type(error).__name__.startswith("_"):  # of the framework: it asks again
                raise
            text = f"{type(error).__name__}: {error}"
            self.ended[call_id] = f"Error: {text}"
            await run.end_call(call_id, text, outcome="failed")
            raise
        self.ended[call_id] = context.result
        await run.end_call(call_id, _results(context.result))


def _results(value: Any) -> Any:
    """Return what a tool has returned, as something that can be shown."""
    if isinstance(value, list) and all(isinstance(each, Content) for each in value):
        parts = [each.text if each.type == "text" else _shown(each) for each in value]
        return parts[0] if len(parts) == 1 else parts
    return _shown(value) if isinstance(value, Content) else value


def _output(content: Any) -> Any:
    for value in (content.items, content.outputs, content.output, content.result):
        if value:
            return _results(list(value) if isinstance(value, tuple) else value)
    return None


def _shown(content: Any) -> Any:
    """Return content as something that can be shown: data as such, the rest as JSON."""
    if content.type == "data" and content.uri:
        kind = content.media_type or "application/octet-stream"
        data = content.uri.partition(",")[2]
        sort = kind.partition("/")[0]
        if sort in ("image", "audio"):
            return {"type": sort, "data": data, "mimeType": kind}
    if content.type == "text":
        return content.text
    if content.type == "uri":
        return str(content.uri)
    return content.to_dict()


def _id(content: Any) -> str:
    return str(content.call_id or content.image_id or content.id)


def _arguments(content: Any) -> Any:
    if content.arguments is not None:
        return content.arguments
    if content.commands is not None:
        return {"commands": content.commands}
    if content.inputs:
        return {"code": "\n".join(each.text for each in content.inputs if each.text)}
    return None
