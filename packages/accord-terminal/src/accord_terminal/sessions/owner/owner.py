"""The owner of a session: one agent, one session, a queue of prompts, many clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, Raw, UnsetType

from accord.connection.routes import trace
from accord.errors import (
    AccordError,
    AuthRequired,
    CancelTimeout,
    InternalError,
    LocalProtocolError,
    MethodNotFound,
    RequestError,
    ResourceNotFound,
    TransportError,
)
from accord.types.steering import PROMPT_REQUIRED, STEERING, SteeringOutcome, outcome_of
from accord_terminal.sessions.journal import (
    Ended,
    Entry,
    Journal,
    OptionsSet,
    OwnerEnded,
    OwnerStarted,
    Queued,
    Started,
    Steered,
    Updated,
)
from accord_terminal.sessions.owner.questions import Questions
from accord_terminal.sessions.owner.state import Client, OwnerState, Prompt, beginning_of
from accord_terminal.sessions.owner.translate import Forgetting
from accord_terminal.sessions.records import (
    JournalError,
    Record,
    Restored,
    Store,
    StoreError,
    refusal,
)
from accord_terminal.toolkit.session_setup import option_values

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.client.session import SessionView, SubagentSession
    from accord.client.transcript import Transcript
    from accord.client.turn import ClientTurn, Fallback
    from accord.transports.process import ProcessTransport
    from accord.types.content import ContentBlock


log: logging.Logger = logging.getLogger("accord.sessions")

T = TypeVar("T")

_CANCEL_S = 10.0  # for the agent to end a cancelled turn
_DRAIN_S = 1.0  # for the clients to see the end
_MAX_LEVELS = 64  # of subagents
_CLOSE_S = 5.0  # for the agent to close the session
_STEER_S = 45.0  # for the agent to say whether it has a message: longer than clients wait
_ACCEPT_S = 0.1  # in which an owner whose time is over accepts a client that waits


class Owner(OwnerState):
    """Runs the prompts of a session, and forwards what the agent does to its clients."""

    def __init__(self, record: Record, store: Store, journal: Journal) -> None:
        super().__init__(record, journal)
        self.clients: set[Client] = set()
        self.questions: Questions = Questions(self, self.clients)
        self.tells_lost_context = False  # to the next client
        self.journals_updates = False  # not those of a replay
        self.end_reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._store = store
        self._count = 0  # clients
        self._early: list[tuple[str, Raw, Raw | UnsetType]] = []  # before the session was open
        self._closes = False
        self._forgetting = Forgetting()
        self._flushing: asyncio.Handle | None = None  # writes the updates that were collected
        self.transport: ProcessTransport | None = None  # to the agent
        self._turn: ClientTurn | None = None  # the running one
        self._cancelling: asyncio.Task[None] | None = None
        self._hangs = False  # the agent has not ended a turn that was cancelled
        self._steers: set[asyncio.Task[Any]] = set()
        self._syncing: asyncio.Future[None] | None = None
        self._steer_order = asyncio.Lock()
        self._said: list[tuple[tuple[ContentBlock, ...], str]] = []  # in the turn, and by whom
        self._steered: tuple[Client, Steered] | None = None  # at the agent, which has not answered
        self._idle: asyncio.TimerHandle | None = None

    # The journal.

    def add(self, entry: Entry) -> Entry:
        """Write an entry, and then show it; a journal that cannot be written ends the session."""
        if entry.prompt is None and self.queue.running is not None:
            entry.prompt = self.queue.running.id
        self.journal.collect(entry)
        self._flush()
        return entry

    def _flush(self) -> None:
        """Write what was collected, and then show it."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        try:
            self.journal.flush()
        except JournalError as exc:
            self.stop(str(exc))
            raise
        finally:
            for client in self.clients:
                client.wake()

    def _flush_updates(self) -> None:
        self._flushing = None
        with suppress(JournalError):  # the session ends
            self._flush()

    def receive_update(self, session_id: str, update: Raw, meta: Raw | UnsetType) -> None:
        """Take an update of the agent."""
        if not self.journals_updates:
            if session_id != self.record.agent_session:  # a replay: the journal has it
                self._early.append((session_id, Raw(bytes(update)), _copied(meta)))
        elif not self.end_reason.done():
            running = self.queue.running
            self.journal.collect(
                Updated(
                    update=Raw(bytes(update)),
                    session=None if session_id == self.record.agent_session else session_id,
                    meta=_copied(meta),
                    prompt=None if running is None else running.id,
                )
            )
            if self._flushing is None:  # those of one read are written at once
                self._flushing = asyncio.get_running_loop().call_soon(self._flush_updates)
            if self._forgetting.is_due():
                self._forgetting.forget(self._transcripts())

    def _transcripts(self) -> Iterator[Transcript]:
        """Yield the transcripts of the session and of its subagents."""
        yield self.session.transcript
        for session_id in self.session.transcript.subagents:
            with suppress(LocalProtocolError):  # it has been closed
                yield self.session.subagent(session_id).transcript

    def receive_message_id(self, message_id: str) -> None:
        """Take the id that the agent has given to the running prompt (v2)."""
        running = self.queue.running
        if running is not None and not running.started.done():
            running.started.set_result(message_id)

    # Clients.

    def join(self, adapter: ClientAdapter, connection: Any) -> Client:
        """Add a client that has sent `initialize`."""
        self._count += 1
        client = Client(self, adapter, connection, self._count)
        self.clients.add(client)
        self._watch_idle()
        return client

    def has_joined(self) -> None:
        """Tell that a client has opened the session."""
        self.joined.set()
        self.joined = asyncio.Event()
        self._tell_clients()

    def client_names(self) -> list[str]:
        """Return the names of the clients that have opened the session."""
        return [client.name for client in self.clients if client.is_open]

    def _tell_clients(self) -> None:
        for client in self.clients:
            client.tell_clients()

    async def leave(self, client: Client) -> None:
        """Remove a client; its prompts stay, unless it is attached to them (R-NAMED-04)."""
        self.clients.discard(client)
        await client.aclose()
        self._tell_clients()
        for prompt in self.queue.prompts:
            if prompt.attached and prompt.id in client.own_prompts:
                self.cancel(prompt)
        self._watch_idle()

    def _watch_idle(self) -> None:
        """Leave after `ttl_s` seconds without clients and work."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self.clients and not self.queue and self.record.ttl_s > 0:
            loop = asyncio.get_running_loop()  # its clock does not jump
            reason = f"it was not used for {self.record.ttl_s:g} s"

            def leave() -> None:
                # After a sleep, clients may wait to be accepted: they cancel this, too.
                self._idle = loop.call_later(_ACCEPT_S, self.stop, reason)

            self._idle = loop.call_later(self.record.ttl_s, leave)

    # Prompts.

    def submit(
        self, content: tuple[ContentBlock, ...], client: Client, *, detached: bool = False
    ) -> Prompt:
        """Append a prompt of a client to the queue."""
        settings = client.settings
        approvals = self.record.approvals if settings.approvals is None else settings.approvals
        prompt = Prompt(
            content,
            by=client.name,
            approvals=approvals,
            attached=settings.attached and not detached,
            trace=trace(),
        )
        client.own_prompts.add(prompt.id)
        self._enqueue(prompt, detached=detached)
        return prompt

    def _enqueue(self, prompt: Prompt, *, detached: bool) -> None:
        self.add(
            Queued(
                prompt=prompt.id,
                content=self.content_to_wire(prompt.content),
                text=prompt.text,
                by=prompt.by,
                detached=detached,
                approvals=prompt.approvals,
            )
        )
        self.queue.add(prompt)
        self._watch_idle()

    # What is said in a running turn.

    async def pass_steer(
        self, content: tuple[ContentBlock, ...], client: Client, *, starts: bool
    ) -> SteeringOutcome | None:
        """Ask the agent to take a message into the running turn; return the outcome.

        If nothing runs, it becomes a prompt if it `starts` one. It arrives once, and in order,
        also if the client leaves. None if the agent does not report it.
        """

        async def steer() -> SteeringOutcome | None:
            outcome = await self._pass_steer(content, client)
            if outcome == "promptRequired" and starts:
                self.submit(content, client, detached=True)
                return "startedNewTurn"
            return outcome

        return await self._in_order(steer())

    async def steer(
        self, content: tuple[ContentBlock, ...], client: Client, fallback: Fallback
    ) -> dict[str, str]:
        """Say something in the running turn, by what the agent can; return the outcome.

        It arrives once, and in order, also if the client leaves. Raises `ResourceNotFound` if no
        turn is running.
        """
        return await self._in_order(self._steer(content, client, fallback))

    async def _in_order(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this after what other messages need; it is not cancelled with the client's request."""

        async def run() -> T:
            async with self._steer_order:
                return await work

        task = asyncio.create_task(run(), name="accord steer")
        self._steers.add(task)
        task.add_done_callback(self._steer_ended)
        return await asyncio.shield(task)

    def _steer_ended(self, task: asyncio.Task[Any]) -> None:
        self._steers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("! a message for the running turn: %s", error)  # its client may have left

    async def _steer(
        self, content: tuple[ContentBlock, ...], client: Client, fallback: Fallback
    ) -> dict[str, str]:
        if self.queue.running is None:
            raise ResourceNotFound("No turn is running")
        reason, turn = "the agent cannot be steered", self._turn
        if self.agent.supports("steer"):
            match await self._pass_steer(content, client):
                case "injected":
                    return {"outcome": "injected"}
                case "startedNewTurn":
                    return {"outcome": "started", "reason": "the turn had ended"}
                case "promptRequired":
                    reason = "the prompt had ended"
                case None:
                    reason = "the agent does not report whether it has the message"
        elif turn is not None and (fallback == "cancel" or self.agent.version == 2):
            if fallback == "cancel" and self.questions.open_titles:
                reason += ", and a question to the user is open"
            else:
                self._said.append((content, client.name))
                with suppress(LocalProtocolError):  # it has just ended
                    done = await turn.steer(*content, fallback=fallback)
                    self._record_steer(self._steer_entry(content, client, done.outcome), client)
                    return {"outcome": done.outcome, "by": done.by, "reason": done.reason}
        prompt = self.submit(content, client, detached=True)
        return {"outcome": "queued", "by": "session", "reason": reason, "promptId": prompt.id}

    async def _pass_steer(
        self, content: tuple[ContentBlock, ...], client: Client
    ) -> SteeringOutcome | None:
        if self._turn is None:
            return "promptRequired"
        params = {
            "sessionId": self.session.id,
            "prompt": self.content_to_wire(content),
            "_meta": PROMPT_REQUIRED,
        }
        self._steered = client, self._steer_entry(content, client, "injected")
        if client.adapter.version == 1 and self.protocol == 2:
            client.own_messages.append(content)  # which the client shows itself
        try:
            async with asyncio.timeout(_STEER_S):
                outcome = outcome_of(await self.agent.call_extension(STEERING, params))
            if outcome not in ("injected", "startedNewTurn") and content in client.own_messages:
                client.own_messages.remove(content)
            return outcome
        except MethodNotFound:
            return None
        except TimeoutError:
            raise InternalError(
                f"The agent did not say within {_STEER_S:g} seconds whether it has the message"
            ) from None
        finally:
            self._steered = None

    def receive_steered(self, outcome: SteeringOutcome) -> None:
        """Take the outcome of the message, before the updates that follow."""
        if self._steered is not None and outcome != "promptRequired":
            client, entry = self._steered
            entry.outcome = "injected" if outcome == "injected" else "started"
            with suppress(JournalError):  # the session ends
                self._record_steer(entry, client)

    def _steer_entry(
        self, content: tuple[ContentBlock, ...], client: Client, outcome: str
    ) -> Steered:
        return Steered(
            content=self.content_to_wire(content),
            text=beginning_of(content),
            by=client.name,
            outcome=outcome,
        )

    def _record_steer(self, entry: Steered, client: Client) -> None:
        client.own_changes.add(self.journal.next)
        self.add(entry)

    def cancel(self, prompt: Prompt) -> None:
        """Cancel a prompt: the running one at the agent, a waiting one here."""
        if self.queue.withdraw(prompt):
            ended = Ended(prompt=prompt.id, stop_reason="cancelled")
            self.add(ended)
            prompt.end(ended)
        elif prompt is self.queue.running and not prompt.is_cancelled:
            prompt.is_cancelled = True
            self.questions.cancel_all()
            if self._turn is not None:
                self._cancelling = asyncio.create_task(_cancel(self._turn), name="accord cancel")

    def cancel_by(self, client: Client) -> None:
        """Cancel the prompts of a client; if it has none, the running one."""
        own = [prompt for prompt in self.queue.prompts if prompt.id in client.own_prompts]
        running = self.queue.running
        for prompt in own or ([running] if running is not None else []):
            self.cancel(prompt)

    async def cancel_subagent(self, session_id: str) -> None:
        """Cancel a subagent, if there is one of this id and the agent offers it (R-SUBAG-05)."""
        found = _subagent(self.session, session_id, _MAX_LEVELS)
        if found is not None:
            with suppress(AccordError):  # it may have ended
                await found.cancel()

    async def run_prompts(self) -> None:
        """Run the prompts one after another."""
        while True:
            prompt = await self.queue.next()
            ended = await self._run(prompt)
            self.queue.done()
            prompt.end(ended)
            # In a thread: the clients, which have seen the entries, do not wait for the disk.
            loop = asyncio.get_running_loop()
            self._syncing = loop.run_in_executor(None, self.journal.sync)
            self._syncing.add_done_callback(_log_sync)
            self._watch_idle()
            if ended.code == AuthRequired.default_code and self._can_restart():
                self.stop("the agent needs a login, and is started again after it")  # R-AUTH-18
            elif self._hangs and self._can_restart():
                self.stop("the agent did not end a cancelled turn, and is started again")

    def _can_restart(self) -> bool:
        """Return whether a new process of the agent can continue, and no prompt waits."""
        restores = self.agent.supports("load_session") or self.agent.supports("resume_session")
        return restores and not self.queue.prompts

    async def _run(self, prompt: Prompt) -> Ended:
        content = self.content_to_wire(prompt.content)
        self.add(Started(prompt=prompt.id, by=prompt.by, content=content))
        if self.protocol == 1:
            prompt.started.set_result(prompt.id)
        ended = Ended(prompt=prompt.id, stop_reason="error")
        assert self.transport is not None, "the agent has started"
        read = self.transport.stderr_bytes
        self.frames.begin_turn()
        try:
            async with self.session.prompt(
                *prompt.content, cancel_timeout_s=_CANCEL_S, meta=prompt.trace
            ) as turn:
                self._turn = turn
                if prompt.is_cancelled:
                    await turn.cancel()
                ended.stop_reason = await turn.wait()
                if turn.token_usage is not None:
                    ended.tokens = turn.token_usage.total
                    ended.usage = turn.token_usage
        except CancelTimeout as exc:
            ended.error, self._hangs = str(exc), True
        except AuthRequired as exc:
            ended.error, ended.code = refusal(self.record, exc.text), exc.code
        except RequestError as exc:
            ended.error, ended.code = exc.message, exc.code
        except TransportError as exc:
            ended.error = f"The agent has ended: {exc}"
        except AccordError as exc:
            ended.error = str(exc)
        turn, self._turn = self._turn, None
        if ended.error is not None and ended.code != AuthRequired.default_code:
            ended.stderr = (await self.transport.lines_after(read)).stderr
        self.add(ended)
        self._save_options()
        for content in () if turn is None else turn.unsent:  # what was said, and did not arrive
            names = [name for said, name in self._said if content[-len(said) :] == said]
            unsent = Prompt(content, by=(names or [prompt.by])[0], approvals=prompt.approvals)
            self._enqueue(unsent, detached=True)
        self._said.clear()
        return ended

    async def set_option(self, option_id: str, value: str | bool, client: Client) -> None:
        """Set an option of the agent, and tell the other clients."""
        await self.session.set_option(option_id, value)
        entry = OptionsSet(option=option_id, value=value, by=client.name)
        client.own_changes.add(self.journal.next)
        self.add(entry)
        self._save_options()

    def _save_options(self) -> None:
        """Store the values of the options, which the next owner restores."""
        # An option that the agent does not offer now keeps its value: it may come back.
        values = self.record.values | option_values(self.session.transcript.options)
        if values != self.record.values:
            try:
                self.record = self._store.change(self.record.id, values=values)
            except (OSError, StoreError) as exc:
                log.warning("! the values of the options are not stored: %s", exc)

    # Start and end.

    def has_started(self, restored: Restored, details: dict[str, Any]) -> None:
        """Record that the agent has its session."""
        self.add(
            OwnerStarted(
                pid=self.record.owner or 0,
                restored=restored,
                protocol=self.protocol,
                agent=f"{self.agent.info.name} {self.agent.info.version}",
                details=details,
            )
        )
        self.journals_updates = True
        self.tells_lost_context = restored == "lost"
        early, self._early = self._early, []
        if restored in ("new", "lost"):  # else they repeat what the journal has
            for update in early:
                self.receive_update(*update)
        self._watch_idle()

    def requeue(self) -> None:
        """Queue prompts again that no client waited for and that the last owner did not start.

        The turns that were cut off end as failed.
        """
        waiting: dict[str, Queued] = {}
        running: dict[str, Started] = {}
        seq = 0
        while entries := self.journal.after(seq, 1000):
            for entry in entries:
                self.contexts.read(entry)
                match entry:
                    case Queued(prompt=str() as prompt_id):
                        waiting[prompt_id] = entry
                    case Started(prompt=str() as prompt_id):
                        running[prompt_id] = entry
                        waiting.pop(prompt_id, None)
                    case Ended(prompt=str() as prompt_id):
                        waiting.pop(prompt_id, None)
                        running.pop(prompt_id, None)
                    case _:
                        pass
            seq = entries[-1].seq
        for prompt_id in running:
            self._lost(prompt_id)
        for prompt_id, queued in waiting.items():
            if not queued.detached:
                self._lost(prompt_id)
                continue
            content = self.content_from_wire(queued.content)
            self.queue.add(
                Prompt(content, by=queued.by, approvals=queued.approvals, prompt_id=prompt_id)
            )

    def _lost(self, prompt_id: str) -> None:
        error = "The owner of the session has ended"
        self.add(Ended(prompt=prompt_id, stop_reason="error", error=error))

    def close_session(self) -> None:
        """Close the session for all, and leave."""
        self.record = self._store.change(self.record.id, closed=True)
        self._closes = True
        self.stop("the session was closed")

    def stop(self, reason: str) -> None:
        """Leave: `end_reason` has the reason."""
        if not self.end_reason.done():
            self.end_reason.set_result(reason)

    async def finish(self) -> None:
        """End the prompts, and tell the agent if the session was closed."""
        for steer in self._steers:
            steer.cancel()
        reason = self.end_reason.result()
        running = self.queue.running
        unwritten: list[Ended] = []
        for prompt in self.queue.prompts:
            failed = Ended(
                prompt=prompt.id,
                stop_reason="error",
                error=f"The owner of the session has ended: {reason}",
            )
            try:
                self.add(failed)
            except JournalError:
                unwritten.append(failed)
            prompt.end(failed)
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                for client in tuple(self.clients):
                    for failed in unwritten:
                        await client.fail(failed)
        with suppress(AccordError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                if running is not None:
                    await self.session.cancel()
                if self._closes and self.agent.supports("close_session"):
                    await self.session.close()
        with suppress(JournalError):
            self.add(OwnerEnded(reason=reason))
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                for client in tuple(self.clients):
                    await client.wait_for(self.journal.last)
        if self._syncing is not None:
            await asyncio.wait([self._syncing], timeout=_DRAIN_S)


def _subagent(parent: SessionView, session_id: str, levels: int) -> SubagentSession | None:
    """Return a subagent at any level below a session."""
    for child_id in parent.transcript.subagents if levels else ():
        child = parent.subagent(child_id)
        found = child if child_id == session_id else _subagent(child, session_id, levels - 1)
        if found is not None:
            return found
    return None


async def _cancel(turn: ClientTurn) -> None:
    with suppress(AccordError):  # the turn reports it
        await turn.cancel()


def _log_sync(syncing: asyncio.Future[None]) -> None:
    if not syncing.cancelled() and (error := syncing.exception()) is not None:
        log.warning("! the journal may not survive a power failure: %s", error)


def _copied(meta: Raw | UnsetType) -> Raw | UnsetType:
    return UNSET if meta is UNSET else Raw(bytes(meta))
