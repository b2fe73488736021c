"""The conversation of a recording as steps, and what each step of the agent waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import intern
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct

from accord.text import lenient_json
from accord.text.lenient_json import is_object
from accord_trace.reading import TraceError
from accord_trace.records import Record, is_damaged
from accord_trace.replay.frames import Frames, StoredFrame

StepKind: TypeAlias = Literal["request", "response", "notification", "invalid", "end"]
# What a client decides during a turn, so that the reaction to it has to wait for it.
_AWAITED = frozenset(("session/cancel", "$/cancel_request"))


class Step(Struct, eq=False, kw_only=True):
    """One message of the recorded hop.

    `number` counts the messages of the recording from 1. `request` is the request of a response.
    For a step of the agent, `cause` is the client's request in whose course it was sent, and
    `awaits` has the steps of the client since the previous step of the same cause: answers to
    requests of the agent, and cancels. For a request of the client, `reactions` has its steps.
    """

    number: int
    ts: float
    from_client: bool
    kind: StepKind
    stored: bytes | StoredFrame
    method: str = ""
    session: str | None = None
    id: str = ""
    is_error: bool = False
    request: Step | None = None
    response: Step | None = None
    cause: Step | None = None
    awaits: Sequence[Step] = ()
    reactions: list[Step] | None = None

    @property
    def frame(self) -> bytes:
        """The frame as it was sent."""
        return self.stored if isinstance(self.stored, bytes) else self.stored.read()

    def message(self) -> dict[str, Any]:
        """Return the decoded frame; an empty object if it is not a message."""
        try:
            value = lenient_json.loads(self.frame)
        except lenient_json.NotJson:
            return {}
        return value if is_object(value) else {}

    def value(self) -> Any:
        """Return the params, the result or the error."""
        message = self.message()
        if self.kind == "response":
            return message.get("error" if self.is_error else "result")
        return message.get("params")

    @property
    def title(self) -> str:
        """The message for people, such as `response to session/new (message 4)`."""
        what = f"response to {self.method}" if self.kind == "response" else self.method
        return f"{what or self.kind} (message {self.number})"


class Script:
    """The steps of one connection of a recording, and their causes.

    `opening` has the steps of the agent before the first request of the client.
    """

    def __init__(self, frames: Frames) -> None:
        self.steps: list[Step] = []
        self.opening: list[Step] = []
        self.redacted: int = 0  # messages in which secrets were replaced
        self.client_ended: bool = False
        self._open: dict[tuple[bool, str], Step] = {}
        self._prompts: list[Step] = []  # the turns that run, the latest last
        self._latest: Step | None = None  # request of the client
        self._latest_of: dict[str | None, Step] = {}
        self._awaits: dict[int, list[Step]] = {}  # by the number of the cause
        self._is_v2 = False
        self._frames = frames

    def has_no_end(self, request: Step) -> bool:
        """Return whether a request has no response, or its turn no end, in the recording."""
        return request.response is None or request in self._prompts

    @property
    def requests(self) -> list[Step]:
        """The requests of the client."""
        return [step for step in self.steps if step.from_client and step.kind == "request"]

    def add(self, number: int, record: Record) -> None:
        """Add a message of the connection."""
        step = Step(
            number=number,
            ts=record.ts,
            from_client=record.dir == "to_agent",
            kind=_kind(record),
            stored=self._frames.keep(record.frame),
            session=None if record.session is None else intern(record.session),
            id=record.id_text,
            is_error=record.is_error,
        )
        self.redacted += record.redacted
        if step.kind == "end" and (self.client_ended or step.from_client):
            self.client_ended = True
            return
        if step.kind in ("request", "notification"):
            step.method = intern(str(record.method))
            if record.protocol == "mcp":  # the record has what is inside the message
                method = step.message().get("method")
                step.method = method if isinstance(method, str) else step.method
        if step.kind == "request":
            self._open[step.from_client, step.id] = step
        elif step.kind == "response":
            self._pair(step)
        self.steps.append(step)
        if step.from_client:
            self._add_of_client(step)
        else:
            self._add_of_agent(step)

    def _pair(self, step: Step) -> None:
        request = self._open.pop((not step.from_client, step.id), None)
        if request is None:
            return
        step.request, request.response = request, step
        step.method = request.method
        if request.session is None:
            request.session = step.session  # of a session that the request opened
            if step.session is not None and request.from_client:
                self._latest_of[step.session] = request
        if request.method == "initialize" and not step.is_error:
            result = step.value()
            self._is_v2 = is_object(result) and result.get("protocolVersion") == 2

    def _add_of_client(self, step: Step) -> None:
        if step.kind == "request":
            self._latest = step
            self._latest_of[step.session] = step
            if step.method == "session/prompt":
                self._prompts.append(step)
        elif step.kind == "response":
            if step.request is not None and step.request.cause is not None:
                self._awaits.setdefault(step.request.cause.number, []).append(step)
        elif step.method in _AWAITED:
            cause = self._cause(step.session)
            if cause is not None:
                self._awaits.setdefault(cause.number, []).append(step)

    def _add_of_agent(self, step: Step) -> None:
        request = step.request if step.kind == "response" else None
        cause = request if request is not None else self._cause(step.session)
        step.cause = cause
        if cause is None:
            self.opening.append(step)
        else:
            step.awaits = self._awaits.pop(cause.number, [])
            if cause.reactions is None:
                cause.reactions = []
            cause.reactions.append(step)
        self._end_turn(step, request)

    def _cause(self, session: str | None) -> Step | None:
        """Return the running turn of a session, else its latest request, else those of others."""
        if session is not None:
            for prompt in reversed(self._prompts):
                if prompt.session == session:
                    return prompt
            if session in self._latest_of:
                return self._latest_of[session]
            latest = self._latest
            if latest is not None and latest.response is None and latest.session is None:
                return latest  # it opens this session
        return self._prompts[-1] if self._prompts else self._latest

    def _end_turn(self, step: Step, request: Step | None) -> None:
        if request is not None and request in self._prompts:
            if not self._is_v2 or step.is_error:
                self._prompts.remove(request)
        elif self._is_v2 and step.cause in self._prompts and is_idle(step):
            self._prompts.remove(step.cause)


def is_idle(step: Step) -> bool:
    """Return whether a step is the end of a turn of version 2."""
    if step.method != "session/update" or b'"idle"' not in step.frame:
        return False
    params = step.value()
    update = params.get("update") if is_object(params) else None
    return is_object(update) and update.get("state") == "idle" and "stopReason" in update


def read_scripts(records: Iterable[Record]) -> list[Script]:
    """Return a script for each connection of the hop next to the client, in order.

    Of a large recording, the frames are in a temporary file, and a message takes about 500 bytes of
    memory. Raise `TraceError` if the client has sent no message.
    """
    hops: dict[tuple[str, str, str], Script] = {}
    frames = Frames()
    for number, record in enumerate(records, 1):
        if record.protocol == "mcp" and record.raw is UNSET:
            continue  # Rust's format has only what was inside a message of ACP
        if is_damaged(record):
            continue
        ends = (record.sender, record.receiver)
        client, agent = ends if record.dir == "to_agent" else ends[::-1]
        hop = (client, agent, record.conn)
        if hop not in hops:
            hops[hop] = Script(frames)
        hops[hop].add(number, record)
    if not hops:
        raise TraceError("Expected a recording with messages, found none")
    client = next((ends[0] for ends in hops if ends[0].lower() == "client"), next(iter(hops))[0])
    scripts = [script for hop, script in hops.items() if hop[0] == client and script.requests]
    if not scripts:
        raise TraceError("Expected a recording with requests of a client, found none")
    return scripts


def _kind(record: Record) -> StepKind:
    return record.type  # type: ignore[return-value]  # the reader checks it
