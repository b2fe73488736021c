"""What the parts of an owner share: the agent, its session, the queue of prompts, and the clients.

In this order: what is read of the frames of the agent; the ids of messages of an agent that has
lost its context; the queue, in which one turn runs and the others wait in the order in which they
were submitted; the state; and one client: what it has seen of the journal, and wants to see.
"""

from __future__ import annotations

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from accord import v1, v2
from accord.agent.updates import MessageUpdate, OptionsUpdate, TurnEnded, TurnError
from accord.agent.v1 import ClientAdapterV1
from accord.agent.work import Background
from accord.client.connect import ConnectedAgent
from accord.client.session import ClientSession
from accord.connection.connection import Connection
from accord.connection.routes import trace
from accord.errors import (
    AccordError,
    TransportError,
)
from accord.text import lenient_json
from accord.transports.base import Frame
from accord.types import convert_v1, convert_v2
from accord.types.steering import STEERING, SteeringOutcome, outcome_of
from accord.wire.codec import decoder, encode
from accord_terminal.sessions.journal import (
    Ended,
    Entry,
    Journal,
    OptionsSet,
    OwnerStarted,
    Started,
    Steered,
    Updated,
    cursor_of,
)
from accord_terminal.sessions.owner.translate import SessionTranslator
from accord_terminal.sessions.records import Approvals, Record

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.types.content import ContentBlock


log: logging.Logger = logging.getLogger("accord.sessions")

# Reads the frames of the agent's connection: its updates as they are, and ids of messages.

# Called with the session id of an update, the update and the `_meta` of its notification.
OnUpdate: TypeAlias = Callable[[str, Raw, Raw | UnsetType], None]

_PERMISSIONS = 64  # requests that are remembered
_OWN_CALLS = (b'"session/prompt"', STEERING.encode())


class _Head(Struct):
    method: Any = UNSET
    id: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


class _Update(Struct):
    update: Raw
    session_id: str = field(name="sessionId")
    meta: Raw | UnsetType = field(name="_meta", default=UNSET)


class _UpdateFrame(Struct):
    """An update, which is nearly every frame of an agent."""

    method: Literal["session/update"]
    params: _Update


class _Result(Struct):
    message_id: Any = field(name="messageId", default=None)


_head = msgspec.json.Decoder(_Head)
_heads = msgspec.json.Decoder(list[_Head])
_update = msgspec.json.Decoder(_Update)
_update_frame = msgspec.json.Decoder(_UpdateFrame)
_result = msgspec.json.Decoder(_Result)


class AgentFrames:
    """An observer of the connection to the agent."""

    def __init__(
        self,
        on_update: OnUpdate,
        on_message_id: Callable[[str], None],
        on_steered: Callable[[SteeringOutcome], None],
    ) -> None:
        self._on_update = on_update
        self._on_message_id = on_message_id
        self._on_steered = on_steered
        self._prompt_ids: list[Any] = []  # of each `session/prompt` of the running turn
        self._steering_id: Any = UNSET  # of the last request
        self._permissions: deque[Raw] = deque(maxlen=_PERMISSIONS)

    def observe(self, direction: Literal["received", "sent"], frame: Frame) -> None:
        """Take notice of a frame."""
        if direction == "sent":
            if any(call in frame[:200] for call in _OWN_CALLS):
                for head in _decoded(frame):
                    if head.method == "session/prompt":
                        self._prompt_ids.append(head.id)
                    elif head.method == STEERING:
                        self._steering_id = head.id
            return
        try:
            found = _update_frame.decode(frame).params
        except (msgspec.MsgspecError, UnicodeDecodeError):
            for head in _decoded(frame):
                self._received(head)
        else:
            self._on_update(found.session_id, found.update, found.meta)

    def _received(self, head: _Head) -> None:
        if head.method == "session/update" and head.params is not UNSET:
            try:
                found = _update.decode(head.params)
            except msgspec.MsgspecError:
                return  # the connection reports it
            self._on_update(found.session_id, found.update, found.meta)
        elif head.method == "session/request_permission" and head.params is not UNSET:
            self._permissions.append(head.params)
        elif head.method is not UNSET or head.result is UNSET:
            return
        elif head.id == self._steering_id:
            self._steering_id = UNSET
            if (outcome := outcome_of(msgspec.json.decode(head.result))) is not None:
                self._on_steered(outcome)
        elif head.id in self._prompt_ids:
            try:
                message_id = _result.decode(head.result).message_id
            except msgspec.MsgspecError:
                return
            if isinstance(message_id, str):
                self._on_message_id(message_id)

    def begin_turn(self) -> None:
        """Forget the prompts of the turn before."""
        self._prompt_ids.clear()

    def permission_params(self, matches: Callable[[Any], bool]) -> dict[str, Any] | None:
        """Return the params of the oldest permission request that matches, once."""
        for raw in self._permissions:
            params = msgspec.json.decode(raw)
            if lenient_json.is_object(params) and matches(params):
                self._permissions.remove(raw)
                return params
        return None


def _decoded(frame: Frame) -> Iterator[_Head]:
    try:
        yield _head.decode(frame)
        return
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        if frame.lstrip()[:1] == b"[":
            yield from _heads.decode(frame)
            return
        text = lenient_json.dumps(lenient_json.loads(frame))  # for example an unpaired surrogate
        yield _head.decode(text)
    except (lenient_json.NotJson, msgspec.MsgspecError, UnicodeDecodeError):
        return


# Keeps the ids of an agent apart that has lost its context, and counts again from the beginning.
#
# In the journal, both its first messages may be `message-1`. Clients get the earlier ones under
# other ids; those of the present context stay, as the agent knows them.

_IDS = frozenset(
    {
        "compactionId",
        "messageId",
        "planId",
        "recipientMessageId",
        "senderMessageId",
        "terminalId",
        "toolCallId",
    }
)
_OPAQUE = frozenset({"_meta", "rawInput", "rawOutput"})


class Contexts:
    """Where in the journal the contexts of the agent have begun."""

    def __init__(self) -> None:
        self._starts: list[int] = []

    def read(self, entry: Entry) -> None:
        """Take notice of an entry, in the order of the journal."""
        if isinstance(entry, OwnerStarted) and entry.restored in ("new", "lost"):
            self._starts.append(entry.seq)

    def update_of(self, entry: Updated) -> Raw:
        """Return the update of an entry; that of an earlier context has other ids."""
        number = bisect_right(self._starts, entry.seq)
        if number >= len(self._starts):
            return entry.update
        try:
            update = lenient_json.loads(bytes(entry.update))
        except lenient_json.NotJson:
            return entry.update
        return Raw(msgspec.json.encode(_renamed(update, f"context {number}: ")))


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, list):
        return [_renamed(item, prefix) for item in value]  # pyright: ignore[reportUnknownVariableType]  # JSON
    if not lenient_json.is_object(value):
        return value
    return {
        key: f"{prefix}{item}"
        if key in _IDS and isinstance(item, str)
        else item
        if key in _OPAQUE
        else _renamed(item, prefix)
        for key, item in value.items()
    }


# The queue of prompts of a session: one turn runs, the others wait in submission order.


class Prompt:
    """A submitted prompt; `started` has the message id of the agent, `ended` how the turn ended."""

    def __init__(
        self,
        content: tuple[ContentBlock, ...],
        *,
        by: str,
        approvals: Approvals,
        attached: bool = False,
        prompt_id: str | None = None,
        trace: dict[str, Any] | None = None,
    ) -> None:
        self.id: str = prompt_id or f"p-{os.urandom(6).hex()}"
        self.content = content
        self.by = by
        self.approvals = approvals
        self.attached = attached  # a submitter that leaves cancels it
        self.trace = trace  # the W3C trace context of its request (R-EXT-02)
        self.state: Literal["queued", "running", "ended"] = "queued"
        self.is_cancelled = False
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[str] = loop.create_future()
        self.ended: asyncio.Future[Ended] = loop.create_future()

    @property
    def text(self) -> str:
        """The beginning of its text, as one line."""
        return beginning_of(self.content)

    def end(self, ended: Ended) -> None:
        """Let those who wait for the turn continue."""
        self.state = "ended"
        if not self.started.done():
            self.started.cancel()
        if not self.ended.done():
            self.ended.set_result(ended)


def beginning_of(content: tuple[ContentBlock, ...]) -> str:
    """Return the beginning of the text of a message, as one line."""
    words = " ".join(str(part) for part in content if isinstance(part, str)).split()
    return " ".join(words)[:200]


class PromptQueue:
    """The prompts that have not ended; the first one runs, or is about to (R-NAMED-04)."""

    def __init__(self) -> None:
        self.running: Prompt | None = None
        self._waiting: deque[Prompt] = deque()
        self._added = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + (self.running is not None)

    @property
    def prompts(self) -> list[Prompt]:
        """The running prompt, then the waiting ones in their order."""
        return [*([self.running] if self.running else []), *self._waiting]

    def add(self, prompt: Prompt) -> int:
        """Append a prompt; return how many are before it."""
        self._waiting.append(prompt)
        self._added.set()
        return len(self) - 1

    def withdraw(self, prompt: Prompt) -> bool:
        """Remove a waiting prompt; return False if it is not waiting."""
        if prompt not in self._waiting:
            return False
        self._waiting.remove(prompt)
        return True

    def find(self, prompt_id: str) -> Prompt | None:
        """Return a prompt that has not ended."""
        return next((prompt for prompt in self.prompts if prompt.id == prompt_id), None)

    async def next(self) -> Prompt:
        """Wait for the next prompt, which is running from now on."""
        self.running = None
        while not self._waiting:
            self._added.clear()
            await self._added.wait()
        self.running = self._waiting.popleft()
        self.running.state = "running"
        return self.running

    def done(self) -> None:
        """Nothing runs any more."""
        self.running = None


# What the parts of an owner share: the agent, its session, the queue and the journal.


class OwnerState(ABC):
    """The state of an owner, for what serves its clients."""

    agent: ConnectedAgent
    session: ClientSession
    frames: AgentFrames

    def __init__(self, record: Record, journal: Journal) -> None:
        self.record = record
        self.journal = journal
        self.queue: PromptQueue = PromptQueue()
        self.contexts: Contexts = Contexts()
        self.protocol: int = record.protocol or 1
        self.joined: asyncio.Event = asyncio.Event()  # replaced when a client opens the session
        self.no_background: Background = Background({}, [])

    @abstractmethod
    def add(self, entry: Entry) -> Entry:
        """Write an entry, and then show it."""

    @abstractmethod
    def client_names(self) -> list[str]:
        """Return the names of the clients that have opened the session."""

    def content_to_wire(self, content: tuple[ContentBlock, ...]) -> Raw:
        """Return content in the agent's version."""
        convert = convert_v1 if self.protocol == 1 else convert_v2
        return Raw(encode([convert.content_to_wire(block) for block in content]))

    def content_from_wire(self, content: Raw) -> tuple[ContentBlock, ...]:
        """Return content that is stored in the agent's version."""
        if self.protocol == 1:
            blocks = decoder(list[v1.ContentBlock])(bytes(content))
            return tuple(map(convert_v1.content_from_wire, blocks))
        return tuple(
            map(convert_v2.content_from_wire, decoder(list[v2.ContentBlock])(bytes(content)))
        )


# One client of a session: what it has seen of the journal, and what it wants to see.

_AT_ONCE = 64  # entries
_PLAIN = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
ENTRY = "_accord/session/entry"
CLIENTS = "_accord/session/clients"


class ClientSettings(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a client of Accord says about itself by `_accord/session/client`."""

    name: str = ""
    follows: str = "all"  # own: only the turns of its own prompts
    decides: bool = True  # a user can answer permission requests and forms
    fills: bool | None = None  # a user can answer forms; None: if it decides
    visits: bool | None = None  # a user can open URLs; None: if it decides
    attached: bool = False  # its prompts are cancelled when it leaves
    entries: bool = False  # it gets the entries of the journal other than updates
    approvals: Approvals | None = None  # None: those of the session

    def answers(self, what: str) -> bool:
        """Whether a user of the client can answer a request of the agent: permission, form, url."""
        can = {"form": self.fills, "url": self.visits}.get(what)
        return self.decides if can is None else can


class Client:
    """A connection of the owner to a client; it starts when the client opens the session."""

    def __init__(
        self, owner: OwnerState, adapter: ClientAdapter, connection: Any, number: int
    ) -> None:
        self.owner = owner
        self.adapter = adapter
        self.connection = cast("Connection", connection)
        self.settings: ClientSettings = ClientSettings()
        self.number = number
        self.is_open = False
        self.own_prompts: set[str] = set()
        self.own_changes: set[int] = set()  # entries of what this client has set or said
        # In version 1: what this client has said while a turn runs, and the agent may echo.
        self.own_messages: deque[tuple[ContentBlock, ...]] = deque(maxlen=100)
        self.position = 0  # the last entry that was handled
        self._new = asyncio.Event()
        self._tells_clients = False
        self._moved = asyncio.Condition()
        self._feeding: asyncio.Task[None] | None = None
        self._translator: SessionTranslator | None = None
        self._plain = b""  # the frame of an update up to it, if it is passed on as it is
        if adapter.version != owner.protocol:
            self._translator = SessionTranslator(owner.protocol)
        else:
            self._plain = _PLAIN + msgspec.json.encode(owner.record.id) + b',"update":'

    @property
    def name(self) -> str:
        """How others see this client."""
        if self.settings.name:
            return self.settings.name
        info = self.adapter.client_info
        return f"client {self.number}" if info is None else info.title or info.name

    @property
    def has_ended(self) -> bool:
        """Whether the client has disconnected."""
        return self.connection.has_ended

    def wake(self) -> None:
        """Look at the journal: it has a new entry."""
        self._new.set()

    def tell_clients(self) -> None:
        """Tell which clients use the session, if it wants to know what is not an update."""
        if self.settings.entries:
            self._tells_clients = True
            self._new.set()

    def open(self, position: int) -> None:
        """Forward the entries after a position, from now on."""
        self.is_open = True
        read, self.position = self.position, position
        if self._feeding is None:
            self._feeding = asyncio.create_task(self._feed(read), name="accord feed")

    async def aclose(self) -> None:
        """Stop forwarding."""
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.wait([self._feeding])

    async def wait_for(self, seq: int) -> None:
        """Wait until an entry was forwarded, or the client has left."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.position >= seq or not self.is_open)

    async def fail(self, ended: Ended) -> None:
        """Report the end of a turn that could not be written; in version 1 the response does."""
        if self.adapter.version == 2 and self.is_open and ended.prompt in self.own_prompts:
            failure = TurnError(-32603, ended.error or "")
            turn = TurnEnded(ended.stop_reason, failure)
            with suppress(AccordError):
                await self.adapter.send_turn_end(
                    self.owner.record.id, turn, self.owner.no_background
                )

    async def replay(self) -> None:
        """Forward everything up to now; the session is not open yet."""
        last = self.owner.journal.last
        self.position = 0
        while self.position < last:
            for entry in self.owner.journal.after(self.position, _AT_ONCE):
                await self._forward(entry)
                self.position = entry.seq

    async def _feed(self, read: int) -> None:
        try:
            await self._skip(read)
            while True:
                self._new.clear()
                entries = self.owner.journal.after(self.position, _AT_ONCE)
                for entry in entries:
                    if type(entry) is not Updated:
                        await self._forward(entry)
                    elif self._follows(entry):
                        await self._update(entry)
                    self.position = entry.seq
                async with self._moved:
                    self._moved.notify_all()
                if self._tells_clients:
                    self._tells_clients = False
                    await self.connection.notify(CLIENTS, {"clients": self.owner.client_names()})
                if not entries:
                    await self._new.wait()
        except TransportError:
            log.debug("= a client has left")
        except AccordError as exc:
            log.error("! a client is dropped: %s", exc)
            await self.connection.aclose()
        finally:
            self.is_open = False
            async with self._moved:
                self._moved.notify_all()

    async def _skip(self, read: int) -> None:
        """Read the entries up to the position that were not: later updates continue theirs."""
        while self._translator is not None and read < self.position:
            most = min(_AT_ONCE, self.position - read)
            for entry in self.owner.journal.after(read, most):
                if isinstance(entry, Updated) and self._follows(entry):
                    self._translator.skip(entry.session, self.owner.contexts.update_of(entry))
                read = entry.seq
            await asyncio.sleep(0)

    def _follows(self, entry: Entry) -> bool:
        return (
            self.settings.follows != "own"
            or entry.prompt is None
            or entry.prompt in self.own_prompts
        )

    async def _forward(self, entry: Entry) -> None:
        if not self._follows(entry):
            return
        if self.settings.entries and not isinstance(entry, Updated):
            value = {
                "cursor": cursor_of(self.owner.record.id, entry.seq),
                "entry": Raw(msgspec.json.encode(entry)),
            }
            await self.connection.notify(ENTRY, value)
        match entry:
            case Updated():
                await self._update(entry)
            case Started() if self.owner.protocol == 1:
                await self._started(entry)
            case Steered():
                await self._steered(entry)
            case Ended() if self.owner.protocol == 1 and self.adapter.version == 2:
                failure = None
                if entry.error is not None:
                    data = {"stderr": entry.stderr} if entry.stderr else UNSET
                    failure = TurnError(entry.code or -32603, entry.error, data)
                background = self.owner.no_background
                ended = TurnEnded(entry.stop_reason, failure)
                await self.adapter.send_turn_end(self.owner.record.id, ended, background)
            case Ended() if isinstance(self.adapter, ClientAdapterV1):  # its turn ends with it
                await self.adapter.flush_tool_content(self.owner.record.id)
            case OptionsSet() if entry.seq not in self.own_changes:
                options = self.owner.session.transcript.options
                update = OptionsUpdate(options, mode_changed=True)
                await self.adapter.send_update(self.owner.record.id, update)
            case _:
                pass

    async def _update(self, entry: Updated) -> None:
        found = self.owner.contexts.update_of(entry)
        if self._plain and entry.session is None and entry.meta is UNSET and trace() is None:
            if self.connection.queue_notification(self._plain + bytes(found) + b"}}"):
                await self.connection.wait_for_room()
            return
        if self._translator is None:
            session = self.owner.record.id if entry.session is None else entry.session
            params: dict[str, Any] = {"sessionId": session, "update": found}
            if entry.meta is not UNSET:
                params["_meta"] = entry.meta
            await self.connection.notify("session/update", params)
            return
        for update, meta in self._translator.updates(entry.session, found):
            if isinstance(update, MessageUpdate) and update.role == "user":
                if self.own_messages and update.content == self.own_messages[0]:
                    self.own_messages.popleft()
                    continue  # the agent echoes what this client has said, and shows itself
                if self.adapter.version == 1 and entry.prompt in self.own_prompts:
                    continue  # the client has its own prompt
            await self.adapter.send_update(self.owner.record.id, update, meta)

    async def _steered(self, entry: Steered) -> None:
        """Show what was said in a turn, unless the agent echoes it or the client has said it."""
        is_in_own_turn = entry.prompt in self.own_prompts
        if self.owner.protocol == 2:  # `_update` drops the echo in the turn of an own prompt
            is_known = self.adapter.version == 2 or not is_in_own_turn
        else:
            is_known = False
        content = self.owner.content_from_wire(entry.content)
        if self.adapter.version == 1 and entry.seq in self.own_changes:
            is_known = True  # it shows what it has said
        if not is_known:
            message = MessageUpdate("user", f"steered {entry.seq}", content)
            await self.adapter.send_update(self.owner.record.id, message)

    async def _started(self, entry: Started) -> None:
        """Tell clients of an agent that does not echo prompts."""
        is_own = entry.prompt in self.own_prompts
        if is_own and self.adapter.version == 1:
            return
        content = self.owner.content_from_wire(entry.content)
        session_id = self.owner.record.id
        message = MessageUpdate("user", f"{entry.prompt}", content)
        await self.adapter.send_update(session_id, message)
        await self.adapter.send_state(session_id, "running", self.owner.no_background)
