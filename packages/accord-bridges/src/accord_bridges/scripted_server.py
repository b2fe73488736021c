"""A server with the API of a model that follows a script, in the formats of OpenAI and Anthropic.

`accord_bridges.testing` exports `ScriptedServer`. It needs nothing but asyncio, so that the code of
a framework for a provider runs as it is.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from accord_bridges.scripted_model import FAILURES, Reply, Script

_TIMEOUT_S = 10.0  # for connections to end


class ScriptedServer:
    """The API of a model over HTTP that follows a script, to enter with `async with`.

    It serves OpenAI's chat completions and responses, and Anthropic's messages, at `url`, streamed
    or not. Give this as the base URL to the framework's own client, which should not repeat
    requests; clients of Anthropic append the `/v1` themselves.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url: str = ""
        """The base URL, with `/v1`."""
        self._port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> ScriptedServer:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    async def listen(self) -> None:
        """Accept connections, at the same address as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]
            self.url = f"http://127.0.0.1:{self._port}/v1"

    async def refuse(self) -> None:
        """Refuse connections and end those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in tuple(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=_TIMEOUT_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        answer = asyncio.ensure_future(self._answer(reader, writer))
        try:
            await answer
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test has ended
        finally:
            answer.cancel()
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split(" ", 2)[1].partition("?")[0]
        length = re.search(r"content-length: *(\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1])) if length else b"{}"
        if path.endswith("/models"):
            model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "accord"}
            await _respond(writer, 200, {"object": "list", "data": [model]})
            return
        if path.endswith("/messages"):
            await self._answer_messages(reader, writer, json.loads(body))
            return
        responses = path.endswith("/responses")
        if not responses and not path.endswith("/chat/completions"):
            await _respond(writer, 404, {"error": {"message": f"No such path: {path}"}})
            return
        request: dict[str, Any] = json.loads(body)
        reply = self.script.reply(request["input" if responses else "messages"])
        if reply.failure is not None:
            status, code, message = FAILURES[reply.failure]
            error = {"message": message, "type": "invalid_request_error", "code": code}
            await _respond(writer, status, {"error": error}, "Retry-After: 7\r\n")
            return
        events = _response_events(reply) if responses else _chat_events(reply)
        if not request.get("stream"):
            whole = [event async for event in _until_hang(events, reply)][-1]
            await _respond(writer, 200, whole["response"] if responses else _completion(reply))
            return
        await _stream(reader, writer, events, reply, named=responses)

    async def _answer_messages(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: dict[str, Any]
    ) -> None:
        if request.get("max_tokens") == 1:  # asks whether the model is there: not of the script
            await _respond(writer, 200, _message(Reply(text=("Yes",)), str(request["model"])))
            return
        reply = self.script.reply(request["messages"])
        if reply.failure is not None and reply.failure != "refusal":
            status, kind, message = _ANTHROPIC_FAILURES[reply.failure]
            error = {"type": "error", "error": {"type": kind, "message": message}}
            await _respond(writer, status, error, "x-should-retry: false\r\nRetry-After: 7\r\n")
        elif request.get("stream"):
            model = str(request.get("model"))
            await _stream(reader, writer, _message_events(reply, model), reply, named=True)
        else:
            await _respond(writer, 200, _message(reply, str(request.get("model"))))


async def _until_hang(
    events: Iterator[dict[str, Any] | None], reply: Reply, gone: asyncio.Future[Any] | None = None
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield events; where the reply hangs, which is None, wait until the client goes."""
    for event in events:
        if event is not None:
            yield event
        elif reply.hangs:
            waiting = gone or asyncio.get_running_loop().create_future()
            await waiting
            raise ConnectionResetError("the client has gone")


async def _stream(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    events: Iterator[dict[str, Any] | None],
    reply: Reply,
    *,
    named: bool,
) -> None:
    """Send events as they come; without names, as chat completions, with a mark at the end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    gone = asyncio.ensure_future(reader.read())  # ends when the client goes
    try:
        async for event in _until_hang(events, reply, gone):
            name = f"event: {event['type']}\n" if named else ""
            writer.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            await writer.drain()
        if not named:
            writer.write(b"data: [DONE]\n\n")
        await writer.drain()
    finally:
        gone.cancel()


async def _respond(
    writer: asyncio.StreamWriter, status: int, value: object, headers: str = ""
) -> None:
    body = json.dumps(value).encode()
    head = (
        f"HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\n{headers}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()


# Chat completions.


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def _chat_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in reply.calls
    ]


def _completion(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(reply.text) or None}
    if reply.thoughts:
        message["reasoning_content"] = "".join(reply.thoughts)
    if reply.calls:
        message["tool_calls"] = _chat_calls(reply)
    reason = "tool_calls" if reply.calls else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": _usage(reply),
    }


def _chat_events(reply: Reply) -> Iterator[dict[str, Any] | None]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }

    if reply.hangs and not (reply.thoughts or reply.text):
        yield None
    yield chunk({"role": "assistant", "content": ""})
    for text in reply.thoughts:
        yield chunk({"reasoning_content": text})
    for text in reply.text:
        yield chunk({"content": text})
    for index, call in enumerate(_chat_calls(reply)):
        arguments: str = call["function"]["arguments"]
        call["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": index, **call}]})
        half = len(arguments) // 2
        for piece in (arguments[:half], arguments[half:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield None
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    yield {**chunk({}), "choices": [], "usage": _usage(reply)}


# Responses.


def _response(reply: Reply, output: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "scripted",
        "status": status,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None
        if status == "in_progress"
        else {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _response_events(reply: Reply) -> Iterator[dict[str, Any] | None]:
    output: list[dict[str, Any]] = []
    if reply.hangs and not (reply.thoughts or reply.text):
        yield None
    for number, event in enumerate(_response_parts(reply, output)):
        yield None if event is None else {**event, "sequence_number": number}


def _response_parts(reply: Reply, output: list[dict[str, Any]]) -> Iterator[dict[str, Any] | None]:
    yield {"type": "response.created", "response": _response(reply, [], "in_progress")}
    if reply.thoughts:
        item: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": []}
        at = {"item_id": "rs_1", "output_index": len(output), "summary_index": 0}
        yield _added(output, item)
        part = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": part}
        for text in reply.thoughts:
            yield {"type": "response.reasoning_summary_text.delta", **at, "delta": text}
        whole = "".join(reply.thoughts)
        part = {"type": "summary_text", "text": whole}
        yield {"type": "response.reasoning_summary_text.done", **at, "text": whole}
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
        yield _done(output, {**item, "summary": [part]})
    if reply.text:
        item: dict[str, Any] = {
            "id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress",
            "content": [],
        }  # fmt: skip
        at = {"item_id": "msg_1", "output_index": len(output), "content_index": 0}
        yield _added(output, item)
        part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **at, "part": part}
        for text in reply.text:
            yield {
                "type": "response.output_text.delta", **at, "delta": text, "logprobs": [],
            }  # fmt: skip
        if reply.hangs:
            yield None
        whole = "".join(reply.text)
        part = {"type": "output_text", "text": whole, "annotations": []}
        yield {"type": "response.output_text.done", **at, "text": whole, "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}
        yield _done(output, {**item, "status": "completed", "content": [part]})
    for call in reply.calls:
        name = f"fc_{call.id}"
        arguments = json.dumps(call.arguments)
        item: dict[str, Any] = {
            "id": name, "type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": "", "status": "in_progress",
        }  # fmt: skip
        at = {"item_id": name, "output_index": len(output)}
        yield _added(output, item)
        half = len(arguments) // 2
        for piece in (arguments[:half], arguments[half:]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        yield {
            "type": "response.function_call_arguments.done", **at, "arguments": arguments,
            "name": call.name,
        }  # fmt: skip
        yield _done(output, {**item, "status": "completed", "arguments": arguments})
    yield None
    yield {"type": "response.completed", "response": _response(reply, output, "completed")}


def _added(output: list[dict[str, Any]], item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": len(output), "item": item}


def _done(output: list[dict[str, Any]], item: dict[str, Any]) -> dict[str, Any]:
    output.append(item)
    return {"type": "response.output_item.done", "output_index": len(output) - 1, "item": item}


# Messages of Anthropic.

_ANTHROPIC_FAILURES: dict[str, tuple[int, str, str]] = {
    "rate_limit": (429, "rate_limit_error", "This request would exceed your rate limit"),
    "context_length": (
        400,
        "invalid_request_error",
        "prompt is too long: 9000 tokens > 8192 maximum",
    ),
    "no_key": (401, "authentication_error", "invalid x-api-key"),
}


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.thoughts:
        thought = "".join(reply.thoughts)
        blocks.append({"type": "thinking", "thinking": thought, "signature": "c2lnbmVk"})
    if reply.text:
        blocks.append({"type": "text", "text": "".join(reply.text)})
    for call in reply.calls:
        arguments = dict(call.arguments)
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return blocks


def _message(reply: Reply, model: str) -> dict[str, Any]:
    reason = "tool_use" if reply.calls else "end_turn"
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(reply),
        "stop_reason": "refusal" if reply.failure == "refusal" else reason,
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens},
    }


def _message_events(reply: Reply, model: str) -> Iterator[dict[str, Any] | None]:
    whole = _message(reply, model)
    if reply.hangs and not (reply.thoughts or reply.text):
        yield None
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"]}}
    begun["usage"]["output_tokens"] = 1
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        at = {"type": "content_block_delta", "index": index}
        start: dict[str, Any] = dict(block)
        deltas: list[dict[str, Any]]
        match block["type"]:
            case "thinking":
                start.update(thinking="", signature="")
                deltas = [{"type": "thinking_delta", "thinking": text} for text in reply.thoughts]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "text":
                start["text"] = ""
                deltas = [{"type": "text_delta", "text": text} for text in reply.text]
            case _:
                start["input"] = {}
                text = json.dumps(block["input"])
                half = len(text) // 2
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece}
                    for piece in (text[:half], text[half:])
                ]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {**at, "delta": delta}
        if block["type"] == "text" and reply.hangs:
            yield None
        yield {"type": "content_block_stop", "index": index}
    yield None
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": whole["usage"]}
    yield {"type": "message_stop"}
