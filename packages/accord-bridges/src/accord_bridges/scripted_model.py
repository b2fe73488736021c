"""A model that follows a script, and the tools that it calls.

`accord_bridges.testing` exports the names of this module. A test's model gives what it was asked to
`Script.reply` and plays the `Reply`; `scripted_server` does it over HTTP.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

Failure: TypeAlias = Literal[
    "rate_limit", "context_length", "refusal", "no_key", "connection_refused"
]

_TIMEOUT_S = 30.0  # for any single event; frameworks that start programs are slow
FAILURES: dict[str, tuple[int, str, str]] = {
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
        self.status_code, self.code, message = FAILURES[failure]
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
    def _call(self, name: str, **arguments: Any) -> Generator[None, None, None]:
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
