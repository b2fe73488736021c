"""A model that follows a script, the tools that it calls, and a server with its API.

`accord_bridges.testing` exports the names of this module. A test's model gives what it was asked to
`Script.reply` and plays the `Reply`; `ScriptedServer` does it over HTTP, in OpenAI's formats.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

Failure: TypeAlias = Literal[
    "rate_limit", "context_length", "refusal", "no_key", "connection_refused"
]

_TIMEOUT_S = 10.0  # for any single event
_FAILURES: dict[str, tuple[int, str, str]] = {
    "rate_limit": (429, "rate_limit_exceeded", "Rate limit reached for requests"),
    "context_length": (
        400,
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens; your messages resulted in 9000",
    ),
    "refusal": (
        400,
        "content_filter",
        "The response was filtered by the provider's content management policy",
    ),
    "no_key": (401, "invalid_api_key", "Incorrect API key provided: set OPENAI_API_KEY"),
}


class ModelError(Exception):
    """What a scripted model raises: with the attributes of the exceptions of providers."""

    def __init__(self, failure: Failure) -> None:
        self.status_code, self.code, message = _FAILURES[failure]
        super().__init__(message)


class ToolUse(Struct, frozen=True):
    """A call of a tool that the model makes."""

    name: str
    arguments: Mapping[str, Any] = {}
    id: str = ""
    """The id of the call; the script makes one if it is empty."""


class Reply(Struct, frozen=True, kw_only=True):
    """The answer to one request of the model: thoughts, then text, then calls, in this order.

    At the end the model fails or hangs, if it is to.
    """

    thoughts: Sequence[str] = ()
    """The deltas of the model's reasoning."""
    text: Sequence[str] = ()
    """The deltas of the text."""
    calls: Sequence[ToolUse] = ()
    """The calls that it makes in parallel."""
    failure: Failure | None = None
    """How the request fails instead."""
    hangs: bool = False
    """Whether the model stops after this, without an end, until it is cancelled."""
    when: str = ""
    """Only for a request that contains this text."""
    input_tokens: int = 10
    """The use that the model reports."""
    output_tokens: int = 5

    def raise_failure(self) -> None:
        """Raise the failure, if there is one, as an exception that looks like a provider's."""
        if self.failure == "connection_refused":
            raise ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)")
        if self.failure is not None:
            raise ModelError(self.failure)


class Script:
    """Replies in their order, and the requests that they were for.

    `Script.echo()` replies to each request with the words `word-…` that it contains.
    """

    def __init__(self, *replies: Reply) -> None:
        self.replies: list[Reply] = list(replies)
        """The replies that are left."""
        self.requests: list[str] = []
        """The text of each request so far."""
        self.problems: list[str] = []
        """Requests without a reply: the contract fails with these."""
        self.released: threading.Event = threading.Event()
        """Set when the test ends, for models and tools that wait in threads."""
        self._echoes = False
        self._count = 0
        self._changed = _Changed()

    @classmethod
    def echo(cls) -> Script:
        """Return a script that replies with what the request contains."""
        script = cls()
        script._echoes = True
        return script

    def add(self, *replies: Reply) -> None:
        """Append replies."""
        self.replies += replies

    def reply(self, request: object) -> Reply:
        """Return the reply to a request: the messages that the model gets, in any form.

        Only the texts and data in them are used, so give what the framework gives to the model.
        """
        seen = text_of_request(request)
        self.requests.append(seen)
        self._changed.set()
        if self._echoes:
            words = dict.fromkeys(re.findall(r"word-[a-z]+", seen))
            return Reply(text=("I have heard: ", " ".join(words)))
        for place, reply in enumerate(self.replies):
            if reply.when in seen:
                del self.replies[place]
                calls: list[ToolUse] = []
                for call in reply.calls:
                    self._count += 1
                    calls.append(call if call.id else replace(call, id=f"call_{self._count}"))
                return replace(reply, calls=tuple(calls))
        self.problems.append(seen[-300:])
        return Reply(text=("The script has no reply to this.",))

    async def until_requests(self, count: int) -> None:
        """Wait until the model was asked this many times."""
        await self._changed.until(
            lambda: len(self.requests) >= count,
            lambda: f"{count} requests to the model, not {len(self.requests)}",
        )

    async def hang(self) -> None:
        """Wait for a cancel, in a model that is asynchronous."""
        await asyncio.get_running_loop().create_future()

    def hang_in_thread(self) -> None:
        """Wait for the end of the test, in a model that runs in a thread."""
        self.released.wait(_TIMEOUT_S)


def text_of_request(value: object) -> str:
    """Return all texts in messages of any framework, one in a line; data as Base64."""
    return "\n".join(_texts(value, 0, set()))


def _texts(value: Any, depth: int, seen: set[int]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, bytes | bytearray):
        yield base64.b64encode(value).decode()
        return
    if value is None or isinstance(value, int | float | type) or depth > 12 or id(value) in seen:
        return
    seen = seen | {id(value)}
    if isinstance(value, Mapping):
        items: Any = cast("Mapping[Any, Any]", value).items()
        for key, each in items:
            yield from _texts(key, depth + 1, seen)
            yield from _texts(each, depth + 1, seen)
    elif isinstance(value, Sequence | set | frozenset):
        for each in cast("Sequence[Any]", value):
            yield from _texts(each, depth + 1, seen)
    else:
        names: Sequence[str] = getattr(value, "__struct_fields__", ()) or tuple(
            getattr(value, "__dict__", ())
        )
        for name in names:
            yield from _texts(getattr(value, name, None), depth + 1, seen)


class _Changed:
    """Wakes what waits for a condition, also from threads."""

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def set(self) -> None:
        for loop, event in tuple(self._waiting):
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(event.set)

    async def until(self, condition: Callable[[], bool], expected: Callable[[], str]) -> None:
        event = asyncio.Event()
        entry = (asyncio.get_running_loop(), event)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while not condition():
                    event.clear()
                    await event.wait()
        except TimeoutError:
            raise AssertionError(f"expected {expected()}, after {_TIMEOUT_S:g} s") from None
        finally:
            self._waiting.remove(entry)


# The tools.

Tool: TypeAlias = Callable[..., Awaitable[str]]


class Tools:
    """The tools that the scripted model calls, as plain functions, and what was done with them.

    Register `plain` in the framework's way, and `guarded` so that each call needs an approval.
    They are coroutine functions; `blocking` has plain functions of the same names for frameworks
    that run tools in threads.
    """

    def __init__(self) -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []
        """Each call of a tool: its name and its arguments."""
        self.running: list[str] = []
        """The calls that are in progress."""
        self.cancelled: list[str] = []
        """The calls that were cancelled."""
        self.released: threading.Event = threading.Event()
        """Set when the test ends, for tools in threads."""
        self._changed = _Changed()
        self._met = threading.Barrier(2)
        self._meeting: list[asyncio.Future[None]] = []

    def count(self, name: str) -> int:
        """Return how often a tool has run."""
        return sum(name == each for each, _ in self.ran)

    async def until_running(self, name: str) -> None:
        """Wait until a call of a tool is in progress."""
        await self._changed.until(
            lambda: name in self.running,
            lambda: f"a call of {name}; the tools ran: {self.ran}",
        )

    async def until_idle(self) -> None:
        """Wait until no call is in progress."""
        await self._changed.until(
            lambda: not self.running, lambda: f"no tool in progress, not {self.running}"
        )

    @contextlib.contextmanager
    def _call(self, name: str, **arguments: Any) -> Iterator[None]:
        self.ran.append((name, arguments))
        self.running.append(name)
        self._changed.set()
        try:
            yield
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.running.remove(name)
            self._changed.set()

    @property
    def plain(self) -> list[Tool]:
        """The tools that run without an approval."""

        async def read_note_file(path: str) -> str:
            """Read a note.

            Args:
                path: The path of the note.
            """
            with self._call("read_note_file", path=path):
                return f"The note in {path} says word-apple"

        async def fail_always(reason: str) -> str:
            """Fail for a reason.

            Args:
                reason: The reason.
            """
            with self._call("fail_always", reason=reason):
                raise ValueError(f"It failed: {reason}")

        async def wait_forever(what: str) -> str:
            """Wait for something that does not happen.

            Args:
                what: What to wait for.
            """
            with self._call("wait_forever", what=what):
                await asyncio.get_running_loop().create_future()
                raise AssertionError("it happened")

        async def meet(who: str) -> str:
            """Wait for the other call of this tool, which runs at the same time.

            Args:
                who: Who waits.
            """
            with self._call("meet", who=who):
                arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._meeting.append(arrived)
                if len(self._meeting) == 2:
                    for each in self._meeting:
                        each.set_result(None)
                    self._meeting = []
                async with asyncio.timeout(_TIMEOUT_S / 4):
                    await arrived
                return f"{who} has met"

        async def update_plan(steps: list[str]) -> str:
            """Set the plan.

            Args:
                steps: The steps of the plan.
            """
            with self._call("update_plan", steps=steps):
                return "The plan is set"

        return [read_note_file, fail_always, wait_forever, meet, update_plan]

    @property
    def guarded(self) -> list[Tool]:
        """The tools that need an approval for each call."""

        async def write_note_file(path: str, text: str) -> str:
            """Write a note.

            Args:
                path: The path of the note.
                text: What to write.
            """
            with self._call("write_note_file", path=path, text=text):
                return f"Wrote {text} to {path}"

        return [write_note_file]

    @property
    def blocking(self) -> dict[str, Callable[..., str]]:
        """All tools as functions that are not asynchronous, by name."""

        def read_note_file(path: str) -> str:
            """Read a note.

            Args:
                path: The path of the note.
            """
            with self._call("read_note_file", path=path):
                return f"The note in {path} says word-apple"

        def fail_always(reason: str) -> str:
            """Fail for a reason.

            Args:
                reason: The reason.
            """
            with self._call("fail_always", reason=reason):
                raise ValueError(f"It failed: {reason}")

        def wait_forever(what: str) -> str:
            """Wait for something that does not happen.

            Args:
                what: What to wait for.
            """
            with self._call("wait_forever", what=what):
                self.released.wait(_TIMEOUT_S)
                return "The test has ended"

        def meet(who: str) -> str:
            """Wait for the other call of this tool, which runs at the same time.

            Args:
                who: Who waits.
            """
            with self._call("meet", who=who):
                self._met.wait(_TIMEOUT_S / 4)
                return f"{who} has met"

        def update_plan(steps: list[str]) -> str:
            """Set the plan.

            Args:
                steps: The steps of the plan.
            """
            with self._call("update_plan", steps=steps):
                return "The plan is set"

        def write_note_file(path: str, text: str) -> str:
            """Write a note.

            Args:
                path: The path of the note.
                text: What to write.
            """
            with self._call("write_note_file", path=path, text=text):
                return f"Wrote {text} to {path}"

        every = (read_note_file, fail_always, wait_forever, meet, update_plan, write_note_file)
        return {tool.__name__: tool for tool in every}


# The server.


class ScriptedServer:
    """The API of a model over HTTP that follows a script, to enter with `async with`.

    It serves OpenAI's chat completions and responses at `url`, streamed or not. Give this as the
    base URL to the framework's own client, which should not repeat requests.
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
        responses = path.endswith("/responses")
        if not responses and not path.endswith("/chat/completions"):
            await _respond(writer, 404, {"error": {"message": f"No such path: {path}"}})
            return
        request: dict[str, Any] = json.loads(body)
        reply = self.script.reply(request["input" if responses else "messages"])
        if reply.failure is not None:
            status, code, message = _FAILURES[reply.failure]
            error = {"message": message, "type": "invalid_request_error", "code": code}
            await _respond(writer, status, {"error": error}, "Retry-After: 7\r\n")
            return
        events = _response_events(reply) if responses else _chat_events(reply)
        if not request.get("stream"):
            whole = [event async for event in _until_hang(events, reply)][-1]
            await _respond(writer, 200, whole["response"] if responses else _completion(reply))
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        )
        gone = asyncio.ensure_future(reader.read())  # ends when the client goes
        try:
            async for event in _until_hang(events, reply, gone):
                name = f"event: {event['type']}\n" if responses else ""
                writer.write(f"{name}data: {json.dumps(event)}\n\n".encode())
                await writer.drain()
            if not responses:
                writer.write(b"data: [DONE]\n\n")
            await writer.drain()
        finally:
            gone.cancel()


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
        item = {"id": "rs_1", "type": "reasoning", "summary": []}
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
        item = {
            "id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress",
            "content": [],
        }  # fmt: skip
        at = {"item_id": "msg_1", "output_index": len(output), "content_index": 0}
        yield _added(output, item)
        part = {"type": "output_text", "text": "", "annotations": []}
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
        item = {
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
