"""A proxy that keeps any agent within limits, for any client: `accord chain --budget limits.toml`.

`BudgetProxy` counts what each session uses with the meter of `accord.client.budget`. It cancels the
turn that reaches a limit, says so to the user, and decides permission requests by the rules of
`accord.client.limits` before the client is asked.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from accord.client.budget import Budgets, Ledger, SessionMeter
from accord.client.events import PermissionRequest, ToolCall, UsageChanged
from accord.client.limits import Limits, Rules
from accord.errors import BudgetExceeded, InvalidRequest, RequestError, UnmeteredAgent
from accord.proxy.hooks import FileRead, FileWrite, Glance, OpeningSession, ProxyHooks, ProxyTurn
from accord.proxy.proxy import HookStage, Proxy
from accord.proxy.stage import Params, session_id_of
from accord.text import lenient_json

if TYPE_CHECKING:
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, Event
    from accord.proxy.hooks import TerminalStart
    from accord.proxy.stage import Stage
    from accord.transports.base import Frame
    from accord.types.permission import PermissionOption
    from accord.types.session import StopReason
    from accord.types.steering import SteeringOutcome

T = TypeVar("T")

log: logging.Logger = logging.getLogger("accord.proxy.budget")

_TOOL_CALLS = ("tool_call", "tool_call_update", "tool_call_content_chunk")

# The proxy.


class BudgetProxy(Proxy):
    """Keeps the agent of a chain within limits.

    The accounts of sessions and days are in the `ledger`; without one, days are counted in a file
    of this user. With an `account`, all sessions count as one of this name. An agent that does not
    end a cancelled turn within `grace_s` seconds is stopped, and the chain ends.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        ledger: Ledger | None = None,
        account: str | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self._grace_s = grace_s
        self._limits = limits
        self._ledger = ledger
        self._account = account

    def stage(self) -> Stage:
        """Return a stage for one chain, whose sessions are counted apart."""

        def budgets(agent: str, meta: Any) -> Budgets:
            limits = self._limits
            return Budgets(
                limits.budgets,
                agent,
                meta,
                unmetered=limits.unmetered,
                ledger=self._ledger,
                account=self._account,
            )

        return _BudgetStage(_ChainBudget(Rules(self._limits), self._grace_s), budgets)


class _BudgetStage(HookStage):
    """Refuses an agent that does not report what is limited; notes which turns are cancelled."""

    def __init__(self, hooks: _ChainBudget, budgets: Callable[[str, Any], Budgets]) -> None:
        super().__init__(hooks)
        self.name = "BudgetProxy"
        self._hooks = hooks
        self._budgets = budgets

    def edit_initialized(self, result: Raw, version: int) -> Raw:
        edited = super().edit_initialized(result, version)
        value: Any = lenient_json.loads(bytes(result))
        info: Any = value.get("agentInfo" if version == 1 else "info")
        name = info.get("name") if lenient_json.is_object(info) else None
        try:
            self._hooks.budgets = self._budgets(
                name if isinstance(name, str) else "", value.get("_meta")
            )
        except UnmeteredAgent as error:
            raise InvalidRequest(str(error)) from None
        return edited

    def notification_from_client(self, method: str, params: Params) -> None:
        if method == "session/cancel":
            self._hooks.client_cancels(session_id_of(params))
        super().notification_from_client(method, params)


class _Running:
    """The turn of a session: its prompts, and why a limit has ended it."""

    def __init__(self) -> None:
        self.prompts = 0  # in version 2, several
        self.stopped = asyncio.Event()
        self.why = ""
        self.is_told = False  # the client knows why
        self.is_cancelled = False  # by the client
        self.is_cancelling = False  # the agent was told


class _ChainBudget(ProxyHooks):
    """The hooks of one chain."""

    _seen = frozenset((*_TOOL_CALLS, "usage_update"))
    budgets: Budgets

    def __init__(self, rules: Rules, grace_s: float) -> None:
        self._rules = rules
        self._has_rules = bool(rules)
        self._grace_s = grace_s
        self._meters: dict[str, SessionMeter] = {}  # of the sessions that are open
        self._costs: dict[str, float] = {}  # before the session was opened
        self._running: dict[str, _Running] = {}
        self._calls: dict[str, dict[str, ToolCall]] = {}
        self._cwd: dict[str, str] = {}

    def _meter(self, session_id: str) -> SessionMeter:
        if session_id not in self._meters:
            cost = self._costs.pop(session_id, None)
            self._meters[session_id] = self.budgets.meter(session_id, cost)
        return self._meters[session_id]

    async def open_session(
        self, session: OpeningSession, forward: Callable[[], Awaitable[str]]
    ) -> None:
        session_id = await forward()
        self._cwd[session_id] = session.cwd
        if session.action == "new":
            self._costs.setdefault(session_id, 0.0)
        self._meter(session_id)

    async def close_session(self, session_id: str, forward: Callable[[], Awaitable[None]]) -> None:
        await forward()
        self.budgets.drop(session_id)
        for kept in (self._meters, self._costs, self._calls, self._cwd):
            kept.pop(session_id, None)

    # Turns.

    async def prompt(
        self, turn: ProxyTurn, forward: Callable[[], Awaitable[StopReason]]
    ) -> StopReason | None:
        meter = self._meter(turn.session_id)
        running = self._running.get(turn.session_id)
        if running is None:
            running = _Running()
            try:
                meter.begin_turn()
            except BudgetExceeded as error:
                await turn.say(f"{error}.")
                return _stop_reason(meter)
            meter.on_limit = partial(_stop, running)
            self._running[turn.session_id] = running
        elif running.stopped.is_set():
            await turn.say(f"{running.why}: the prompt was not sent.")
            return _stop_reason(meter)
        running.prompts += 1
        work = asyncio.ensure_future(forward())
        failure: RequestError | None = None
        stop_reason: StopReason = "cancelled"
        try:
            stop_reason = await self._watch(turn, meter, running, work)
            meter.end_prompt(turn.token_usage)
        except RequestError as error:
            failure = error
        finally:
            running.prompts -= 1
            if not running.prompts:
                meter.end_turn()
                self._calls.pop(turn.session_id, None)
                self._running.pop(turn.session_id, None)
            if not work.done():
                work.cancel()
        if running.stopped.is_set() and not running.is_told:
            running.is_told = True
            await turn.say(f"\n\n{running.why}. This turn has used {meter.turn}.\n")
        if failure is not None and not running.is_cancelling:
            raise failure
        # Some agents report a cancellation as an error (R-CANCEL-06).
        if stop_reason == "cancelled" and running.stopped.is_set() and not running.is_cancelled:
            return _stop_reason(meter)
        return stop_reason

    def client_cancels(self, session_id: str | None) -> None:
        """Note that the client has cancelled the turn of a session, if one runs."""
        running = self._running.get(session_id or "")
        if running is not None:
            running.is_cancelled = True

    async def steer(
        self, turn: ProxyTurn, forward: Callable[[], Awaitable[SteeringOutcome | None]]
    ) -> SteeringOutcome | None:
        running = self._running.get(turn.session_id)
        if running is None or running.stopped.is_set():
            return "promptRequired"  # a turn that no prompt starts would have no budget
        # Nor would one that begins because the turn ends before the agent has the message.
        meta = turn.meta or {}
        steering = meta.get("steering")
        if not lenient_json.is_object(steering):
            steering = {}
        turn.meta = {**meta, "steering": {**steering, "idleBehavior": "promptRequired"}}
        return await forward()

    async def _watch(
        self,
        turn: ProxyTurn,
        meter: SessionMeter,
        running: _Running,
        work: asyncio.Future[StopReason],
    ) -> StopReason:
        """Wait for the end of the turn; cancel it at a limit, and stop an agent that goes on."""
        stopping = asyncio.ensure_future(running.stopped.wait())
        try:
            while not (work.done() or running.stopped.is_set()):
                left = meter.seconds_left
                await asyncio.wait(
                    (work, stopping),
                    timeout=None if left is None else max(left, 0.01),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                meter.check_time()
        finally:
            stopping.cancel()
        if not work.done():
            if not running.is_cancelling:
                running.is_cancelling = True
                turn.cancel()
            await asyncio.wait((work,), timeout=self._grace_s)
            if not work.done():
                running.why += f". The agent went on for {self._grace_s:g} s, and was stopped"
                log.warning("! %s", running.why)
                turn.stop_agent(running.why)
                return "cancelled"
        return await work

    def _glance(self, session_id: str, update: Glance, text: Frame) -> bool:
        meter = self._meters.get(session_id)
        if meter is None:
            return False
        if update.kind == "usage_update":
            if update.used is None:
                return False
            meter.used(update.used)
            if (cost := update.cost) is not None:
                meter.costs(cost.amount, cost.currency)
            return True
        if not update.tool_call_id or b'"diff"' in text:
            return False
        if self._has_rules and self._has_to_read(session_id, update, text):
            return False
        meter.called(update.tool_call_id)
        return True

    def _has_to_read(self, session_id: str, update: Glance, text: Frame) -> bool:
        """Return whether a report of a tool call says what it touches, or ends one that did."""
        return session_id in self._running and (
            self._rules.have_kinds
            or b'"locations"' in text
            or b'"rawInput"' in text
            or update.tool_call_id in self._calls.get(session_id, ())
        )

    def session_update(self, session_id: str, event: Event) -> Event:
        meter = self._meters.get(session_id)
        if meter is not None:
            meter.on_event(event)
        elif type(event) is UsageChanged and event.usage.cost is not None:
            self._costs[session_id] = event.usage.cost.amount
        if type(event) is ToolCall and self._has_rules:
            self._look_at(session_id, event)
        return event

    def _look_at(self, session_id: str, event: ToolCall) -> None:
        """End the turn of a call that has done what is denied."""
        running = self._running.get(session_id)
        if running is None:
            return
        calls = self._calls.setdefault(session_id, {})
        call = _merged(calls.get(event.id), event)
        calls[event.id] = call
        if call.status != "completed":
            return
        cwd = self._cwd.get(session_id, "/")
        request = PermissionRequest(
            session_id=session_id, cwd=cwd, title=call.title, options=(), tool_call=call
        )
        if (what := self._rules.refusal_of(request)) is not None:
            _stop(running, f"The agent has done what is denied ({what}): its turn was cancelled")

    # Requests of the agent.

    async def _asked(self, session_id: str | None, ask: Awaitable[T], withdrawn: T) -> T:
        """Wait for the user, whose time is not counted; a limit withdraws the question."""
        meter = self._meters.get(session_id or "")
        running = self._running.get(session_id or "")
        asking = asyncio.ensure_future(ask)
        waits: set[asyncio.Future[Any]] = {asking}
        if running is not None:
            waits.add(asyncio.ensure_future(running.stopped.wait()))
        if meter is not None:
            meter.pause()
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return await asking if asking.done() else withdrawn
        finally:
            if meter is not None:
                meter.resume()
            for wait in waits:
                wait.cancel()

    async def decide_permission(
        self,
        request: PermissionRequest,
        forward: Callable[[], Awaitable[PermissionOption | None]],
    ) -> Decision | None:
        running = self._running.get(request.session_id)
        if running is not None and running.stopped.is_set():
            return None
        if self._has_rules and (decision := self._rules.decide(request)) is not None:
            return decision
        return await self._asked(request.session_id, forward(), None)

    async def elicit_form(
        self, form: ElicitationForm, forward: Callable[[], Awaitable[FormValues | None]]
    ) -> FormValues | None:
        return await self._asked(form.session_id, forward(), None)

    async def elicit_url(
        self, request: UrlElicitationRequest, forward: Callable[[], Awaitable[bool]]
    ) -> bool:
        return await self._asked(request.session_id, forward(), withdrawn=False)

    async def read_file(self, request: FileRead, forward: Callable[..., Awaitable[str]]) -> str:
        self._require(request.session_id, paths=(request.path,))
        return await forward()

    async def write_file(self, request: FileWrite, forward: Callable[..., Awaitable[None]]) -> None:
        self._require(request.session_id, paths=(request.path,))
        await forward()
        if (meter := self._meters.get(request.session_id)) is not None:
            meter.wrote(request.path)

    async def start_terminal(
        self, request: TerminalStart, forward: Callable[..., Awaitable[str]]
    ) -> str:
        line = shlex.join((request.command, *request.args))
        # The argument of a shell is a command line, too.
        self._require(request.session_id, paths=(request.command,), lines=(line, *request.args))
        return await forward()

    def _require(
        self, session_id: str, *, paths: Sequence[str] = (), lines: Sequence[str] = ()
    ) -> None:
        running = self._running.get(session_id)
        if running is not None and running.stopped.is_set():
            raise InvalidRequest(running.why)
        cwd = self._cwd.get(session_id, "/")
        for line in (None, *lines):
            what = self._rules.refusal(cwd, paths=paths, line=line)
            if what is not None:
                raise InvalidRequest(f"Denied by the limits of this chain: {what}")


def _stop(running: _Running, why: object) -> None:
    if not running.stopped.is_set():
        running.why = str(why)
        running.stopped.set()


def _stop_reason(meter: SessionMeter) -> StopReason:
    """Return the reason that a client shows for a limit: it has cancelled nothing itself."""
    limit = meter.reached
    return "max_tokens" if limit is not None and limit.name == "tokens" else "max_turn_requests"


def _merged(before: ToolCall | None, event: ToolCall) -> ToolCall:
    """Return a tool call with what an update changes."""
    if before is None or not event.changed:
        return event
    return ToolCall(
        **{
            name: getattr(event if name in event.changed else before, name)
            for name in ToolCall.__struct_fields__
            if name != "changed"
        }
    )
