"""The events of AG-UI: what a front end reads of a turn of an agent.

A `Turn` is kept over its runs; a `Reply` writes the events of one of them. They are made without
the protocol's library, whose models cost more for each piece of text than the rest of the gateway.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from accord import EmbeddedResource, ImageContent, ResourceLink, TokenUsage
from accord.client.elicitation import ElicitationForm, schema_of_form
from accord.client.events import Compaction, ContentChunk, Notice, Text, Thought, ToolCall
from accord.client.transcript import Message, Transcript
from accord.text import lenient_json
from accord.types.content import AudioContent
from accord.types.diffs import git_patch
from accord.types.tool_calls import Diff, TerminalView
from accord_bridges.gateways.app import Request
from accord_bridges.gateways.openai_forms import permission_arguments, session_headers
from accord_bridges.gateways.turns import (
    CallerCall,
    CallerForm,
    CallerPage,
    CallerQuestion,
    Conversation,
    Exchange,
    GatewayError,
)

PROTOCOL = "1.0"
BACKGROUND = "What the application says:"
# How the parts of a prompt begin that the user has not written.
_BEFORE = (BACKGROUND, "Instructions of the caller:", "The conversation so far,")
_OUTPUT = 65_536  # bytes of a terminal in a result

_encode = msgspec.json.Encoder().encode
Asked: TypeAlias = CallerCall | CallerQuestion | CallerForm | CallerPage


class _Call(Struct):
    """A tool call of the agent, as far as it was reported."""

    id: str
    is_open: bool = True  # its arguments are not complete
    has_result: bool = False
    input: Any = None
    last: ToolCall | None = None


class Turn:
    """A turn of the agent, over its runs; `asked` is what its front end has to answer."""

    def __init__(self, exchange: Exchange, thread: int, messages: Sequence[str]) -> None:
        self.exchange = exchange
        self.thread = thread
        self.messages = messages
        self.asked: dict[str, Asked] = {}
        self.calls: dict[str, _Call] = {}


class Reply:
    """The events of one run.

    `given` is the state of the front end, and `offered` the names of its tools. Interrupts can be
    answered for `answer_s` seconds.
    """

    def __init__(
        self,
        request: Request,
        run: Mapping[str, str],
        agent: str,
        *,
        given: Any,
        offered: frozenset[str],
        answer_s: float,
    ) -> None:
        self._request = request
        self._run = run
        self._agent = agent
        self._given: Any = {} if given is None else given
        self._offered = offered
        self._answer_s = answer_s
        self._events: list[bytes] = []
        self._streams: tuple[type[Text] | type[Thought], str] | None = None  # what is open
        self._head = b""
        self._parent: str | None = None  # the message of the agent that calls tools
        self._state: dict[str, Any] | None = None

    # Writing.

    def _emit(self, kind: str, **fields: Any) -> None:
        self._events += (b"data: ", _encode({"type": kind, **fields}), b"\n\n")

    async def _send(self, *, more: bool = True) -> None:
        if self._events or not more:
            data = b"".join(self._events)
            self._events.clear()
            await self._request.send_events(data, more=more)

    async def begin(self, conversation: Conversation | None) -> None:
        """Begin the run."""
        headers = () if conversation is None else session_headers(conversation)
        await self._request.start_events(headers)
        self._emit("RUN_STARTED", **self._run, protocolVersion=PROTOCOL)
        if conversation is not None and lenient_json.is_object(self._given):
            self._state = self._acp(conversation)
            self._emit("STATE_SNAPSHOT", snapshot={**self._given, "acp": self._state})
        await self._send()

    async def follow(self, turn: Turn) -> None:
        """Report what happens until the turn ends or waits."""
        conversation = turn.exchange.conversation
        is_new = True  # what is known of the session
        async for found in turn.exchange.happenings():
            for item in found:
                if type(item) is Text or type(item) is Thought:
                    if self._streams is None or self._streams[0] is not type(item):
                        self._open(type(item))
                    self._events += (self._head, _encode(item.text), b"}\n\n")
                else:
                    self._take(item, turn)
                    is_new = True
            if is_new:
                self._changes(conversation)
                is_new = False
            await self._send()
        self._close()
        for call in turn.calls.values():
            self._complete(call, turn)

    def _take(self, item: Any, turn: Turn) -> None:
        match item:
            case ToolCall():
                self._tool_call(item, turn)
            case CallerCall():
                turn.asked[item.id] = item
                self._close()
                self._start_call(item.id, item.name)
                arguments = json.dumps(item.arguments, ensure_ascii=False)
                self._emit("TOOL_CALL_ARGS", toolCallId=item.id, delta=arguments)
                self._emit("TOOL_CALL_END", toolCallId=item.id)
            case CallerQuestion():
                turn.asked[item.id] = item
                if item.request.tool_call is not None:
                    self._tool_call(item.request.tool_call, turn)
            case CallerForm() | CallerPage():
                turn.asked[item.id] = item
            case ContentChunk(role="agent", content=ResourceLink() as link):
                self._take(Text(f"[{link.name}]({link.uri})"), turn)
            case ContentChunk(role="agent"):
                self._close()
                content = _content(item.content)
                message = f"msg_{secrets.token_hex(12)}"
                kind = "acp.content"
                self._emit(
                    "ACTIVITY_SNAPSHOT", messageId=message, activityType=kind, content=content
                )
            case Text():
                self._open(Text)
                self._events += (self._head, _encode(item.text), b"}\n\n")
            case Notice():
                value = {
                    "severity": item.severity,
                    "title": item.title,
                    "description": item.description,
                }
                self._emit("CUSTOM", name="acp.notice", value=value)
            case Compaction():
                value = {"id": item.id, "status": item.status, "error": item.error}
                self._emit("CUSTOM", name="acp.compaction", value=value)
            case _:
                pass

    # Messages.

    def _open(self, kind: type[Text] | type[Thought]) -> None:
        self._close()
        message = f"msg_{secrets.token_hex(12)}"
        self._streams = (kind, message)
        if kind is Text:
            self._emit("TEXT_MESSAGE_START", messageId=message, role="assistant")
            content = "TEXT_MESSAGE_CONTENT"
        else:
            self._emit("REASONING_START", messageId=message)
            self._emit("REASONING_MESSAGE_START", messageId=message, role="reasoning")
            content = "REASONING_MESSAGE_CONTENT"
        event = {"type": content, "messageId": message, "delta": ""}
        self._head = b"data: " + _encode(event).removesuffix(b'""}')

    def _close(self) -> None:
        if self._streams is None:
            return
        kind, message = self._streams
        self._streams = None
        if kind is Text:
            self._emit("TEXT_MESSAGE_END", messageId=message)
            self._parent = message
        else:
            self._emit("REASONING_MESSAGE_END", messageId=message)
            self._emit("REASONING_END", messageId=message)

    # Tool calls.

    def _start_call(self, call_id: str, name: str, **fields: Any) -> None:
        if self._parent is not None:
            fields["parentMessageId"] = self._parent
        self._emit("TOOL_CALL_START", toolCallId=call_id, toolCallName=name, **fields)

    def _tool_call(self, item: ToolCall, turn: Turn) -> None:
        call = turn.calls.get(item.id)
        if call is None:
            self._close()
            call = turn.calls[item.id] = _Call(item.id)
            name = item.name or item.kind
            if name in self._offered:
                name = f"agent.{name}"  # a front end would run its own
            about: dict[str, Any] = {"title": item.title, "kind": item.kind}
            if item.locations:
                about["locations"] = [place.path for place in item.locations]
            self._start_call(item.id, name, metadata={"acp": about})
        if call.has_result:
            return
        call.last = item
        if item.is_final or (item.status != "pending" and item.raw_input not in (None, {})):
            self._arguments(call)
        if item.is_final:
            self._result(call, turn)

    def _arguments(self, call: _Call) -> None:
        """Report the arguments, when they do not change any more."""
        if not call.is_open:
            return
        call.is_open = False
        call.input = None if call.last is None else call.last.raw_input
        if call.input is not None:
            text = json.dumps(call.input, ensure_ascii=False)
            self._emit("TOOL_CALL_ARGS", toolCallId=call.id, delta=text)
        self._emit("TOOL_CALL_END", toolCallId=call.id)

    def _complete(self, call: _Call, turn: Turn) -> None:
        """Close a call at the end of a run; at the end of the turn, it has no better result."""
        self._arguments(call)
        if turn.exchange.has_ended and not call.has_result:
            self._result(call, turn)

    def _result(self, call: _Call, turn: Turn) -> None:
        item = call.last
        assert item is not None
        call.has_result = True
        self._close()
        self._parent = None
        about: dict[str, Any] = {"status": item.shown_status, "title": item.title}
        if item.raw_input != call.input:
            about["rawInput"] = item.raw_input
        self._emit(
            "TOOL_CALL_RESULT",
            messageId=f"msg_{secrets.token_hex(12)}",
            toolCallId=call.id,
            content=_result_content(item, turn.exchange.conversation.transcript),
            role="tool",
            metadata={"acp": about},
        )

    # State.

    def _acp(self, conversation: Conversation) -> dict[str, Any]:
        """Return the state of a session, as far as it is known now."""
        found: dict[str, Any] = {"sessionId": conversation.id, "agent": self._agent}
        known = conversation.transcript
        if known is None:
            return found
        plans = list(known.plans.values())
        steps = [step for plan in plans for step in plan.entries]
        usage = known.usage
        more = {
            "mode": known.mode,
            "options": {one.id: one.value for one in known.options},
            "plan": msgspec.to_builtins(steps),
            "planText": "\n\n".join(plan.markdown for plan in plans if plan.markdown),
            "usage": None if usage is None else msgspec.to_builtins(usage),
            "title": known.title,
            "commands": [
                {"name": one.name, "description": one.description} for one in known.commands
            ],
        }
        return found | {name: value for name, value in more.items() if value not in (None, "")}

    def _changes(self, conversation: Conversation) -> None:
        if self._state is None:
            return
        now = self._acp(conversation)
        if now == self._state:
            return
        delta: list[dict[str, Any]] = [
            {"op": "add", "path": f"/acp/{name}", "value": value}
            for name, value in now.items()
            if self._state.get(name, UNSET) != value
        ]
        gone = [name for name in self._state if name not in now]
        delta += [{"op": "remove", "path": f"/acp/{name}"} for name in gone]
        self._state = now
        self._emit("STATE_DELTA", delta=delta)

    # The end.

    def restore(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Report what was said before."""
        self._emit("MESSAGES_SNAPSHOT", messages=messages)

    async def finish(self, turn: Turn | None) -> None:
        """End the run: the turn has ended, or it waits; or there was none."""
        fields: dict[str, Any] = {}
        asked = {} if turn is None else turn.asked
        questions = [one for one in asked.values() if not isinstance(one, CallerCall)]
        if questions:
            expires = datetime.now(UTC) + timedelta(seconds=self._answer_s)
            interrupts = [_interrupt(one, expires) for one in questions]
            fields["outcome"] = {"type": "interrupt", "interrupts": interrupts}
        elif asked:
            fields["outcome"] = {"type": "success", "pendingToolCallIds": [*asked]}
        elif turn is None:
            fields["outcome"] = {"type": "success"}
        else:
            ended = turn.exchange
            is_cancelled = ended.stop_reason == "cancelled"
            fields["outcome"] = {"type": "cancelled" if is_cancelled else "success"}
            fields["result"] = {"stopReason": ended.stop_reason, "rejected": ended.rejected}
        if turn is not None and turn.exchange.usage is not None:
            fields["usage"] = [_usage(turn.exchange.usage)]
        self._emit("RUN_FINISHED", **self._run, **fields)
        await self._send(more=False)


def history(transcript: Transcript) -> list[dict[str, Any]]:
    """Return the messages of a session, as a front end has them."""
    found: list[dict[str, Any]] = []
    for number, item in enumerate(transcript.items):
        if isinstance(item, ToolCall):
            function = {"name": item.name or item.kind, "arguments": json.dumps(item.raw_input)}
            call = {"id": item.id, "type": "function", "function": function}
            answer = _result_content(item, transcript)
            found += (
                {"id": f"acp-call-{number}", "role": "assistant", "toolCalls": [call]},
                {
                    "id": f"acp-result-{number}",
                    "role": "tool",
                    "toolCallId": item.id,
                    "content": answer,
                },
            )
        elif isinstance(item, Message):
            role = {"agent": "assistant", "thought": "reasoning"}.get(item.role, item.role)
            text = item.text
            while role == "user" and text.startswith(_BEFORE):
                text = text.partition("\n\n---\n\n")[2].lstrip("\n")
            found.append({"id": item.id or f"acp-{number}", "role": role, "content": text})
    return found


def _interrupt(question: Asked, expires: datetime) -> dict[str, Any]:
    found: dict[str, Any] = {"id": question.id, "expiresAt": expires.isoformat()}
    if isinstance(question, CallerQuestion):
        request = question.request
        found["message"] = request.title or request.command or ""
        found["reason"] = "confirmation"
        if request.tool_call is not None:
            found |= {"reason": "tool_call", "toolCallId": request.tool_call.id}
        ids = [one.id for one in request.options]
        properties = {"approved": {"type": "boolean"}, "option": {"type": "string", "enum": ids}}
        about = permission_arguments(request)
        schema = {"type": "object", "properties": properties}
    else:
        assert not isinstance(question, CallerCall)
        form = question.form if isinstance(question, CallerForm) else question.page
        found["message"] = form.message
        if form.tool_call_id is not None:
            found["toolCallId"] = form.tool_call_id
        if isinstance(form, ElicitationForm):
            found["reason"], about, schema = "input_required", {}, schema_of_form(form)
        else:
            found["reason"], about = "acp:open_url", {"url": form.url}
            properties = {"approved": {"type": "boolean"}}
            schema = {"type": "object", "properties": properties, "required": ["approved"]}
    return {**found, "responseSchema": schema, "metadata": {"acp": about}}


def _usage(used: TokenUsage) -> dict[str, int]:
    """Return the tokens of a turn; those of the cache are a part of the input there."""
    cached = (used.cached_read or 0) + (used.cached_write or 0)
    apart = used.total >= used.input + used.output + cached
    tokens = {
        "inputTokens": used.input + (cached if apart else 0),
        "outputTokens": used.output,
        "reasoningTokens": used.thought,
        "cachedInputTokens": used.cached_read,
        "cacheWriteInputTokens": used.cached_write,
    }
    known = {name: count for name, count in tokens.items() if count is not None}
    return {**known, "totalTokens": known["inputTokens"] + used.output}


def _content(block: Any) -> dict[str, Any]:
    """Return content of the agent as a part of AG-UI."""
    match block:
        case str():
            return {"type": "text", "text": block}
        case ImageContent() | AudioContent():
            data = base64.b64encode(block.data).decode()
            source = {"type": "data", "value": data, "mimeType": block.mime_type}
            return {
                "type": "image" if isinstance(block, ImageContent) else "audio",
                "source": source,
            }
        case ResourceLink():
            return {"type": "text", "text": f"[{block.name}]({block.uri})"}
        case EmbeddedResource(content=str() as text):
            return {"type": "text", "text": text}
        case EmbeddedResource(content=bytes() as data):
            kind = block.mime_type or "application/octet-stream"
            value = base64.b64encode(data).decode()
            return {
                "type": "document",
                "source": {"type": "data", "value": value, "mimeType": kind},
            }
        case Diff():
            return {
                "type": "text",
                "text": block.patch or git_patch(block.path, block.old, block.new),
            }
        case _:
            return {"type": "text", "text": f"[{type(block).__name__}]"}


def _result_content(item: ToolCall, transcript: Transcript | None) -> str | list[dict[str, Any]]:
    """Return what a tool call has given: text, or parts if it is not only text."""
    parts: list[dict[str, Any]] = []
    for block in item.content:
        if isinstance(block, TerminalView):
            terminals = {} if transcript is None else transcript.terminals
            terminal = terminals.get(block.terminal_id)
            shown = b"" if terminal is None else bytes(terminal.output[-_OUTPUT:])
            parts.append({"type": "text", "text": shown.decode("utf-8", "replace")})
        else:
            parts.append(_content(block))
    if not all(part["type"] == "text" for part in parts):
        return parts
    text = "\n".join(part["text"] for part in parts)
    if text or item.raw_output is None:
        return text or item.shown_status
    given = item.raw_output
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def error_event(error: GatewayError) -> dict[str, Any]:
    """Return an error as the event that ends a run."""
    code = error.code or ("invalid_token" if error.status == 401 else None)
    event = {"type": "RUN_ERROR", "message": str(error)}
    return event if code is None else {**event, "code": code}


def capabilities(agent: str) -> dict[str, Any]:
    """Return what the protocol asks of an agent, as far as it is so of all of them."""
    return {
        "identity": {"name": agent, "type": "acp"},
        "transport": {"streaming": True},
        "tools": {"supported": True, "parallelCalls": True, "clientProvided": True},
        "state": {"snapshots": True, "deltas": True, "persistentState": True},
        "reasoning": {"supported": True, "streaming": True},
        "humanInTheLoop": {
            "supported": True,
            "approvals": True,
            "interrupts": True,
            "approveWithEdits": False,
        },
    }
