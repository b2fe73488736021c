"""Turns of ACP agents for the callers of other protocols.

Each conversation is a persistent session, which people can watch and use in `accord session` and
`accord chat`. An `Exchange` is one turn over as many requests as its caller needs: it stops where
the agent calls a tool of the caller, or asks for a permission that the caller decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from accord import ContentBlock, TokenUsage
from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
from accord.client.events import Event, PermissionRequest
from accord.client.transcript import Transcript, forget_items
from accord.errors import AccordError, TransportError
from accord.remote.access import Principal
from accord.types.session import AvailableCommand, SelectOption, SessionOption
from accord_bridges.gateways.caller_tools import CallerTool, CallerTools
from accord_bridges.gateways.tracing import Tracing
from accord_terminal.sessions.named import CALL, SharedSession, joined_session
from accord_terminal.sessions.owners import compile_types, running_owner, transport_to
from accord_terminal.sessions.records import (
    Approvals,
    Record,
    SessionsError,
    Store,
    StoreError,
    has_owner,
    new_record,
)
from accord_terminal.toolkit.agent_names import NamedAgent
from accord_terminal.toolkit.session_setup import option_of

if TYPE_CHECKING:
    from accord.client.events import Decision
    from accord.types.session import AvailableCommand, Implementation

log: logging.Logger = logging.getLogger("accord.gateway")

_EVENTS = 512  # that wait for the caller to read; then the agent waits
_GATHER_S = 0.1  # after a call of the caller's tool, for others that are made with it
_FORGET_S = 60.0  # a session is left when it had no turn for so long; its agent has `idle_s` more
_LEAVE_S = 5.0
_CANCEL_S = 15.0  # more than the owner of a session gives an agent, which it ends then:
_HANGS_S = 9.0  # a cancelled turn that took so long has ended with its agent
_DIES_S = 1.0  # for the owner of a session to end after its agent, whose turn has failed
_REFILL_S = 0.5
_STARTS = max(8, 2 * (os.cpu_count() or 1))  # of an agent at the same time
_COMMANDS_S = 1.0
_PAUSE_S = 0.02
_HEADS = 100_000  # conversations that are found by their transcripts


class GatewayError(AccordError):
    """A request cannot be served; `status` is that of HTTP, `param` names what is wrong."""

    def __init__(
        self, text: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.param = param


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """What the operator of a gateway decides. Times are in seconds.

    Sessions work in `cwd`, or with `scratch` each in a new directory; a caller may choose a
    directory below one of `roots`. `approvals` are the rules for permissions, which are rejected
    otherwise unless the caller can be asked.
    """

    cwd: Path = Path()
    roots: tuple[Path, ...] = ()
    scratch: bool = False
    approvals: Approvals = Approvals()
    warm: int = 0  # sessions of each agent that are started before they are needed
    turns: int = 64  # at the same time; four times as many may wait or ask their callers
    waiting: int = 16  # requests for a session whose turn is running
    agents: int = 32  # that run; beyond it, those end that were not used for longest
    idle_s: float = 300.0  # an agent without a caller ends
    answer_s: float = 600.0  # for the caller to return what its tool has done


class CallerCall(Struct, frozen=True):
    """The agent calls a tool of the caller."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class CallerQuestion(Struct, frozen=True):
    """The agent asks for a permission that the caller decides."""

    id: str
    request: PermissionRequest


class CallerForm(Struct, frozen=True):
    """The agent asks for input; answer with the values of the form, or None to decline."""

    id: str
    form: ElicitationForm


class CallerPage(Struct, frozen=True):
    """The agent asks the user to open a URL; answer whether it is done."""

    id: str
    page: UrlElicitationRequest


Happening: TypeAlias = Event | CallerCall | CallerQuestion | CallerForm | CallerPage
_OF_CALLER = (CallerCall, CallerQuestion, CallerForm, CallerPage)


class Exchange:
    """A turn; `stop_reason` is None until it has ended, `error` is why it failed."""

    def __init__(
        self,
        conversation: Conversation,
        content: Sequence[ContentBlock],
        *,
        tools: Sequence[CallerTool] = (),
        asks: bool,
        fills: bool = False,
        visits: bool = False,
    ) -> None:
        self.conversation = conversation
        self.tools = tools
        self.stop_reason: str | None = None
        self.error: AccordError | None = None
        self.usage: TokenUsage | None = None
        self.rejected: list[str] = []
        """The permissions that were rejected because nobody could be asked."""
        self._content = content
        self._asks = asks
        self._fills = fills
        self._visits = visits
        self._happened: deque[Happening] = deque()
        self._changed = asyncio.Event()
        self._read = asyncio.Event()
        self._open: dict[str, asyncio.Future[Any]] = {}
        self._slot = _Slot(conversation.sessions.slots)
        self._has_ended = asyncio.Event()
        self._trace = conversation.sessions.tracing.turn(conversation.record.agent)
        self._cancelled_at: float | None = None
        self._task = asyncio.create_task(self._run(), name="accord gateway turn")
        self._task.add_done_callback(self._ended)  # also if it is cancelled before it begins

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens."""
        return self._has_ended.is_set()

    @property
    def is_left(self) -> bool:
        """Whether it was cancelled here. Agents end turns as cancelled, too: after a rejection."""
        return self._cancelled_at is not None

    async def happenings(self) -> AsyncGenerator[Sequence[Happening], None]:
        """Yield what has happened, as it happens, until the turn ends or waits for its caller.

        The caller's calls and questions come at the end: answer them with `answer`.
        """
        until: float | None = None
        loop = asyncio.get_running_loop()
        while not (self.has_ended and not self._happened):
            self._changed.clear()
            if not self._happened:
                try:
                    async with asyncio.timeout_at(until):
                        await self._changed.wait()
                except TimeoutError:
                    return
                continue
            found = [*self._happened]
            self._happened.clear()
            self._read.set()
            if until is None and any(isinstance(one, _OF_CALLER) for one in found):
                until = loop.time() + _GATHER_S
            yield found

    async def _put(self, item: Happening) -> None:
        while len(self._happened) >= _EVENTS:
            self._read.clear()
            try:
                async with asyncio.timeout(self.conversation.sessions.settings.answer_s):
                    await self._read.wait()
            except TimeoutError:  # its caller was asked and has left, and a person has answered
                self.cancel()
                await self._has_ended.wait()
                raise
        self._happened.append(item)
        self._changed.set()

    def answer(self, call_id: str, given: Any) -> None:
        """Give what the caller's tool has returned, or the id of the permission's option.

        A form gets its values, or None; a URL gets whether it is opened.
        """
        waiting = self._open.get(call_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(given)

    def is_open(self, call_id: str) -> bool:
        """Whether a call or a question waits for the caller."""
        waiting = self._open.get(call_id)
        return waiting is not None and not waiting.done()

    @property
    def waits_for_caller(self) -> bool:
        """Whether the caller has read its calls and questions, and has not answered yet."""
        return not self._happened and any(map(self.is_open, self._open))

    async def wait_closed(self, call_id: str) -> None:
        """Wait until a question was answered or withdrawn."""
        waiting = self._open.get(call_id)
        if waiting is not None:
            await asyncio.wait([waiting])

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Let the caller run one of its tools; return what it gives.

        Raises `TimeoutError` if it does not within `answer_s`; the turn is cancelled then.
        """
        call = CallerCall(f"call_{secrets.token_hex(12)}", name, arguments)
        return await self._ask_caller(call.id, call)

    async def _ask_caller(
        self, call_id: str, question: CallerCall | CallerQuestion | CallerForm | CallerPage
    ) -> Any:
        sessions = self.conversation.sessions
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[call_id] = waiting
        sessions.waiting[call_id] = self
        self._slot.rest()
        try:
            await self._put(question)
            async with asyncio.timeout(sessions.settings.answer_s):
                return await waiting
        except TimeoutError:
            log.info("! a caller did not return to its turn: it is cancelled")
            self.cancel()
            raise TimeoutError("The caller did not return a result") from None
        finally:
            del self._open[call_id]
            del sessions.waiting[call_id]
            await self._slot.resume()

    def cancel(self) -> None:
        """Cancel the turn: nobody waits for it any more."""
        if self._cancelled_at is None:
            self._cancelled_at = asyncio.get_running_loop().time()
        self._slot.end()
        self._task.cancel()

    async def wait_ended(self) -> None:
        """Wait until the turn has ended, which is bounded after `cancel`."""
        await self._has_ended.wait()

    async def _run(self) -> None:
        conversation = self.conversation
        try:
            # In this order: a turn that resumes needs a slot, and holds its session.
            async with conversation.order, self._slot:
                conversation.sessions.check_running()
                conversation.running = self
                await conversation.prepare(self.tools)
                await self._prompt()
        except asyncio.CancelledError:
            self.stop_reason = "cancelled"
        except AccordError as error:
            self.error = error
            conversation.has_failed = True
        except Exception as error:
            log.exception("! a turn failed")
            self.error = GatewayError(f"Internal error: {type(error).__name__}", status=500)
        finally:
            if conversation.running is self:
                conversation.running = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self.stop_reason = "cancelled"
        self._trace.end(self.stop_reason, self.error)
        self.conversation.exchanges.discard(self)
        self._has_ended.set()
        self._changed.set()

    async def _prompt(self) -> None:
        shared = await self.conversation.connected(self._asks, self._fills, self._visits)
        # The journal has it, and callers have read it.
        forget_items(shared.session.transcript, 0)
        turn = shared.session.prompt(
            *self._content, meta=self._trace.meta, cancel_timeout_s=_CANCEL_S
        )
        try:
            async with turn:
                async for event in turn:
                    await self._put(event)
        finally:
            since = self._cancelled_at
            hangs = since is not None and asyncio.get_running_loop().time() - since > _HANGS_S
            if turn.error is not None or hangs:
                self.conversation.has_failed = True
        self.stop_reason, self.usage = turn.stop_reason, turn.token_usage

    async def decide(self, request: PermissionRequest) -> Decision:
        """Decide a permission that no rule decides: the caller does, or it is rejected."""
        if self._asks:
            question = CallerQuestion(f"call_{secrets.token_hex(12)}", request)
            with suppress(TimeoutError):
                chosen = await self._ask_caller(question.id, question)
                # An empty result is not a choice, although agents may send an empty id.
                for name in ("id", "kind") if chosen else ():
                    for option in request.options:
                        if chosen == getattr(option, name):
                            return option
                return "reject"
        self.rejected.append(request.title or request.command or "an action")
        return "reject"

    async def fill(self, form: ElicitationForm) -> FormValues | None:
        """Return the values that the caller gives for a form; None if it declines."""
        question = CallerForm(f"call_{secrets.token_hex(12)}", form)
        with suppress(TimeoutError):
            return await self._ask_caller(question.id, question) if self._fills else None
        return None

    async def visit(self, page: UrlElicitationRequest) -> bool:
        """Return whether the user at the caller opens a URL."""
        question = CallerPage(f"call_{secrets.token_hex(12)}", page)
        with suppress(TimeoutError):
            return self._visits and bool(await self._ask_caller(question.id, question))
        return False


class _Slot:
    """One of the turns at the same time; it is free while the turn rests, to ask its caller."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._taking = asyncio.Lock()
        self._rests = 0
        self._is_held = False
        self._over = asyncio.Event()

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        self._is_held = True

    async def __aexit__(self, *_: object) -> None:
        self.end()
        self._free()

    def end(self) -> None:
        """Take no slot again: the turn ends."""
        self._over.set()

    def _free(self) -> None:
        if self._is_held:
            self._is_held = False
            self._slots.release()

    def rest(self) -> None:
        """Free the slot until `resume` was called as often."""
        self._rests += 1
        self._free()

    async def resume(self) -> None:
        """Take a slot again when one is free, unless the turn ends."""
        self._rests -= 1
        async with self._taking:
            if self._rests or self._is_held or self._over.is_set():
                return
            taking = asyncio.ensure_future(self._slots.acquire())
            over = asyncio.ensure_future(self._over.wait())
            try:
                await asyncio.wait([taking, over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._is_held = taking.done()
                taking.cancel()
                over.cancel()
                if self._rests or self._over.is_set():
                    self._free()


class _Link:
    """A connection to the owner of a session; its task leaves it in the end."""

    def __init__(self, conversation: Conversation) -> None:
        self.answers: tuple[bool, bool, bool] | None = None  # see `connected`
        self._conversation = conversation
        self._ready: asyncio.Future[SharedSession] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="accord gateway session")

    @property
    def has_ended(self) -> bool:
        return self._task.done() or self._stop.is_set()

    @property
    def transcript(self) -> Transcript | None:
        ready = self._ready
        is_open = ready.done() and not ready.cancelled() and ready.exception() is None
        return ready.result().session.transcript if is_open else None

    async def ready(self) -> SharedSession:
        """Return the session when it is open. Raises what `joined_session` raises."""
        return await asyncio.shield(self._ready)

    async def wait_ended(self, timeout_s: float) -> None:
        await asyncio.wait([self._task], timeout=timeout_s)

    @property
    def commands(self) -> Sequence[AvailableCommand]:
        is_open = self._ready.done() and not self._ready.cancelled() and not self._ready.exception()
        return self._ready.result().session.transcript.commands if is_open else ()

    async def aclose(self) -> None:
        self._stop.set()
        await asyncio.wait([self._task], timeout=_LEAVE_S)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        conversation = self._conversation
        store = conversation.sessions.store
        try:
            conversation.renew_rules()
            async with conversation.sessions.starting(conversation.record.agent):
                opened = await transport_to(conversation.record, store)
            record = conversation.record = store.read(conversation.id)
            async with joined_session(
                record,
                opened,
                client_name="gateway",
                follows="own",
                permissions=conversation.decide,
                on_elicit_form=conversation.fill,
                on_elicit_url=conversation.visit,
            ) as shared:
                self._ready.set_result(shared)
                ended = asyncio.ensure_future(shared.agent.remote.connection.wait_ended())
                stop = asyncio.ensure_future(self._stop.wait())
                try:
                    await asyncio.wait([ended, stop], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    ended.cancel()
                    stop.cancel()
        except AccordError as error:
            if self._ready.done():
                log.debug("= a session has ended: %s", error)
            else:
                self._ready.set_exception(error)
                self._ready.exception()  # somebody may have stopped waiting
        finally:
            if not self._ready.done():
                self._ready.cancel()


class Conversation:
    """A session of an agent, for one caller after another."""

    def __init__(self, sessions: AgentSessions, record: Record) -> None:
        self.sessions = sessions
        self.record = record
        self.order = asyncio.Lock()
        self.running: Exchange | None = None
        self.exchanges: set[Exchange] = set()  # that run or wait
        self.used = 0.0
        self.has_failed = False  # the last turn: its agent may have ended
        self._tools: CallerTools | None = None
        self._link: _Link | None = None

    @property
    def id(self) -> str:
        """The id of the session, also for `accord session`."""
        return self.record.id

    @property
    def requests(self) -> int:
        """How many run or wait."""
        return len(self.exchanges)

    def move_on(self) -> None:
        """Cancel the turn that waits for its caller only, which says something else instead."""
        if self.waits_for_caller and self.running is not None:
            self.running.cancel()

    @property
    def waits_for_caller(self) -> bool:
        """Whether nothing can happen until the caller answers."""
        return self.running is not None and self.running.waits_for_caller

    @property
    def commands(self) -> Sequence[AvailableCommand]:
        """The slash commands of the agent, as far as it has told them to this connection."""
        return () if self._link is None else self._link.commands

    def start(
        self,
        content: Sequence[ContentBlock],
        *,
        tools: Sequence[CallerTool] = (),
        asks: bool = False,
        fills: bool = False,
        visits: bool = False,
    ) -> Exchange:
        """Start a turn, or let it wait for the one that is running.

        With `tools`, the agent may call them; with `asks`, permissions that no rule decides are
        questions to the caller; with `fills` so are forms, with `visits` URLs for the user.
        Raises `GatewayError` if too many requests wait.
        """
        self.sessions.check_free()
        if self.requests > self.sessions.settings.waiting:
            raise GatewayError(
                f"{self.requests} requests wait for the session {self.id}: try again later",
                status=429,
                code="session_busy",
            )
        self.used = asyncio.get_running_loop().time()
        exchange = Exchange(self, content, tools=tools, asks=asks, fills=fills, visits=visits)
        self.exchanges.add(exchange)
        return exchange

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> object:
        if self.running is None:
            raise LookupError("No request of the caller is running")
        return await self.running.call(name, arguments)

    async def connected(
        self, decides: bool = False, fills: bool = False, visits: bool = False
    ) -> SharedSession:
        """Return the session, connected to its owner, which is started if there is none."""
        if self.has_failed and self._link is not None:
            await self._link.wait_ended(_DIES_S)
            await self._unlink()
        self.has_failed = False
        await self.sessions.make_room(self)
        link = self._link  # others may leave it meanwhile
        if link is None or link.has_ended:
            link = self._link = _Link(self)
        try:
            try:
                shared = await link.ready()
            except TransportError:  # an owner that was about to end
                link = self._link = _Link(self)
                shared = await link.ready()
        except AccordError:
            if self._tools is not None:  # they may be why: the next turn may have none
                await self._tools.aclose()
                self._tools = None
            raise
        if (answers := (decides, fills, visits)) != link.answers:
            rules = self.sessions.settings.approvals
            settings = {
                "name": "gateway",
                "decides": decides,
                "fills": fills,
                "visits": visits,
                "follows": "own",
                # Not those of the session: it may be older than the rules of this gateway.
                "approvals": {"allow": rules.allow, "deny": rules.deny, "yes": rules.yes},
            }
            await shared.agent.call_extension(f"{CALL}client", settings)
            link.answers = answers
        self.sessions.learn_models(self.record, shared.session.transcript.options)
        return shared

    def renew_rules(self) -> None:
        """Give the next owner the rules of this gateway, for what the agent does between turns."""
        approvals = self.sessions.settings.approvals
        if self.record.approvals != approvals and not has_owner(self.id):
            self.record = self.sessions.store.change(self.id, approvals=approvals)

    async def decide(self, request: PermissionRequest) -> Decision:
        """Decide a permission request of the running turn."""
        return "reject" if self.running is None else await self.running.decide(request)

    async def fill(self, form: ElicitationForm) -> FormValues | None:
        """Let the caller of the running turn fill in a form."""
        return None if self.running is None else await self.running.fill(form)

    async def visit(self, page: UrlElicitationRequest) -> bool:
        """Return whether the user at the caller of the running turn opens a URL."""
        return self.running is not None and await self.running.visit(page)

    async def whole_transcript(self) -> Transcript:
        """Return the transcript of the session. Raises `SessionsError` if it cannot be loaded."""
        record = self.record
        store = self.sessions.store
        async with joined_session(
            record, await transport_to(record, store), client_name="gateway", replay=True
        ) as shared:
            return shared.session.transcript

    @property
    def transcript(self) -> Transcript | None:
        """The transcript since the session was connected; None if it is not."""
        return None if self._link is None else self._link.transcript

    async def _unlink(self) -> None:
        if self._link is not None:
            await self._link.aclose()
            self._link = None

    async def prepare(self, tools: Sequence[CallerTool]) -> None:
        """Offer the tools of the caller to the agent.

        Its session opens again if it does not know the server with the tools, or has seen others.
        """
        if self._tools is None:
            if not tools:
                return
            self._tools = CallerTools(self.sessions.folder / f"{self.id}.mcp.json", self._call)
        self._tools.offered = {tool.name: tool for tool in tools}
        if self._tools.is_open and not self._tools.is_outdated:
            return
        await self._unlink()
        if not self._tools.is_open:
            await self._tools.open()
            file = str(self._tools.file)
            others = [one for one in self.record.mcp_files if one != file]
            self.record = self.sessions.store.change(self.id, mcp_files=(*others, file))
        await self._stop_owner()
        self._tools.seen = None

    async def leave_agent(self) -> bool:
        """Leave the session. End its agent if no other client uses it; the session stays."""
        async with self.order:
            if self.requests:
                return False
            await self._unlink()
            return await self._stop_owner(if_unused=True)

    async def _stop_owner(self, *, if_unused: bool = False) -> bool:
        """End the process that has the agent; the next one opens the session again."""
        opened = await running_owner(self.record)
        if opened is None:
            return True
        fd = opened.detach()
        from accord.transports.stdio import PipeTransport

        with suppress(AccordError, TimeoutError):
            async with (
                asyncio.timeout(10),
                joined_session(self.record, PipeTransport(fd, fd)) as shared,
            ):
                if if_unused:
                    status = await shared.status()
                    if status.queue or len(status.clients) > 1:
                        return False
                await shared.agent.call_extension(f"{CALL}stop")
                await shared.agent.remote.connection.wait_ended()
        return True

    async def aclose(self) -> None:
        """Cancel what runs or waits, leave the session, and stop serving the caller's tools.

        The next turn opens it again.
        """
        ending = [*self.exchanges]
        for exchange in ending:
            exchange.cancel()
        for exchange in ending:
            await exchange.wait_ended()
        await self._unlink()
        if self._tools is not None:
            await self._tools.aclose()


class AgentSessions:
    """The sessions of the agents that a gateway offers."""

    def __init__(self, agents: Mapping[str, NamedAgent], settings: GatewaySettings) -> None:
        self.agents = agents
        self.settings = settings
        self.store = Store()
        self.folder: Path = self.store.folder / "gateway"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.tracing = Tracing()
        self.slots = asyncio.Semaphore(settings.turns)
        self.waiting: dict[str, Exchange] = {}
        """The exchanges that wait for their callers, by the ids of calls."""
        self._open: dict[str, Conversation] = {}
        self._agents: dict[str, Record] = {}  # that may run, those used last at the end
        self._making_room = asyncio.Lock()
        self._starting: dict[str, asyncio.Semaphore] = {}
        self._warm: dict[str, deque[Conversation]] = {}
        self._warming: set[asyncio.Task[None]] = set()
        self._models: dict[tuple[str, ...], tuple[str, ...]] = {}  # by the commands of agents
        self._tidying: asyncio.Task[None] | None = None
        self._has_ended = False
        self.at_end: list[Callable[[], Awaitable[None]]] = []
        """What protocols do after the last turn, before the database is closed."""
        self.database: sqlite3.Connection = _open_database(self.folder / "gateway.db")
        """What has to survive the gateway; only this user can read it."""
        self._heads = _Heads(self.database)

    async def new(
        self,
        agent: str,
        principal: Principal,
        *,
        model: str | None = None,
        cwd: str | None = None,
    ) -> Conversation:
        """Return a new session, which may be warm; else its agent starts with the first turn.

        Raises `GatewayError` if too many turns run or wait, or for a wrong directory.
        """
        self.check_free()
        pool = self._warm.get(agent)
        if pool and model is None and cwd is None:
            conversation = pool.popleft()
            self._heads.put(conversation.id, agent, principal.name, b"")
            # Not now: the turn that begins needs the processors.
            asyncio.get_running_loop().call_later(_REFILL_S, self._refill, agent)
            return self._keep(conversation)
        conversation = self._new(agent, self._directory(cwd), model)
        self._heads.put(conversation.id, agent, principal.name, b"")
        return self._keep(conversation)

    def learn_models(self, record: Record, options: Sequence[SessionOption]) -> None:
        """Note the models that an agent offers in a session."""
        option = option_of(options, "model")
        if isinstance(option, SelectOption):
            self._models[record.argv] = tuple(choice.value for choice in option.choices)

    def models_of(self, agent: str) -> tuple[str, ...]:
        """Return the models of an agent, as its last session offered them; empty before that."""
        return self._models.get(self.agents[agent].argv, ())

    def check_running(self) -> None:
        """Raise `GatewayError` if the gateway ends."""
        if self._has_ended:
            raise GatewayError("The gateway ends", status=503, code="gateway_ends")

    def check_free(self) -> None:
        """Raise `GatewayError` if no turn can be started."""
        self.check_running()
        settings = self.settings
        if self.running_turns >= 4 * settings.turns + settings.waiting:
            raise GatewayError(
                f"{self.running_turns} requests run or wait: try again later",
                status=429,
                code="gateway_busy",
            )

    async def make_room(self, wanted: Conversation) -> None:
        """End agents that are not used, so that one more may run; note that it does."""
        async with self._making_room:
            self._agents.pop(wanted.id, None)
            for session_id, record in [*self._agents.items()]:
                if len(self._agents) < self.settings.agents:
                    break
                if not has_owner(session_id):
                    self._agents.pop(session_id, None)
                    continue
                if any(one.id == session_id for pool in self._warm.values() for one in pool):
                    continue
                old = self._open.get(session_id) or self._keep(Conversation(self, record))
                if old.requests or old.order.locked():
                    continue
                if await old.leave_agent():
                    self._agents.pop(session_id, None)
            self._agents[wanted.id] = wanted.record

    def _new(self, agent: str, cwd: Path, model: str | None = None) -> Conversation:
        record = new_record(
            f"gateway {secrets.token_hex(4)}",
            cwd,
            self.agents[agent],
            model=model,
            approvals=self.settings.approvals,
            ttl_s=self.settings.idle_s,
        )
        self.store.write(record)
        return Conversation(self, record)

    def find(self, session_id: str, principal: Principal) -> Conversation:
        """Return the conversation of a session.

        Raises `GatewayError` if there is none that was made here for this principal (R-SEC-05),
        or it works in a directory that the settings do not allow any more.
        """
        found = self._open.get(session_id)
        try:
            if found is None and not Store.is_id(session_id):
                raise StoreError("not an id")
            record = self.store.read(session_id)  # a person may have closed it
        except SessionsError:
            record = None
        owner = self._heads.principal_of(session_id)
        if (
            record is None
            or owner is None
            or not (principal.all_sessions or owner == principal.name)
        ):
            raise GatewayError(
                f"Unknown session {session_id[:80]!r}", status=404, code="session_not_found"
            )
        if record.closed or not any(record.argv == one.argv for one in self.agents.values()):
            raise GatewayError(
                f"The session {session_id} is closed, or of an agent that is not offered here",
                status=404,
                code="session_not_found",
            )
        if found is not None:
            return found
        if not self._is_allowed(record):
            raise GatewayError(
                f"The session {session_id} works in a directory that is not allowed here",
                status=403,
                code="directory_not_allowed",
            )
        return self._keep(Conversation(self, record))

    def _is_allowed(self, record: Record) -> bool:
        """Whether a session of now could work where this one does."""
        settings, real = self.settings, Path(record.cwd).resolve()
        if any(real.is_relative_to(root.resolve()) for root in settings.roots):
            return True
        if settings.scratch:
            return real.parent == self.folder.resolve()
        return real == settings.cwd.resolve()

    def waiting_for(self, call_id: str, principal: Principal) -> Exchange | None:
        """Return the exchange that waits for this call's result, if it is of this principal."""
        exchange = self.waiting.get(call_id)
        if exchange is None or not exchange.is_open(call_id):
            return None
        try:
            self.find(exchange.conversation.id, principal)
        except GatewayError:
            return None
        return exchange

    def made_for(self, principal: Principal, limit: int) -> list[Record]:
        """Return the sessions that were made here for a principal, those used last first."""
        found: list[Record] = []
        for session_id in self._heads.sessions_of(
            None if principal.all_sessions else principal.name
        ):
            with suppress(SessionsError):
                record = self.store.read(session_id)
                if not record.closed and self._is_allowed(record):
                    found.append(record)
            if len(found) == limit:
                break
        return found

    def _keep(self, conversation: Conversation) -> Conversation:
        conversation.used = asyncio.get_running_loop().time()
        self._open[conversation.id] = conversation
        if self._tidying is None:
            self._tidying = asyncio.create_task(self._tidy(), name="accord gateway tidy")
        return conversation

    async def _tidy(self) -> None:
        """Leave sessions that are not used."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_FORGET_S / 4)
            for old in [*self._open.values()]:
                if old.requests or loop.time() - old.used <= _FORGET_S:
                    continue
                async with old.order:
                    if not old.requests:
                        await old.aclose()
                if not old.requests:
                    self._open.pop(old.id, None)

    def starting(self, agent: str) -> asyncio.Semaphore:
        """Return what bounds the starts of an agent: of many at once, none would be soon ready."""
        return self._starting.setdefault(agent, asyncio.Semaphore(_STARTS))

    # Sessions that are started before they are needed.

    def start_warm(self) -> None:
        """Start the sessions that the settings want to be ready."""
        for agent in self.agents if self.settings.warm else ():
            self._refill(agent)

    def _refill(self, agent: str) -> None:
        if self._has_ended:
            return
        pool = self._warm.setdefault(agent, deque())
        while len(pool) < self.settings.warm:
            conversation = self._new(agent, self._directory(None))
            pool.append(conversation)
            task = asyncio.create_task(
                self._warm_up(pool, conversation), name="accord gateway warm"
            )
            self._warming.add(task)
            task.add_done_callback(self._warming.discard)

    async def _warm_up(self, pool: deque[Conversation], conversation: Conversation) -> None:
        try:
            await conversation.connected()
            compile_types(conversation.record.protocol or 1)
        except AccordError as error:
            if conversation not in pool:
                return  # it is a caller's, whose turn may have ended the connection: for its tools
            pool.remove(conversation)
            log.warning("! the agent %s could not be started: %s", conversation.record.agent, error)
            await self._discard(conversation)

    async def _discard(self, conversation: Conversation) -> None:
        """Close a session that had no turn, and delete it."""
        with suppress(AccordError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_LEAVE_S):
                await (await conversation.connected()).close()
        await conversation.aclose()
        self._agents.pop(conversation.id, None)
        with suppress(TimeoutError):  # the owner writes the record when it ends
            async with asyncio.timeout(_LEAVE_S):
                while has_owner(conversation.id):  # noqa: ASYNC110  # it is another process
                    await asyncio.sleep(_PAUSE_S)
        with suppress(StoreError):
            self.store.delete(conversation.id)

    async def look(self, agent: str) -> tuple[Implementation, Sequence[AvailableCommand]]:
        """Start an agent for a moment; return its name, its version and its commands.

        Raises `AccordError` or `TimeoutError` if it cannot be started.
        """
        conversation = self._new(agent, self.settings.cwd)
        try:
            shared = await conversation.connected()
            with suppress(TimeoutError):  # agents send their commands after the session is open
                async with asyncio.timeout(_COMMANDS_S), shared.session.events() as events:
                    while not shared.session.transcript.commands:
                        await anext(events)
            return shared.agent.info, shared.session.transcript.commands
        finally:
            await self._discard(conversation)

    def _directory(self, wanted: str | None) -> Path:
        """Return where a new session works. Raises `GatewayError` for a place outside the roots."""
        settings = self.settings
        if wanted is None:
            if not settings.scratch:
                return settings.cwd
            return Path(tempfile.mkdtemp(prefix="session-", dir=self.folder))
        path = Path(wanted)
        allowed = [root.resolve() for root in settings.roots]
        try:
            real = path.resolve() if path.is_absolute() else None
            is_below = real is not None and any(real.is_relative_to(root) for root in allowed)
            is_directory = is_below and real is not None and real.is_dir()
        except (OSError, RuntimeError, ValueError):  # too long, a circle of links, or a NUL
            raise GatewayError(
                f"The directory {wanted[:200]!r} is not a path of this machine",
                code="no_directory",
                param="cwd",
            ) from None
        if real is None or not is_below:
            below = ", ".join(map(os.fspath, allowed)) or "no directory"
            raise GatewayError(
                f"The directory must be an absolute path below {below}, got {wanted[:200]!r}",
                status=403 if real is not None else 400,
                code="directory_not_allowed",
                param="cwd",
            )
        if not is_directory:
            raise GatewayError(
                f"There is no directory {wanted[:200]!r}", code="no_directory", param="cwd"
            )
        return real

    # Conversations that are found by what was said in them.

    def continued(self, agent: str, principal: Principal, head: bytes) -> Conversation | None:
        """Return the conversation whose transcript ends with `head`, a hash of it."""
        for session_id in self._heads.find(agent, principal.name, head):
            with suppress(GatewayError):
                conversation = self.find(session_id, principal)
                if not conversation.requests or conversation.waits_for_caller:
                    return conversation
        return None

    def remember(
        self, conversation: Conversation, agent: str, principal: Principal, head: bytes
    ) -> None:
        """Note where the transcript of a conversation ends."""
        self._heads.put(conversation.id, agent, principal.name, head)

    async def cancel_all(self, timeout_s: float) -> None:
        """Let turns that run end for at most `timeout_s` seconds; then cancel them.

        Those that wait do not begin.
        """
        self._has_ended = True
        running = [one.running for one in self._open.values() if one.running is not None]
        if running:
            waits = [asyncio.ensure_future(one.wait_ended()) for one in running]
            await asyncio.wait(waits, timeout=timeout_s)
        if self._tidying is not None:
            self._tidying.cancel()
        for task in self._warming:
            task.cancel()
        unused = [one for pool in self._warm.values() for one in pool]
        self._warm.clear()
        await asyncio.gather(*map(self._discard, unused))
        await asyncio.gather(*(one.aclose() for one in self._open.values()))
        for end in self.at_end:
            await end()
        self.database.close()

    @property
    def running_turns(self) -> int:
        """The number of turns that run or wait."""
        return sum(one.requests for one in self._open.values())


def _open_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    path.chmod(0o600)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    return database


class _Heads:
    """For whom each conversation is, and the hash of its transcript."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.executescript(
            "CREATE TABLE IF NOT EXISTS heads (session TEXT PRIMARY KEY, agent TEXT NOT NULL,"
            " principal TEXT NOT NULL, head BLOB NOT NULL, at INTEGER NOT NULL);"
            "CREATE INDEX IF NOT EXISTS by_head ON heads (head);"
            "CREATE INDEX IF NOT EXISTS by_time ON heads (at);"
        )
        self._puts = 0

    def principal_of(self, session: str) -> str | None:
        """Return for whom a session was made."""
        row = self._database.execute(
            "SELECT principal FROM heads WHERE session = ?", (session,)
        ).fetchone()
        return None if row is None else row[0]

    def sessions_of(self, principal: str | None) -> Iterable[str]:
        """Return the sessions of a principal, or of all."""
        rows = self._database.execute(
            "SELECT session FROM heads WHERE ?1 IS NULL OR principal = ?1"
            " ORDER BY at DESC LIMIT 1000",
            (principal,),
        )
        return [row[0] for row in rows]

    def find(self, agent: str, principal: str, head: bytes) -> Iterable[str]:
        rows = self._database.execute(
            "SELECT session FROM heads WHERE head = ? AND agent = ? AND principal = ?"
            " ORDER BY at DESC LIMIT 4",
            (head, agent, principal),
        )
        return [row[0] for row in rows]

    def put(self, session: str, agent: str, principal: str, head: bytes) -> None:
        self._database.execute(
            "INSERT INTO heads (session, agent, principal, head, at) VALUES (?, ?, ?, ?,"
            " (SELECT coalesce(max(at), 0) + 1 FROM heads))"
            " ON CONFLICT (session) DO UPDATE SET"
            " agent = excluded.agent, head = excluded.head, at = excluded.at",
            (session, agent, principal, head),
        )
        self._puts += 1
        if self._puts % 1000 == 0:
            self._database.execute(
                "DELETE FROM heads WHERE at <= (SELECT max(at) FROM heads) - ?", (_HEADS,)
            )
