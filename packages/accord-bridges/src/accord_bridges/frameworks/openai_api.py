"""OpenAI-compatible APIs as agents: `http://localhost:11434/v1#MODEL`, by the package `openai`.

There is no framework here, so the loop of a model and its tools is this file's: the tools are the
MCP servers of the client, those for the editor's files and terminals with `editor_tools`, and
functions of your own. The key is OPENAI_API_KEY; servers on this machine need none.

Settings: `instructions`, a text; `tools`, functions whose calls are shown; `ask_for`, the names of
those that need a permission; `request`, more arguments of each request; `client`, an `AsyncOpenAI`.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from openai import AsyncOpenAI

from accord import AudioContent, ImageContent
from accord.types.content import text_of
from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent, Options
from accord_bridges.editor import editor_tools
from accord_bridges.run import Run
from accord_bridges.tools import shown

_STEPS = 100  # requests of a turn
_REASONS: dict[str, StopReason] = {"length": "max_tokens", "content_filter": "refusal"}
_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}
_DENIED = "The user does not allow this."
_CUT = "The user has cancelled this call."

# Runs a call: its id, the name of the tool and the arguments. It shows the call and asks.
_Tool = Callable[[str, str, dict[str, Any]], Awaitable[str]]


class OpenAiApiAgent(BridgedAgent):
    """An agent whose turns are requests to a model."""

    prompt_capabilities = frozenset({"image", "audio", "resource"})
    mcp_transports = (
        frozenset({"stdio", "http", "sse", "acp"}) if find_spec("mcp") else frozenset[str]()
    )
    knows_settings = frozenset({"instructions", "request", "client", "tools", "ask_for"})
    steering = True
    reports = frozenset({"tokens"})

    def __init__(self, target: str, options: Options | None = None) -> None:
        url, _, model = target.partition("#")
        self.url = url
        self._model = model
        super().__init__(target, options)
        settings = self.options.settings
        self._client: AsyncOpenAI = settings.get("client") or AsyncOpenAI(
            base_url=url, api_key=os.environ.get("OPENAI_API_KEY") or "none"
        )

    def default_name(self) -> str:
        """Return the model, or the host of the API."""
        return self._model or urlsplit(self.url).netloc

    async def aclose(self) -> None:
        """Close the connections to the API."""
        await super().aclose()
        await self._client.close()

    async def answer(self, run: Run) -> StopReason | None:
        model = run.model or self._model or await self._first_model()
        messages: list[dict[str, Any]] = list(run.remembered or [])
        messages.append({"role": "user", "content": _content(run)})
        tools, specs = await self._tools(run)
        try:
            return await self._answer(run, model, messages, tools, specs)
        finally:
            _complete(messages)
            await run.remember(messages)

    async def _first_model(self) -> str:
        """Return the first model of the API, which is used from now on."""
        async for model in await self._client.models.list():
            self._model = model.id
            return model.id
        raise RuntimeError(f"{self.url} has no model: write {self.url}#MODEL")

    async def _answer(
        self,
        run: Run,
        model: str,
        messages: list[dict[str, Any]],
        tools: Mapping[str, _Tool],
        specs: list[dict[str, Any]],
    ) -> StopReason | None:
        for _ in range(_STEPS):
            messages += [
                {"role": "user", "content": message.text} for message in run.turn.take_steering()
            ]
            reply: dict[str, Any] = {"role": "assistant", "content": ""}
            messages.append(reply)
            reason = await self._request(run, model, messages[:-1], specs, reply)
            calls: list[dict[str, Any]] = reply.get("tool_calls", [])
            if not calls:
                return _REASONS.get(reason or "")
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(_call(run, call, tools, messages))
        return "max_turn_requests"

    async def _request(
        self,
        run: Run,
        model: str,
        messages: list[dict[str, Any]],
        specs: list[dict[str, Any]],
        reply: dict[str, Any],
    ) -> str | None:
        """Stream a reply into `reply` as it arrives; return why it ended."""
        say, think = run.say, run.think
        text: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        pieces: dict[int, list[str]] = {}
        reason: str | None = None
        more: dict[str, Any] = {"tools": specs} if specs else {}
        more.update(self.options.settings.get("request", {}))
        stream: Any = await self._client.chat.completions.create(
            model=model,
            messages=[*self._instructions(run), *messages],  # type: ignore[list-item]
            stream=True,
            stream_options={"include_usage": True},
            **more,
        )
        run.turn.start_new_message()
        try:
            async with aclosing(aiter(stream)) as chunks:
                async for chunk in chunks:
                    if chunk.usage is not None:
                        await _report(run, chunk.usage)
                    if not chunk.choices:
                        continue
                    choice = chunk.choices[0]
                    delta = choice.delta
                    if delta.content:
                        text.append(delta.content)
                        await say(delta.content)
                    elif thought := _thought(delta):
                        await think(thought)
                    for part in delta.tool_calls or ():
                        _add(calls, pieces, part)
                    reason = choice.finish_reason or reason
        finally:
            reply["content"] = "".join(text)
            await stream.close()
        for number, parts in pieces.items():
            calls[number]["function"]["arguments"] = "".join(parts)
        if calls:
            reply["tool_calls"] = list(calls.values())
        return reason

    def _instructions(self, run: Run) -> list[dict[str, Any]]:
        parts: list[str] = []
        if instructions := self.options.settings.get("instructions"):
            parts.append(str(instructions))
        if (mode := self.mode_text(run)) is not None:
            parts.append(mode)
        if self.options.editor_tools:
            parts.append(f"The project is in {run.cwd}.")
        if (prompt := run.session.system_prompt) is not None:
            parts = [prompt.text] if prompt.mode == "override" else [*parts, prompt.text]
        return [{"role": "system", "content": "\n\n".join(parts)}] if parts else []

    async def _tools(self, run: Run) -> tuple[dict[str, _Tool], list[dict[str, Any]]]:
        """Return the tools by name, and their descriptions for the model."""
        tools: dict[str, _Tool] = {}
        specs: list[dict[str, Any]] = []
        if self.options.editor_tools:
            for tool in editor_tools(run):
                tools[tool.__name__] = partial(_call_editor, tool)
                specs.append(_spec(tool.__name__, tool))
        asked: frozenset[str] = frozenset(self.options.settings.get("ask_for", ()))
        for tool in self.options.settings.get("tools", ()):
            name = tool.__name__
            tools[name] = partial(_call_function, run, tool, name in asked)
            specs.append(_spec(name, tool))
        if run.session.mcp_servers and self.mcp_transports:
            servers = await run.session.connect_mcp()
            for name, error in servers.failed.items():
                await run.turn.show_notice(
                    f"The MCP server {name} cannot be used",
                    severity="warning",
                    description=str(error),
                )
            for server in servers.values():
                for tool in server.tools:
                    name = f"{server.name}_{tool.name}"
                    tools[name] = partial(_call_mcp, run, server, tool.name)
                    specs.append(_described(name, tool.description or "", tool.input_schema))
        return tools, specs


def _content(run: Run) -> Any:
    """Return the prompt: text, or parts if it has images or audio."""
    parts: list[dict[str, Any]] = []
    for part in run.content:
        if isinstance(part, ImageContent):
            url = f"data:{part.mime_type};base64,{base64.b64encode(part.data).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        elif isinstance(part, AudioContent):
            data = base64.b64encode(part.data).decode()
            kind = part.mime_type.rpartition("/")[2].removeprefix("x-").replace("mpeg", "mp3")
            parts.append({"type": "input_audio", "input_audio": {"data": data, "format": kind}})
        else:
            parts.append({"type": "text", "text": text_of((part,))})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _thought(delta: Any) -> str | None:
    """Return reasoning, which servers name in two ways."""
    more: dict[str, Any] = delta.model_extra or {}
    found = more.get("reasoning_content") or more.get("reasoning")
    return found if isinstance(found, str) else None


def _add(calls: dict[int, dict[str, Any]], pieces: dict[int, list[str]], part: Any) -> None:
    """Add a piece of a tool call, which is known by its index."""
    call = calls.get(part.index)
    function = part.function
    if call is None:
        call = calls[part.index] = {
            "id": part.id or f"call-{os.urandom(6).hex()}",
            "type": "function",
            "function": {"name": function.name if function else "", "arguments": ""},
        }
        pieces[part.index] = []
    if function is not None and function.arguments:
        pieces[part.index].append(function.arguments)


async def _call(
    run: Run, call: dict[str, Any], tools: Mapping[str, _Tool], messages: list[dict[str, Any]]
) -> None:
    """Run a tool call; add the message with its result."""
    call_id, function = call["id"], call["function"]
    name, text = function["name"], function["arguments"]
    error: str | None = None
    arguments: Any = None
    try:
        arguments = json.loads(text or "{}")
        if not isinstance(arguments, dict):
            error = f"Error: expected an object as arguments, got {text}"
        elif name not in tools:
            error = f"Error: there is no tool {name!r}; the tools: {', '.join(tools) or 'none'}"
    except ValueError as exc:
        error = f"Error: the arguments are not JSON: {exc}"
    if error is not None:
        await run.begin_call(call_id, name, text)
        await run.end_call(call_id, error, outcome="failed")
    result = error or await tools[name](call_id, name, arguments)
    messages.append(_result(call_id, result))


async def _call_editor(
    tool: Callable[..., Awaitable[str]], _call_id: str, _name: str, arguments: dict[str, Any]
) -> str:
    """Call a tool of the editor, which shows itself."""
    try:
        return await tool(**arguments)
    except TypeError as error:
        return f"Error: {error}"


async def _call_function(
    run: Run,
    function: Callable[..., Any],
    asks: bool,
    call_id: str,
    name: str,
    arguments: dict[str, Any],
) -> str:
    """Call a function of the author, after the user has allowed it if it `asks`."""
    if asks:
        approval = await run.approve(call_id, name, arguments, editable=True)
        if not approval.allowed:
            return _DENIED
        arguments = approval.input
    else:
        await run.begin_call(call_id, name, arguments)
    try:
        result = function(**arguments)
        if inspect.isawaitable(result):
            result = await result
    except Exception as error:  # noqa: BLE001  # of the author's code: the model gets the reason
        text = f"Error: {error or type(error).__name__}"
        await run.end_call(call_id, text, outcome="failed")
        return text
    await run.end_call(call_id, result)
    return "\n".join(part if isinstance(part, str) else f"({part})" for part in shown(result))


async def _call_mcp(
    run: Run, server: Any, tool: str, call_id: str, name: str, arguments: dict[str, Any]
) -> str:
    """Call a tool of an MCP server if the user allows it."""
    approval = await run.approve(call_id, name, arguments, editable=True)
    if not approval.allowed:
        return _DENIED
    try:
        result = await server.call(tool, approval.input)
    except Exception as error:  # noqa: BLE001  # the model gets the reason
        await run.end_call(call_id, str(error), outcome="failed")
        return f"Error: {error}"
    content = [part.model_dump(mode="json", by_alias=True) for part in result.content]
    await run.end_call(call_id, content, outcome="failed" if result.is_error else "completed")
    texts = [part.get("text") or f"({part.get('type')})" for part in content]
    return "\n".join(texts) or "(nothing)"


def _result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _complete(messages: list[dict[str, Any]]) -> None:
    """Give each call a result, so that the conversation can continue after a cancel."""
    last = next(
        (n for n in range(len(messages) - 1, -1, -1) if messages[n]["role"] == "assistant"), None
    )
    if last is None:
        return
    reply = messages[last]
    if not reply["content"] and not reply.get("tool_calls"):
        del messages[last]
        return
    answered = {message.get("tool_call_id") for message in messages[last + 1 :]}
    messages += [
        _result(call["id"], _CUT)
        for call in reply.get("tool_calls", [])
        if call["id"] not in answered
    ]


async def _report(run: Run, usage: Any) -> None:
    cached = getattr(usage.prompt_tokens_details, "cached_tokens", None)
    thought = getattr(usage.completion_tokens_details, "reasoning_tokens", None)
    await run.used(
        input=usage.prompt_tokens,
        output=usage.completion_tokens,
        thought=thought,
        cached_read=cached,
    )


def _spec(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the description of a function with plain parameters."""
    parameters = inspect.signature(function, eval_str=True).parameters
    properties = {n: {"type": _TYPES.get(p.annotation, "string")} for n, p in parameters.items()}
    required = [n for n, p in parameters.items() if p.default is p.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    return _described(name, inspect.getdoc(function) or "", schema)


def _described(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": dict(schema)}
    return {"type": "function", "function": function}
