"""A turn as steps: what the agent said, and the tools that it called then.

Evaluators count messages of a model, each with its tool calls; ACP has one stream of updates. A
step ends when one of its calls has ended or asks for permission, when the agent says something
after a call, and with the turn.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, cast

import accord
from accord import ContentChunk, Diff, MessageReplaced, PermissionRequest, TextContent, ToolCall

__all__ = (
    "Call",
    "Step",
    "Steps",
    "call_arguments",
    "call_name",
    "call_output",
    "content_text",
)


class Call:
    """A tool call: `state` is what the agent has reported last; `ended` is set with its end.

    `decide` answers all permission requests for it; until then they wait. `is_asked` is whether
    there was one.
    """

    def __init__(self, state: ToolCall, step: Step) -> None:
        self.state = state
        self.step = step
        self.is_asked = False
        self.ended = asyncio.Event()
        self._answer: Literal["allow", "reject"] | None = None
        self._answered = asyncio.Event()

    @property
    def name(self) -> str:
        """The tool: `call_name`."""
        return call_name(self.state)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments: `call_arguments`."""
        return call_arguments(self.state)

    @property
    def output(self) -> str:
        """What the call has shown: `call_output`."""
        return call_output(self.state)

    @property
    def failure(self) -> str | None:
        """Why the call has failed, or None."""
        if self.state.status in {"failed", "cancelled"}:
            return self.output or f"The call ended as {self.state.status}."
        return None

    def decide(self, answer: Literal["allow", "reject"]) -> None:
        """Answer the permission requests for this call; only the first answer counts."""
        self._answer = self._answer or answer
        self._answered.set()

    async def answer(self) -> Literal["allow", "reject"]:
        """Wait for the answer."""
        await self._answered.wait()
        return self._answer or "reject"


class Step:
    """One message of the agent; `closed` is set when it is complete.

    `cost` is what the session has cost in dollars since the last step. `usage` and `stop_reason`
    are those of the turn, which its last step has.
    """

    def __init__(self) -> None:
        self.thought = ""
        self.text = ""
        self.calls: list[Call] = []
        self.closed = asyncio.Event()
        self.cost = 0.0
        self.usage: accord.TokenUsage | None = None
        self.stop_reason: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the agent has said, called and used nothing."""
        return not (self.thought or self.text or self.calls or self.usage or self.cost)


class Steps:
    """Divides a turn into steps: iterate over it to get each one when it begins.

    `listen` reads the turn, and `decide` is the policy of the connection for its permissions.
    `on_event` is called with each event, after its step is known.
    """

    def __init__(self, on_event: Callable[[object], None] = lambda _: None) -> None:
        self.all: list[Step] = []
        self._calls: dict[str, Call] = {}
        self._begun: asyncio.Queue[Step | None] = asyncio.Queue()
        self._on_event = on_event
        self._cost = self._counted = 0.0  # of the session; the part that steps have

    async def __aiter__(self) -> AsyncIterator[Step]:
        while (step := await self._begun.get()) is not None:
            yield step

    async def listen(self, turn: accord.ClientTurn) -> None:
        """Read the events of a turn up to its end."""
        async for event in turn:
            self.add(event)
        self.end(str(turn.stop_reason), turn.token_usage)

    async def decide(self, request: PermissionRequest) -> Literal["allow", "reject"]:
        """Wait for the answer for the call of a permission request."""
        for _ in range(3):
            await asyncio.sleep(0)  # the events before the request are read first
        state = request.tool_call
        if state is None:
            command = {"command": request.command or request.title}
            call_id = f"permission-{len(self._calls)}"
            state = ToolCall(id=call_id, title=request.title, kind="execute", raw_input=command)
        self.add(state)
        call = self._calls[state.id]
        call.is_asked = True
        self._close(call.step)
        return await call.answer()

    def add(self, event: object) -> None:
        """Add an event of a turn."""
        match event:
            case accord.Text(text=text):
                self._said().text += text
            case accord.Thought(text=text):
                self._said().thought += text
            case ContentChunk(role="agent", content=content):
                self._said().text += content_text(content)
            case MessageReplaced(role="agent", content=contents):
                self._said().text = "".join(map(content_text, contents))
            case accord.UsageChanged(usage=accord.ContextUsage(cost=accord.Cost(cost, "USD"))):
                self._cost = max(self._cost, cost)
            case ToolCall():
                self._called(event)
            case _:
                pass
        self._on_event(event)

    def end(self, stop_reason: str, usage: accord.TokenUsage | None = None) -> None:
        """End the turn: its last step gets its usage, and no call is open any more."""
        step = self._open()
        step.stop_reason, step.usage = stop_reason, usage
        self._close(step)
        for call in self._calls.values():
            call.ended.set()
        self._begun.put_nowait(None)

    def _called(self, state: ToolCall) -> None:
        call = self._calls.get(state.id)
        if call is None:
            step = self._open()
            call = self._calls[state.id] = Call(state, step)
            step.calls.append(call)
        call.state = state
        if state.is_final:
            self._close(call.step)
            call.ended.set()

    def _open(self) -> Step:
        if not self.all or self.all[-1].closed.is_set():
            self.all.append(Step())
            self._begun.put_nowait(self.all[-1])
        return self.all[-1]

    def _close(self, step: Step) -> None:
        if not step.closed.is_set():
            step.cost, self._counted = self._cost - self._counted, self._cost
            step.closed.set()

    def _said(self) -> Step:
        if (step := self._open()).calls:
            self._close(step)
        return self._open()


def call_name(call: ToolCall) -> str:
    """Return the tool as the agent names it, else the kind of the call, else words of its title."""
    if call.name or call.kind != "other":
        return call.name or call.kind
    return re.sub(r"\W+", "_", call.title.partition("\n")[0])[:40].strip("_") or "tool"


def call_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments; if the agent reports none, the title and the files of the call."""
    given: Any = call.raw_input
    if isinstance(given, dict) and given:
        return cast("dict[str, Any]", given)
    if given not in (None, {}):
        return {"input": given}
    paths = [place.path for place in call.locations]
    return {"title": call.title} | ({"paths": paths} if paths else {})


def call_output(call: ToolCall) -> str:
    """Return what a call has shown, with diffs, else its raw output."""
    if shown := "\n".join(filter(None, map(content_text, call.content))):
        return shown
    raw = call.raw_output
    if raw is None:
        return ""
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str)


def content_text(part: object) -> str:
    """Return a part of a message or of a tool call as text."""
    match part:
        case str() | TextContent():
            return str(getattr(part, "text", part))
        case Diff(patch=str(patch)):
            return patch
        case Diff(path=path, old=old, new=new):
            lines = (old or "").splitlines(), (new or "").splitlines()
            return "\n".join(difflib.unified_diff(*lines, path, path, lineterm=""))
        case _:
            kind = getattr(part, "uri", None) or getattr(part, "mime_type", None)
            return f"[{kind or type(part).__name__}]"
