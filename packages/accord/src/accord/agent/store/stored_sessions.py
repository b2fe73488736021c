"""The sessions in a store: creates, finds, loads, forks, archives, deletes and lists them.

`encode_update` and `decode_update` define the stored form of updates: JSON that future versions of
Accord read, too. `SessionWriter` stores each update before it is sent. `Collapser` shortens the
stored updates for a replay: each message, tool call and plan once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from accord.agent.store import OwnedSession, SessionPage, SessionStore, StoredSession
from accord.agent.updates import (
    CommandsUpdate,
    CompactionSummaryUpdate,
    CompactionUpdate,
    ContextUsageUpdate,
    MessageRole,
    MessageUpdate,
    NoticeUpdate,
    OptionsUpdate,
    PlanFileUpdate,
    PlanMarkdownUpdate,
    PlanRemoved,
    PlanUpdate,
    Remembered,
    SessionMessageUpdate,
    SubagentUpdate,
    TerminalExited,
    TerminalOutputUpdate,
    TerminalStarted,
    TitleUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    TurnEnded,
    Update,
)
from accord.errors import InvalidParams, ResourceNotFound
from accord.text import lenient_json
from accord.types.content import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    ImageContent,
    Other,
    ResourceLink,
    TextContent,
)
from accord.types.session import SessionOption
from accord.types.tool_calls import Diff, TerminalView, ToolCallLocation, ToolContent
from accord.wire.codec import encode

# The stored form of updates: JSON that future versions of Accord read, too.

log: logging.Logger = logging.getLogger("accord.agent")


class _Annotated(Struct, omit_defaults=True, tag="text"):
    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class _Image(Struct, omit_defaults=True, tag="image"):
    data: bytes
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class _Audio(Struct, omit_defaults=True, tag="audio"):
    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class _Link(Struct, omit_defaults=True, tag="link"):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    icons: tuple[dict[str, Any], ...] = ()


class _Text(Struct, omit_defaults=True, tag="resource"):
    uri: str
    content: str
    mime_type: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    content_meta: dict[str, Any] | None = None


class _Blob(Struct, omit_defaults=True, tag="blob"):
    uri: str
    content: bytes
    mime_type: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    content_meta: dict[str, Any] | None = None


class _Other(Struct, omit_defaults=True, tag="other"):
    raw: Any


class _Diff(Struct, omit_defaults=True, tag="diff"):
    path: str
    old: str | None = None
    new: str | None = None
    patch: str | None = None
    others: tuple[str, ...] = ()


class _Terminal(Struct, omit_defaults=True, tag="terminal"):
    terminal_id: str


_Item: TypeAlias = (
    str | _Annotated | _Image | _Audio | _Link | _Text | _Blob | _Other | _Diff | _Terminal
)


class _Said(Struct, omit_defaults=True, tag="said"):
    role: MessageRole
    message_id: str
    content: list[_Item]


class _Tool(Struct, omit_defaults=True, tag="tool", kw_only=True):
    id: str
    is_new: bool = field(default=False, name="begins")
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    content: list[_Item] | UnsetType = UNSET
    locations: tuple[ToolCallLocation, ...] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    cancellable: bool | UnsetType = UNSET


class _Part(Struct, omit_defaults=True, tag="part"):
    id: str
    content: _Item
    continues: bool = field(default=False, name="goes_on")


class _Compaction(Struct, omit_defaults=True, tag="compaction"):
    id: str
    status: str
    error: str | UnsetType = UNSET


class _CompactionPart(Struct, omit_defaults=True, tag="compaction_part"):
    id: str
    content: _Item


class _SessionSaid(Struct, omit_defaults=True, tag="session_said", kw_only=True):
    id: str
    sender: str
    recipient: str
    sender_message_id: str | UnsetType = UNSET
    recipient_message_id: str | UnsetType = UNSET
    content: list[_Item]


_Stored: TypeAlias = (
    _Said
    | _Tool
    | _Part
    | PlanUpdate
    | OptionsUpdate
    | CommandsUpdate
    | TitleUpdate
    | ContextUsageUpdate
    | TerminalStarted
    | TerminalOutputUpdate
    | TerminalExited
    | TurnEnded
    | PlanMarkdownUpdate
    | PlanFileUpdate
    | PlanRemoved
    | NoticeUpdate
    | SubagentUpdate
    | _Compaction
    | _CompactionPart
    | _SessionSaid
    | Remembered
)

_native = msgspec.json.Decoder(_Stored).decode


def _decode(entry: bytes) -> Any:
    try:
        return _native(entry)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # a lone surrogate, for example from text cut by JavaScript
        return msgspec.convert(lenient_json.loads(entry), _Stored)


def encode_update(update: Update) -> bytes:
    """Return an update as an entry of a store."""
    if type(update) is MessageUpdate:  # nearly all: `match` takes longer
        said = _Said(update.role, update.message_id, _items(update.content))
        return encode(said)
    match update:
        case ToolCallUpdate():
            values = {name: getattr(update, name) for name in update.__struct_fields__}
            if update.content is not UNSET:
                values["content"] = _items(update.content)
            return encode(_Tool(**values))
        case ToolContentUpdate(id, content, continues):
            return encode(_Part(id, _item(content), continues))
        case CompactionUpdate(id, status, error):
            return encode(_Compaction(id, status, error))
        case CompactionSummaryUpdate(id, content):
            return encode(_CompactionPart(id, _item(content)))
        case SessionMessageUpdate():
            values = {name: getattr(update, name) for name in update.__struct_fields__}
            values["content"] = _items(update.content)
            return encode(_SessionSaid(**values))
        case _:
            return encode(update)


def decode_update(entry: bytes) -> Update | None:
    """Return the update of an entry; None for an entry of a newer version of Accord."""
    try:
        stored = _decode(entry)
    except (msgspec.DecodeError, lenient_json.NotJson) as exc:
        log.warning("! an entry of a session cannot be decoded: %s", exc)
        return None
    match stored:
        case _Said(role, message_id, content):
            return MessageUpdate(role, message_id, tuple(map(_content, content)))  # type: ignore[arg-type]  # messages hold neither diffs nor terminals
        case _Tool():
            values = {name: getattr(stored, name) for name in stored.__struct_fields__}
            if stored.content is not UNSET:
                values["content"] = tuple(map(_content, stored.content))
            return ToolCallUpdate(**values)
        case _Part(id, content, continues):
            return ToolContentUpdate(id, _content(content), continues)
        case _Compaction(id, status, error):
            return CompactionUpdate(id, status, error)
        case _CompactionPart(id, content):
            return CompactionSummaryUpdate(id, _content(content))  # type: ignore[arg-type]  # a summary holds neither diffs nor terminals
        case _SessionSaid():
            values = {name: getattr(stored, name) for name in stored.__struct_fields__}
            values["content"] = tuple(map(_content, stored.content))
            return SessionMessageUpdate(**values)
        case _:
            return stored


def _items(content: Iterable[ToolContent]) -> list[_Item]:
    return [_item(part) for part in content]


def _item(content: ToolContent) -> _Item:
    if type(content) is str:  # nearly all
        return content
    match content:
        case TextContent():
            return _Annotated(str(content), content.annotations, content.meta)
        case str():
            return content
        case ImageContent():
            return _Image(*_values(content))
        case AudioContent():
            return _Audio(*_values(content))
        case ResourceLink():
            return _Link(*_values(content))
        case EmbeddedResource(content=str()):
            return _Text(*_values(content))
        case EmbeddedResource():
            return _Blob(*_values(content))
        case Diff():
            return _Diff(*_values(content))
        case TerminalView(terminal_id):
            return _Terminal(terminal_id)
        case Other(raw):
            return _Other(raw)


def _content(item: _Item) -> ToolContent:
    match item:
        case str():
            return item
        case _Annotated(text, annotations, meta):
            return TextContent(text, annotations=annotations, meta=meta)
        case _Image():
            return ImageContent(*_values(item))
        case _Audio():
            return AudioContent(*_values(item))
        case _Link():
            return ResourceLink(*_values(item))
        case _Text() | _Blob():
            return EmbeddedResource(*_values(item))
        case _Diff():
            return Diff(*_values(item))
        case _Terminal(terminal_id):
            return TerminalView(terminal_id)
        case _Other(raw):
            return Other(raw)


def _values(fields: Struct) -> list[Any]:
    """Return the values of the fields, which are equal in content and its stored form."""
    return [getattr(fields, name) for name in fields.__struct_fields__]


# Writes a session to its store: each update before it is sent, and when a turn ends.


class SessionWriter:
    """Writes the updates of a session to its store."""

    def __init__(self, store: SessionStore, owned: OwnedSession) -> None:
        self._store = store
        self._owned = owned

    @property
    def is_batched(self) -> bool:
        """Whether writing many updates at once takes hardly longer than writing one."""
        return self._owned.is_batched

    async def write(self, updates: Sequence[Update]) -> None:
        """Append updates; a prompt, the end of a turn and a title also change the metadata."""
        if len(updates) == 1:
            [update] = updates
            if type(update) is MessageUpdate and update.role != "user":  # nearly all
                await self._owned.append((encode_update(update),))
                return
        # Commands are sent when a session is opened, notices only once (R-SESS-18).
        stored = [u for u in updates if not isinstance(u, CommandsUpdate | NoticeUpdate)]
        if not stored:
            return
        await self._owned.append([encode_update(update) for update in stored])
        for update in stored:
            match update:
                case TurnEnded() | MessageUpdate(role="user"):
                    await self._change()
                case TitleUpdate(title):
                    await self._change(title=title)
                case _:
                    pass

    def write_now(self, updates: Sequence[Update]) -> bool:
        """Append chunks of messages of the agent without waiting; return False if it cannot."""
        return self._owned.append_now([encode_update(update) for update in updates])

    async def release(self) -> None:
        """Stop writing."""
        await self._owned.release()

    async def _change(self, **fields: Any) -> None:
        session = await find_session(self._store, self._owned.session_id)
        if session.title_is_users:  # R-TITLE-05: another server may have stored it
            fields.pop("title", None)
        await self._owned.update(replace(session, updated_at=timestamp(), **fields))


async def find_session(store: SessionStore, session_id: str) -> StoredSession:
    """Return the metadata of a session; raise `ResourceNotFound`."""
    stored = await store.get(session_id)
    if stored is None:
        raise ResourceNotFound(data={"sessionId": session_id})
    return stored


def timestamp() -> str:
    """Return the time as it is stored."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# Collapses stored updates for a replay: each message, tool call and plan once.

_ENDED = frozenset({"completed", "failed", "cancelled"})
_MAX_PIECES = 1024  # of a text before they are joined
_OUTPUT_BYTES = 256 * 1024  # of a terminal: its end


def collapse(updates: Iterable[Update], *, running: bool = False) -> list[Update]:
    """Return fewer updates with the same result.

    Each entity is at the position of its first update. Unless `running`, an entity that has not
    ended is cancelled. Options and commands are omitted, as they are sent when a session is
    opened.
    """
    fold = Collapser()
    for update in updates:
        fold.add(update)
    return list(fold.result(running=running))


class _Pieces:
    """Content that is appended to; consecutive text is joined."""

    __slots__ = ("_items", "_recent", "_texts")

    def __init__(self) -> None:
        self._items: list[ToolContent] = []
        self._texts: list[str] = []  # consecutive
        self._recent: list[str] = []  # as above, the last of them

    def add(self, part: ToolContent, *, continues: bool) -> None:
        if type(part) is not str:
            self._end_text()
            self._items.append(part)
            return
        if not continues:
            self._end_text()
        self._recent.append(part)
        if len(self._recent) == _MAX_PIECES:
            self._texts.append("".join(self._recent))
            self._recent.clear()

    def _end_text(self) -> None:
        if self._texts or self._recent:
            self._items.append("".join((*self._texts, *self._recent)))
            self._texts.clear()
            self._recent.clear()

    def result(self) -> tuple[ToolContent, ...]:
        self._end_text()
        return tuple(self._items)


class _ContentBuffer(Struct, gc=False):
    """The content of one entity.

    Most have one text, and a session can have 100,000: with lists for each, the garbage collector
    would stop all sessions for a long time.
    """

    text: str | None = None  # the only piece
    pieces: _Pieces | None = None  # all content, if there is more

    def add(self, part: ToolContent, *, continues: bool) -> None:
        if self.pieces is None:
            if self.text is None and type(part) is str:
                self.text = part
                return
            self.pieces = _Pieces()
            if self.text is not None:
                self.pieces.add(self.text, continues=False)
        self.pieces.add(part, continues=continues)

    def result(self) -> tuple[ToolContent, ...]:
        """Return the content."""
        if self.pieces is not None:
            return self.pieces.result()
        return () if self.text is None else (self.text,)


class Collapser:
    """Collapses updates as they are added; takes no more memory than its result."""

    def __init__(self) -> None:
        # By entity, in the order of the first update.
        self._updates: dict[tuple[str, ...], Update] = {}
        self._contents: dict[tuple[str, ...], _ContentBuffer] = {}
        self._items: dict[str, _ContentBuffer] = {}
        self._outputs: dict[str, bytearray] = {}
        self._exits: dict[str, TerminalExited] = {}

    def add(self, update: Update) -> None:
        """Add the next update."""
        match update:
            case MessageUpdate(role, message_id, content):
                key = "said", role, message_id
                self._updates.setdefault(key, MessageUpdate(role, message_id, ()))
                for part in content:
                    # The user's content keeps its blocks; text of the agent is joined.
                    self._parts(key).add(part, continues=role != "user")
            case ToolCallUpdate(id=tool_id):
                self._add_tool(tool_id, update)
            case ToolContentUpdate(tool_id, content, continues):
                self._items.setdefault(tool_id, _ContentBuffer()).add(content, continues=continues)
            case (
                PlanUpdate(id=plan_id) | PlanMarkdownUpdate(id=plan_id) | PlanFileUpdate(id=plan_id)
            ):
                self._updates["plan", plan_id] = update
            case PlanRemoved(plan_id):
                self._updates.pop(("plan", plan_id), None)
            case CompactionUpdate(id=compaction_id):
                self._add("compaction", compaction_id, update)
            case CompactionSummaryUpdate(compaction_id, content):
                key = "compaction", compaction_id
                self._updates.setdefault(key, CompactionUpdate(compaction_id, "in_progress"))
                self._parts(key).add(content, continues=True)
            case SubagentUpdate(id=child_id):
                self._add("subagent", child_id, update)
            case SessionMessageUpdate(id=message_id):
                self._updates["between", message_id] = update
            case TitleUpdate():
                self._updates["title",] = update
            case ContextUsageUpdate():
                self._updates["usage",] = update
            case TerminalStarted(id=terminal_id):
                self._updates["terminal", terminal_id] = update
            case TerminalOutputUpdate(terminal_id, data):
                output = self._outputs.setdefault(terminal_id, bytearray())
                output += data
                del output[:-_OUTPUT_BYTES]
            case TerminalExited(terminal_id, _, _):
                self._exits[terminal_id] = update
            case OptionsUpdate() | CommandsUpdate() | TurnEnded() | NoticeUpdate() | Remembered():
                pass

    def _parts(self, key: tuple[str, ...]) -> _ContentBuffer:
        return self._contents.setdefault(key, _ContentBuffer())

    def _add_tool(self, tool_id: str, update: ToolCallUpdate) -> None:
        if update.content is not UNSET:
            parts = self._items[tool_id] = _ContentBuffer()
            for item in update.content:
                parts.add(item, continues=False)
            update = replace(update, content=UNSET)
        self._add("tool", tool_id, update)

    def _add(
        self, kind: str, entity: str, update: ToolCallUpdate | CompactionUpdate | SubagentUpdate
    ) -> None:
        before = self._updates.get((kind, entity))
        if isinstance(before, ToolCallUpdate | CompactionUpdate | SubagentUpdate):
            changes = {
                name: value
                for name in update.__struct_fields__
                if (value := getattr(update, name)) is not UNSET
                and name not in ("is_new", "content")
            }
            update = replace(before, **changes)
        self._updates[kind, entity] = update

    def free(self, count: int) -> bool:
        """Forget some entities; return whether more are left. All at once takes long."""
        for held in (self._updates, self._contents, self._items):
            for _ in range(min(count, len(held))):
                held.popitem()
        return bool(self._updates or self._contents or self._items)

    def result(self, *, running: bool) -> Iterator[Update]:
        """Return the collapsed updates; see `collapse`."""
        for key, update in self._updates.items():
            match update:
                case MessageUpdate(role, message_id, _):
                    yield MessageUpdate(role, message_id, self._contents[key].result())  # type: ignore[arg-type]  # of messages
                case ToolCallUpdate(id=tool_id, status=status):
                    items = self._items.get(tool_id)
                    yield replace(
                        update,
                        is_new=True,
                        status=status if running or status in _ENDED else "cancelled",
                        cancellable=update.cancellable
                        if running and status not in _ENDED
                        else UNSET,
                        content=UNSET if items is None else items.result() or UNSET,
                    )
                case CompactionUpdate(status=status):
                    summary = self._contents.get(key)
                    ended = running or status in _ENDED
                    yield replace(
                        update,
                        status=status if ended else "cancelled",
                        summary=UNSET if summary is None else summary.result() or UNSET,
                    )
                case SubagentUpdate(state=state) if state != "idle" and not running:
                    yield replace(update, state="idle", stop_reason="cancelled")
                case TerminalStarted(id=terminal_id):
                    ended = terminal_id in self._exits or not running
                    yield replace(update, cancellable=not ended and update.cancellable)
                    if output := self._outputs.get(terminal_id):
                        yield TerminalOutputUpdate(terminal_id, bytes(output))
                    if ended:
                        yield self._exits.get(terminal_id, TerminalExited(terminal_id))
                case _:
                    yield update


# Updates that are read, sent or freed before other tasks run. A turn of another session takes a
# dozen of such steps if both sides run in one process.
_UPDATES_PER_STEP = 64


class LoadedSession(Struct):
    """A session as it was stored."""

    count: int  # entries
    options: tuple[SessionOption, ...]
    remembered: Any
    collapser: Collapser

    async def updates(self, *, running: bool) -> AsyncGenerator[Update, None]:
        """Iterate once over the updates of a replay; if `running`, open entities stay open."""
        for number, update in enumerate(self.collapser.result(running=running), 1):
            yield update
            if number % _UPDATES_PER_STEP == 0:
                await asyncio.sleep(0)
        has_more = True
        while has_more:
            has_more = self.collapser.free(_UPDATES_PER_STEP)
            await asyncio.sleep(0)


class StoredSessions:
    """The operations of sessions on a store.

    With a principal, only its sessions exist here, and new ones belong to it.
    """

    def __init__(self, store: SessionStore, principal: str | None = None) -> None:
        self._store = store
        self._principal = principal

    async def create(self, session_id: str, cwd: str, additional: Sequence[str]) -> None:
        """Store a new session."""
        await self._store.create(
            StoredSession(
                id=session_id,
                cwd=cwd,
                additional_directories=tuple(additional),
                updated_at=timestamp(),
                principal=self._principal,
            )
        )

    async def find(self, session_id: str) -> StoredSession:
        """Return a session; raise `ResourceNotFound`."""
        stored = await find_session(self._store, session_id)
        if self._principal not in (None, stored.principal):
            raise ResourceNotFound(data={"sessionId": session_id})  # as for an unknown one
        return stored

    async def is_owned(self, session_id: str) -> bool:
        """Return whether a session is open, on this server or another one."""
        return await self._store.is_owned(session_id)

    async def fork(
        self, session_id: str, copy: str, cwd: str, additional: Sequence[str]
    ) -> StoredSession:
        """Store a copy of a session and return it."""
        source = await self.find(session_id)
        stored = StoredSession(
            id=copy,
            cwd=cwd,
            additional_directories=tuple(additional),
            title=source.title,
            title_is_users=source.title_is_users,
            updated_at=timestamp(),
            principal=source.principal,
        )
        await self._store.copy(session_id, stored)
        return stored

    async def writer(self, session_id: str, lost: Callable[[], None]) -> SessionWriter:
        """Return the writer of a session, the only one; raise `ResourceNotFound`.

        `lost` is called if another server opens the session.
        """
        try:
            owned = await self._store.own(session_id, lost)
        except KeyError:
            raise ResourceNotFound(data={"sessionId": session_id}) from None
        return SessionWriter(self._store, owned)

    async def load(self, session_id: str, *, replay: bool = True) -> LoadedSession:
        """Return a stored session; other tasks run while it is read.

        Its updates are returned only for a `replay`.
        """
        count = 0
        options: tuple[SessionOption, ...] = ()
        remembered: Any = None
        fold = Collapser()
        async with aclosing(self._store.read_pages(session_id)) as pages:
            async for page in pages:
                for entry in page:
                    count += 1
                    update = decode_update(entry)
                    if isinstance(update, OptionsUpdate):
                        options = update.options
                    elif isinstance(update, Remembered):
                        remembered = update.after(remembered)
                    elif update is not None and replay:
                        fold.add(update)
                    if count % _UPDATES_PER_STEP == 0:
                        await asyncio.sleep(0)
        return LoadedSession(count, options, remembered, fold)

    async def history(self, session_id: str) -> list[Update]:
        """Return the collapsed updates of a session."""
        loaded = await self.load(session_id)
        return [update async for update in loaded.updates(running=False)]

    async def delete(self, session_id: str) -> None:
        """Delete a session, after it is closed on other servers."""
        with suppress(ResourceNotFound):
            await self.writer(session_id, _ignore)
            await self._store.delete(session_id)

    async def archive(self, session_id: str, *, archived: bool) -> None:
        """Archive or unarchive a session; an archived one is closed on other servers."""
        writer = await self.writer(session_id, _ignore) if archived else None
        try:
            await self._store.update(replace(await self.find(session_id), archived=archived))
        finally:
            if writer is not None:
                await writer.release()

    async def set_title(self, session_id: str, title: str) -> None:
        """Store a title that the user has set."""
        stored = await self.find(session_id)
        await self._store.update(replace(stored, title=title, title_is_users=True))

    async def list(
        self, *, cwd: str | None, archived: str | None, cursor: str | None
    ) -> SessionPage:
        """Return a page of sessions; raise `InvalidParams` for an invalid filter or cursor."""
        match archived or "exclude":
            case "exclude" | "include" | "only" as wanted:
                pass
            case _:
                raise InvalidParams("Unknown filter", data={"archived": archived})  # R-ARCH-09
        try:
            if self._principal is None:
                return await self._store.list(cwd=cwd, archived=wanted, cursor=cursor)
            return await self._store.list(
                cwd=cwd, archived=wanted, cursor=cursor, principal=self._principal
            )
        except ValueError:
            raise InvalidParams("Invalid cursor") from None  # R-LIST-06


def _ignore() -> None:
    """Continue with a short operation although another server wants the session."""
