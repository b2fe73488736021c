"""`/v1/models` and `/v1/chat/completions`: agents behind the OpenAI API."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from accord.client.events import Text, Thought, ToolCall
from accord_bridges.gateways.app import Request, Routes
from accord_bridges.gateways.openai_forms import (
    Content,
    Function,
    JsonOutput,
    Place,
    agent_and_model,
    answer_of,
    blocks_of,
    call_of,
    caller_tools,
    error_body,
    failure,
    head_of,
    json_answer,
    read,
    session_headers,
    text_of,
    tool_line,
    usage_of,
    with_transcript,
)
from accord_bridges.gateways.turns import (
    AgentSessions,
    CallerCall,
    CallerQuestion,
    Conversation,
    Exchange,
    GatewayError,
)

_encode = msgspec.json.Encoder().encode
_FINISH = {"max_tokens": "length", "max_turn_requests": "length", "refusal": "content_filter"}


class _Message(Struct):
    role: str
    content: Content = None
    tool_call_id: str | None = None


class _Tool(Struct):
    type: str = "function"
    function: Function | None = None


class _StreamOptions(Struct):
    include_usage: bool = False


class _Chat(Struct):
    model: str
    messages: list[_Message]
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    response_format: Mapping[str, Any] | None = None
    n: int | None = 1
    metadata: Mapping[str, Any] | None = None


class OpenAiChat:
    """Serves the models and chat completions. With `show_tools`, answers name tool calls."""

    def __init__(self, sessions: AgentSessions, *, show_tools: bool = False) -> None:
        self._sessions = sessions
        self.show_tools = show_tools
        self._created = int(time.time())

    def routes(self) -> Routes:
        """Return the paths."""
        return Routes(
            error_body,
            {
                ("GET", "/v1/models"): self._models,
                ("GET", "/v1/models/**"): self._model,
                ("POST", "/v1/chat/completions"): self._chat,
            },
        )

    def _entry(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "accord"}

    async def _models(self, request: Request) -> None:
        entries: list[dict[str, Any]] = []
        for agent in self._sessions.agents:
            entries.append(self._entry(agent))
            entries += (self._entry(f"{agent}/{one}") for one in self._sessions.models_of(agent))
        await request.respond({"object": "list", "data": entries})

    async def _model(self, request: Request) -> None:
        name = request.path.removeprefix("/v1/models/")
        agent, model = agent_and_model(self._sessions, name)
        models = self._sessions.models_of(agent)
        if model is not None and model not in models:  # the agent knows them, when it has started
            known = ", ".join(models) or "not known before its first session, or it has none"
            raise GatewayError(
                f"The agent {agent} offers no model {model[:100]!r}: its models are {known}",
                status=404,
                code="model_not_found",
                param="model",
            )
        await request.respond(self._entry(name))

    async def _chat(self, request: Request) -> None:
        body = read(request.body, _Chat)
        if not body.messages:
            raise GatewayError("messages: expected at least one message", param="messages")
        if body.n not in (None, 1):
            raise GatewayError(f"n: expected 1, got {body.n}: agents give one answer", param="n")
        agent, model = agent_and_model(self._sessions, body.model)
        output = JsonOutput.of(body.response_format, "response_format")
        exchange = self._returned(request, body) or await self._started(
            request, body, agent, model, output
        )
        reply = _Reply(self, request, body, exchange, agent, output)
        async with request.until_gone(exchange.cancel):
            await (reply.stream() if body.stream else reply.whole())

    def _returned(self, request: Request, body: _Chat) -> Exchange | None:
        """Give the results of the caller's tools to the turns that wait; return the last one's."""
        first = len(body.messages)
        while first and body.messages[first - 1].role == "tool":
            first -= 1
        found: list[tuple[Exchange, _Message]] = []
        for message in body.messages[first:]:
            exchange = self._sessions.waiting_for(message.tool_call_id or "", request.principal)
            if exchange is None:
                raise GatewayError(
                    f"The tool call {message.tool_call_id!r} is not open: its turn has ended."
                    " Continue the conversation with a message of the user",
                    status=409,
                    code="tool_call_not_open",
                    param="messages",
                )
            found.append((exchange, message))
        for exchange, message in found:
            exchange.answer(message.tool_call_id or "", answer_of(message.content))
        return found[-1][0] if found else None

    async def _started(
        self,
        request: Request,
        body: _Chat,
        agent: str,
        model: str | None,
        output: JsonOutput | None,
    ) -> Exchange:
        first_new = len(body.messages)
        while first_new and body.messages[first_new - 1].role == "user":
            first_new -= 1
        new = body.messages[first_new:]
        content = [
            block
            for number, message in enumerate(new, first_new)
            for block in blocks_of(message.content, f"messages[{number}].content")
        ]
        before = _turns(body.messages[:first_new])
        place = Place.of(request, body.metadata)
        conversation: Conversation | None = None
        if place.session is not None:
            conversation = self._sessions.find(place.session, request.principal)
        elif any(role == "assistant" for role, _ in before):
            conversation = self._sessions.continued(body.model, request.principal, head_of(before))
        if conversation is None:
            conversation = await self._sessions.new(
                agent, request.principal, model=model, cwd=place.cwd
            )
            content = with_transcript(before, content)
        if output is not None:
            content = [*content, f"\n\n{output.request()}"]
        if not content:
            raise GatewayError("messages: expected text of the user", param="messages")
        functions = [tool.function for tool in body.tools or () if tool.function is not None]
        tools, asks = caller_tools(functions, body.tool_choice)
        conversation.move_on()
        return conversation.start(content, tools=tools, asks=asks)

    def remember(self, request: Request, body: _Chat, exchange: Exchange, said: str) -> None:
        """Note what the caller's transcript will be when it continues the conversation."""
        turns = _turns(body.messages)
        if said.strip():
            turns.append(("assistant", said.strip()))
        self._sessions.remember(
            exchange.conversation, body.model, request.principal, head_of(turns)
        )


class _Reply:
    """The response to one request of a turn."""

    def __init__(
        self,
        chat: OpenAiChat,
        request: Request,
        body: _Chat,
        exchange: Exchange,
        agent: str,
        output: JsonOutput | None,
    ) -> None:
        self._chat = chat
        self._request = request
        self._body = body
        self._exchange = exchange
        self._agent = agent
        self._output = output
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[CallerCall | CallerQuestion] = []

    async def whole(self) -> None:
        """Send one response when the turn has ended, or waits for the caller."""
        async for found in self._exchange.happenings():
            self._take(found)
        text = await self._checked()
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
        if self._thoughts:
            message["reasoning_content"] = "".join(self._thoughts)
        if self._calls:
            message["tool_calls"] = [_call(call) for call in self._calls]
        choice = {"index": 0, "message": message, "finish_reason": self._finish, "logprobs": None}
        await self._request.respond(
            {
                "id": self._id,
                "object": "chat.completion",
                "created": self._created,
                "model": self._body.model,
                "choices": [choice],
                "usage": usage_of(self._exchange),
                "acp": self._acp(),
            },
            headers=session_headers(self._exchange.conversation),
        )

    async def stream(self) -> None:
        """Send what happens as it happens."""
        request = self._request
        await request.start_events(session_headers(self._exchange.conversation))
        await request.send_events(self._event({"role": "assistant", "content": ""}))
        head, tail = self._event({"content": ""}).split(b'"content":""')
        text_head, thought_head = head + b'"content":', head + b'"reasoning_content":'
        async for found in self._exchange.happenings():
            parts: list[bytes] = []
            for item in found:
                if type(item) is Text:
                    self._text.append(item.text)
                    if self._output is None:
                        parts += (text_head, _encode(item.text), tail)
                elif type(item) is Thought:
                    parts += (thought_head, _encode(item.text), tail)
                elif isinstance(item, CallerCall | CallerQuestion):
                    call = {"index": len(self._calls), **_call(item)}
                    self._calls.append(item)
                    parts.append(self._event({"tool_calls": [call]}))
                elif isinstance(item, ToolCall) and (line := self._tool_line(item)):
                    self._text.append(line)
                    parts += (text_head, _encode(line), tail)
            if parts:
                await request.send_events(b"".join(parts))
        text = await self._checked()
        last = [] if self._output is None else [self._event({"content": text})]
        last.append(self._event({}, self._finish, acp=self._acp()))
        options = self._body.stream_options
        if options is not None and options.include_usage:
            last.append(self._event(None, usage=usage_of(self._exchange)))
        await request.send_events(b"".join((*last, b"data: [DONE]\n\n")), more=False)

    def _take(self, found: Sequence[Any]) -> None:
        for item in found:
            if type(item) is Text:
                self._text.append(item.text)
            elif type(item) is Thought:
                self._thoughts.append(item.text)
            elif isinstance(item, CallerCall | CallerQuestion):
                self._calls.append(item)
            elif isinstance(item, ToolCall):
                self._text.append(self._tool_line(item))

    def _tool_line(self, call: ToolCall) -> str:
        return tool_line(call) if self._chat.show_tools else ""

    async def _checked(self) -> str:
        """Return the answer, in the form that the caller wants. Raises `GatewayError`."""
        if (error := failure(self._exchange)) is not None:
            raise error
        text = "".join(self._text)
        if self._output is not None and not self._calls:
            text, self._exchange = await json_answer(
                text, self._output, self._exchange, self._request
            )
        self._chat.remember(self._request, self._body, self._exchange, text)
        return text

    @property
    def _finish(self) -> str:
        if self._calls:
            return "tool_calls"
        return _FINISH.get(self._exchange.stop_reason or "", "stop")

    def _acp(self) -> dict[str, Any]:
        """What OpenAI's form has no place for."""
        found: dict[str, Any] = {"session_id": self._exchange.conversation.id}
        if self._exchange.stop_reason is not None:
            found["stop_reason"] = self._exchange.stop_reason
        if self._exchange.rejected:
            found["rejected"] = self._exchange.rejected
        return found

    def _event(self, delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._body.model,
            "choices": choices,
            **more,
        }
        return b"data: " + _encode(chunk) + b"\n\n"


def _call(item: CallerCall | CallerQuestion) -> dict[str, Any]:
    call_id, name, arguments = call_of(item)
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _turns(messages: Sequence[_Message]) -> list[tuple[str, str]]:
    """Return who has said what, as far as it does not depend on the caller's program."""
    turns: list[tuple[str, str]] = []
    for message in messages:
        role = "system" if message.role == "developer" else message.role
        text = text_of(message.content).strip()
        if role in ("system", "user", "assistant") and text:
            turns.append((role, text))
    return turns
