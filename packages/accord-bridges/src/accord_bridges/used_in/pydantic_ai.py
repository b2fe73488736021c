"""ACP agents in pydantic-ai: `AcpModel` is a model, `acp_toolset` a tool that asks an agent.

One response of the model is what the agent does until it ends its turn, or calls a function tool of
the run. These reach it by MCP, and pydantic-ai runs them: the response ends with the calls, and the
next request brings their results to the turn, which has waited. The agent's own tools are shown as
calls of native tools, which pydantic-ai does not run. A response names its session, so that
`message_history` continues it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Unpack

from pydantic_ai import messages as pm
from pydantic_ai import toolsets
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

import accord
from accord.client.connect import AgentCommand
from accord.types.content import ContentBlock
from accord_bridges.steps import call_arguments, call_name, call_output, content_text
from accord_bridges.used_in.agents import AcpAgent, AgentOptions, CallerTool, agent_of, ask
from accord_bridges.used_in.turns import AcpAgentError, Asked, Called, Turn

SYSTEM = "acp"
_FINISHED: dict[str, pm.FinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "max_turn_requests": "length",
    "refusal": "content_filter",
}
_GIVEN = "The result was received. It is the end of this task: say nothing more."

# The turns of an agent run, so that none waits for a tool when the run has failed.
_turns: ContextVar[list[Turn] | None] = ContextVar("turns of an agent run", default=None)


class AcpModel(Model[None]):
    """An ACP agent as a model: `Agent(AcpModel("opencode acp"))`.

    `agent` is the command of the agent, or an `AcpAgent`. A run without history opens a session.
    Model settings do not apply to an agent. Failures of the agent are `ModelAPIError`.
    """

    _announces_lookalike_notes = False

    def __init__(self, agent: AgentCommand | AcpAgent, **options: Unpack[AgentOptions]) -> None:
        profile: ModelProfile = {
            "supports_tools": True,
            "default_structured_output_mode": "prompted",
            "supports_json_schema_output": False,
        }
        super().__init__(profile=profile)
        self.agent: AcpAgent = agent_of(agent, options)
        self._last: dict[str, str] = {}  # the last response of each session
        self._told: dict[str, str] = {}  # the instructions that each session has

    @property
    def model_name(self) -> str:
        """The name of the agent's program."""
        return self.agent.name

    @property
    def system(self) -> str:
        """The provider: `acp`."""
        return SYSTEM

    @property
    def provider(self) -> None:
        """No provider of pydantic-ai serves it."""

    async def request(
        self,
        messages: list[pm.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> pm.ModelResponse:
        """Run the turn of the agent to its end, or to its next calls of function tools."""
        opened = self.request_stream(messages, model_settings, model_request_parameters)
        async with opened as stream:
            async for _ in stream:
                pass
            return stream.get()

    @contextlib.asynccontextmanager
    async def request_stream(
        self,
        messages: list[pm.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Run the turn, streamed; leaving the block early cancels it."""
        _, params = self.prepare_request(model_settings, model_request_parameters)
        turn: Turn | None = None
        try:
            turn = self._continued(messages) or await self._begun(messages, params)
            outputs = frozenset(tool.name for tool in params.output_tools)
            stream = _Response(params, turn, self.agent, outputs)
            yield stream
            self._last[turn.session_id] = stream.provider_response_id or ""
            if not (turn.is_ended or stream.is_waiting):
                turn.cancel()
        except BaseException as error:
            if turn is not None:
                turn.cancel()
            if isinstance(error, AcpAgentError):
                raise ModelAPIError(self.model_name, str(error)) from error
            raise

    @contextlib.asynccontextmanager
    async def _run_scope(self) -> AsyncGenerator[None]:
        """Cancel what waits for a tool of a run that has failed."""
        turns: list[Turn] = []
        _turns.set(turns)
        try:
            yield
        except BaseException:
            for turn in turns:
                turn.cancel()
            raise

    def _continued(self, messages: Sequence[pm.ModelMessage]) -> Turn | None:
        """Return the turn that waits for the tools whose results are in the messages."""
        session_id, _, new = _place(messages)
        turn = self.agent.running(session_id) if session_id else None
        results = [part for one in new for part in one.parts if isinstance(part, pm.ToolReturnPart)]
        if turn is None or not any(part.tool_call_id in turn.waiting for part in results):
            return None
        more = "\n\n".join(text for text in _prompt(new) if isinstance(text, str))
        for part in results:
            if (call := turn.waiting.get(part.tool_call_id)) is not None:
                failed = part.outcome in ("failed", "retried")
                added = f"\n\nThe user adds: {more}" if more and part is results[-1] else ""
                call.answer(part.model_response_str() + added, is_error=failed)
        return turn

    async def _begun(self, messages: list[pm.ModelMessage], params: ModelRequestParameters) -> Turn:
        """Send what is new to the session of the messages, else all of them to a new one."""
        session_id, last, new = _place(messages)
        if session_id is not None and self._last.get(session_id, last) != last:
            session_id = None  # the session has gone on: this is another branch
        told = "\n\n".join(
            [part.content for part in params.instruction_parts or ()]
            or [one.instructions for one in new if one.instructions]
        )
        before = self._told.get(session_id or "")

        def contents(is_known: bool) -> list[ContentBlock]:
            system = "\n\n".join(filter(None, [*_system(new if is_known else messages), told]))
            blocks: list[ContentBlock] = []
            if system and not (is_known and told == before and system == told):
                blocks.append(f"<instructions>\n{system}\n</instructions>")
            if not is_known and (history := _history(messages[: -len(new) or None])):
                blocks.append(f"<conversation_so_far>\n{history}\n</conversation_so_far>")
            return [*blocks, *self._supported([*_results(new), *_prompt(new)])] or ["Continue."]

        tools = [
            CallerTool(tool.name, tool.description or "", tool.parameters_json_schema)
            for tool in [*params.declared_function_tools, *params.output_tools]
        ]
        turn = await self.agent.start(contents, session_id=session_id, tools=tools)
        self._told[turn.session_id] = told
        if (turns := _turns.get()) is not None:
            turns.append(turn)
        return turn

    def _supported(self, contents: Sequence[ContentBlock]) -> Iterator[ContentBlock]:
        """Yield what the agent can read, and the type of what it cannot."""
        for content in contents:
            is_image = isinstance(content, accord.ImageContent)
            kind = "audio" if isinstance(content, accord.AudioContent) else "image"
            if not (is_image or kind == "audio") or self.agent.supports_content(kind):
                yield content
            else:
                yield content_text(content)


def acp_toolset(
    agent: AgentCommand | AcpAgent,
    *,
    name: str = "ask_agent",
    description: str = "Give a task to another agent, which works on it and answers.",
    **options: Unpack[AgentOptions],
) -> toolsets.FunctionToolset[Any]:
    """Return a toolset whose tool asks an ACP agent, in one session for each conversation.

    The agent does not see the conversation. Failures are results that the model can read.
    """
    acp = agent_of(agent, options)

    async def delegate(context: RunContext[Any], prompt: str) -> str:
        thread = context.conversation_id or context.run_id or ""
        try:
            return (await ask(acp, thread, prompt))[0]
        except AcpAgentError as error:
            return str(error)

    toolset = toolsets.FunctionToolset[Any]()
    toolset.add_function(delegate, takes_ctx=True, name=name, description=description)
    return toolset


@dataclass
class _Response(StreamedResponse):
    """What the agent does in a turn, up to its end or to calls of function tools."""

    _turn: Turn
    _agent: AcpAgent
    _outputs: frozenset[str]  # names of the tools whose call is the result of the run
    is_waiting: bool = False
    _timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    _part: int = 0  # counts parts of the text
    _of: tuple[str, str | None] = ("", None)  # the kind and message of the last part
    _calls: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _ended: set[str] = field(default_factory=set[str])
    _denied: set[str] = field(default_factory=set[str])

    async def _get_event_iterator(self) -> AsyncIterator[pm.ModelResponseStreamEvent]:
        turn = self._turn
        count = turn.context["responses"] = turn.context.get("responses", 0) + 1
        self.provider_response_id = f"{turn.session_id}/{id(turn):x}/{count}"
        self.provider_details = {"session_id": turn.session_id}
        while not self.is_waiting and (items := await turn.read()):
            for item in items:
                match item:
                    case Asked():
                        if not await item.decide():
                            item.answer("reject")
                        call = item.request.tool_call
                        if call is not None and not item.is_allowed:
                            self._denied.add(call.id)
                    case Called():
                        for event in self._called(item):
                            yield event
                    case _:
                        for event in self._shown(item):
                            yield event
        if turn.rejected:
            self.provider_details["rejected"] = list(turn.rejected)
        if self.is_waiting:
            self.finish_reason = "tool_call"
            return
        if turn.rejected and self._of[0] != "text":  # some agents end the turn without a word
            text = self._parts_manager.handle_text_delta(
                vendor_part_id=self._place("text"), content=turn.not_allowed
            )
            for event in text:
                yield event
        self.finish_reason = _FINISHED.get(turn.stop_reason, "error")
        self.provider_details["stop_reason"] = turn.limit or turn.stop_reason
        self._usage = _usage(turn)

    def _shown(self, event: object) -> Iterator[pm.ModelResponseStreamEvent]:
        manager = self._parts_manager
        match event:
            case accord.Text(text=text, message_id=message) if text:
                part = self._place("text", message)
                yield from manager.handle_text_delta(vendor_part_id=part, content=text)
            case accord.Thought(text=text, message_id=message):
                part = self._place("thought", message)
                yield from manager.handle_thinking_delta(vendor_part_id=part, content=text)
            case accord.ContentChunk(role="agent", content=accord.ImageContent() as image):
                file = pm.FilePart(pm.BinaryContent(image.data, media_type=image.mime_type))
                yield manager.handle_part(vendor_part_id=self._place("file"), part=file)
            case accord.ContentChunk(role="agent", content=content):
                text = content_text(content)
                yield from manager.handle_text_delta(
                    vendor_part_id=self._place("text"), content=text
                )
            case accord.ToolCall() if not self._agent.is_own_tool(self._turn.session_id, event):
                yield from self._tool(event)
            case accord.Plan(entries=entries):
                assert self.provider_details is not None
                self.provider_details["plan"] = [[one.status, one.content] for one in entries]
            case _:
                pass

    def _tool(self, call: accord.ToolCall) -> Iterator[pm.ModelResponseStreamEvent]:
        """Show a call of the agent's own tool, and its end."""
        if call.id in self._ended or (call.status == "pending" and call.raw_input in (None, {})):
            return  # what it is about follows
        name, arguments = call_name(call), call_arguments(call)
        if self._calls.get(call.id) != arguments and not (call.id in self._calls and call.is_final):
            self._calls[call.id] = arguments
            self._of = ("", None)
            part = pm.NativeToolCallPart(name, arguments, call.id, provider_name=SYSTEM)
            yield self._parts_manager.handle_part(vendor_part_id=call.id, part=part)
        if call.is_final or call.unfinished:
            self._ended.add(call.id)
            self._of = ("", None)
            is_denied = call.id in self._denied and call.status != "completed"
            failed = "success" if call.status == "completed" else "failed"
            returned = pm.NativeToolReturnPart(
                name,
                call_output(call) or ("Not allowed." if is_denied else ""),
                call.id,
                outcome="denied" if is_denied else failed,
                metadata={"title": call.title, "kind": call.kind, "status": call.shown_status},
                provider_name=SYSTEM,
            )
            yield self._parts_manager.handle_part(vendor_part_id=f"{call.id}=", part=returned)

    def _called(self, call: Called) -> Iterator[pm.ModelResponseStreamEvent]:
        """Show a call of a tool of the run; a result of the run needs no answer."""
        if call.name in self._outputs:
            call.answer(_GIVEN)
        else:
            self.is_waiting = True
        self._of = ("", None)
        part = pm.ToolCallPart(call.name, call.arguments, call.id)
        yield self._parts_manager.handle_part(vendor_part_id=call.id, part=part)

    def _place(self, kind: str, message: str | None = None) -> str:
        """Return the id of the part that content of a message belongs to."""
        if (kind, message) != self._of or kind == "file":
            self._of = (kind, message)
            self._part += 1
        return f"{kind} {self._part}"

    async def close_stream(self) -> None:
        """Cancel the turn of the agent."""
        self._turn.cancel()

    @property
    def model_name(self) -> str:
        """The name of the agent's program."""
        return self._agent.name

    @property
    def provider_name(self) -> str:
        """The provider: `acp`."""
        return SYSTEM

    @property
    def provider_url(self) -> None:
        """None: it is a process."""

    @property
    def timestamp(self) -> datetime:
        """When the response began."""
        return self._timestamp


def _usage(turn: Turn) -> RequestUsage:
    """Return what the agent has reported: its cost is that of this turn."""
    cost = None if turn.cost is None else Decimal(str(turn.cost))
    used = turn.usage
    if used is None:
        return RequestUsage(unmeasured_requests=1, cost=cost)
    read, written, thought = used.cached_read or 0, used.cached_write or 0, used.thought or 0
    # pydantic-ai counts what was cached and thought in the input and output, some agents beside.
    beside = used.total - used.input - used.output >= read + written + thought
    return RequestUsage(
        input_tokens=used.input + (read + written) * beside,
        output_tokens=used.output + thought * beside,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_reasoning_tokens=thought,
        cost=cost,
    )


# What pydantic-ai sends, as content of a prompt.


def _place(
    messages: Sequence[pm.ModelMessage],
) -> tuple[str | None, str, list[pm.ModelRequest]]:
    """Return the session of the last response, the response's id, and the requests after it."""
    new: list[pm.ModelRequest] = []
    for message in reversed(messages):
        if isinstance(message, pm.ModelResponse):
            details = message.provider_details or {}
            is_ours = message.provider_name == SYSTEM and "session_id" in details
            session_id = str(details["session_id"]) if is_ours else None
            return session_id, message.provider_response_id or "", new
        new.insert(0, message)
    return None, "", new


def _system(messages: Sequence[pm.ModelMessage]) -> list[str]:
    parts = [part for one in messages for part in one.parts]
    return [part.content for part in parts if isinstance(part, pm.SystemPromptPart)]


def _prompt(requests: Sequence[pm.ModelRequest]) -> list[ContentBlock]:
    """Return what the user says, and what pydantic-ai says about an unusable response."""
    blocks: list[ContentBlock] = []
    for part in (part for one in requests for part in one.parts):
        if isinstance(part, pm.UserPromptPart):
            content = [part.content] if isinstance(part.content, str) else part.content
            blocks += filter(None, map(_block, content))
        elif isinstance(part, pm.RetryFeedbackPart):
            blocks.append(part.model_response())
    return blocks


def _block(content: Any) -> ContentBlock | None:
    match content:
        case str():
            return content
        case pm.TextContent():
            return content.content
        case pm.BinaryContent(data=data, media_type=media):
            if media.startswith("image/"):
                return accord.ImageContent(data, media)
            if media.startswith("audio/"):
                return accord.AudioContent(data, media)
            if media.startswith("text/") or media == "application/json":
                return data.decode("utf-8", "replace")
            return f"[a file of type {media}, which cannot be sent to an ACP agent]"
        case pm.FileUrl():
            return accord.ResourceLink(content.url, content.identifier)
        case _:
            return None


def _results(requests: Sequence[pm.ModelRequest]) -> list[ContentBlock]:
    """Return results of tools for whose calls no turn waits any more."""
    returned = [
        part
        for one in requests
        for part in one.parts
        if isinstance(part, pm.ToolReturnPart) and part.content != "Final result processed."
    ]
    return [f"The tool {one.tool_name} returned:\n{one.model_response_str()}" for one in returned]


def _history(messages: Sequence[pm.ModelMessage]) -> str:
    """Return what was said in other sessions, as text."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, pm.ModelRequest):
            said = [content_text(block) for block in _prompt([message])]
            lines += [f"User: {text}" for text in said]
            lines += [content_text(block) for block in _results([message])]
            continue
        for part in message.parts:
            if isinstance(part, pm.TextPart):
                lines.append(f"Assistant: {part.content}")
            elif isinstance(part, pm.ToolCallPart):
                lines.append(f"The assistant called {part.tool_name}: {json.dumps(part.args)}")
    return "\n".join(lines)
