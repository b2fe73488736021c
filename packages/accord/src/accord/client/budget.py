"""Budgets: what a turn, a session or a day may use, and what they have used.

A `Budget` is a limit, and `Spent` an account. `SessionMeter` counts the events of one session, and
calls `on_limit` when its running turn reaches a limit, so that the turn is cancelled. `Budgets` has
the meters of a connection, of a client (`connect(budget=…)`) or a proxy (`accord.proxy.budget`). A
`SpendingLedger` keeps the account of sessions and days in an SQLite file that processes share.

What is counted: the growth of the cost that the agent reports for its session; the tokens that it
reports at the end of a prompt, and until then its context usage each time it changes, because that
is a request to its model; seconds in which no question to the user is open; tool calls; the files
in diffs, and those that the client writes for the agent.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

from msgspec import Struct

from accord.client.events import Event, ToolCall, UsageChanged
from accord.errors import BudgetExceeded, StoreUnavailable, UnmeteredAgent
from accord.local.state import state_folder
from accord.text.excerpt import excerpt, nearest
from accord.types.session import TokenUsage
from accord.types.tool_calls import Diff
from accord.types.validation import ValidatedStruct, require_types

log: logging.Logger = logging.getLogger("accord.client.budget")

# Limits.

LimitName: TypeAlias = Literal["tokens", "cost", "seconds", "tool_calls", "changed_files"]
Period: TypeAlias = Literal["turn", "session", "day"]

LIMITS: tuple[LimitName, ...] = get_args(LimitName)
PERIODS: tuple[Period, ...] = get_args(Period)
_COUNTED: tuple[LimitName, ...] = (
    "tool_calls",
    "changed_files",
)  # each may be used up; the next one is too many
_REPORTED: tuple[LimitName, ...] = ("tokens", "cost")  # by the agent


class Budget(ValidatedStruct, frozen=True, kw_only=True):
    """What may be used `per` turn, session, or day (UTC); None is unlimited.

    `cost` is in the currency, or in another unit of the agent, such as credits.

    Raises `ValueError` for a limit that is not more than 0, and if there is none.
    """

    tokens: int | None = None
    cost: float | None = None
    currency: str = "USD"
    seconds: float | None = None
    tool_calls: int | None = None
    changed_files: int | None = None
    per: Period = "turn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per not in PERIODS:
            raise ValueError(f"Budget(per=…): expected {_either(PERIODS)}, got {self.per!r}")
        for name in LIMITS:
            value = self.limit(name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(
                    f"Budget({name}=…): expected more than 0, got {value!r}; without a value it is"
                    " unlimited"
                )
        if all(self.limit(name) is None for name in LIMITS):
            raise ValueError(f"Budget(…): expected a limit: {_either(LIMITS)}")

    def limit(self, name: LimitName) -> float | None:
        """Return one limit by its name."""
        return cast("float | None", getattr(self, name))

    @classmethod
    def parse(cls, text: str) -> tuple[Budget, ...]:
        """Return the budgets of a text such as `cost=2 USD, tokens=200k/session, time=10m`.

        Each part is `name=amount`, with `/session` or `/day` if it is not for each turn. Raises
        `ValueError`, which says what is expected, for anything else.
        """
        found: dict[Period, dict[str, Any]] = {}
        for part in text.split(","):
            name, equals, amount = part.partition("=")
            amount, slash, period = amount.partition("/")
            per = period.strip() if slash else "turn"
            if not equals or per not in PERIODS:
                raise ValueError(
                    f"Expected parts such as cost=2, tokens=200k/session or time=10m/day, got"
                    f" {excerpt(repr(part.strip()), 60)}"
                )
            fields = found.setdefault(per, {})
            for field, value in parse_limit(name, amount).items():
                if field in fields:
                    raise ValueError(f"Expected one limit of {field} for each {per}, got two")
                fields[field] = value
        return tuple(cls(**fields, per=per) for per, fields in found.items())


_NAMES: dict[str, LimitName] = {
    "tokens": "tokens", "cost": "cost", "seconds": "seconds", "time": "seconds",
    "tool_calls": "tool_calls", "tools": "tool_calls",
    "changed_files": "changed_files", "files": "changed_files",
}  # fmt: skip
_AMOUNT = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*(\S.*)?")
_TIMES = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6}
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP"}


def parse_limit(name: str, value: object) -> dict[str, Any]:
    """Return the fields of `Budget` for one limit, such as `cost` and `2 USD`.

    Raises `ValueError`, which says what is expected, for an unknown name, amount or unit.
    """
    key = name.strip().replace("-", "_")
    field = _NAMES.get(key)
    if field is None:
        near = nearest(key, _NAMES)
        meant = "" if near is None else f"; did you mean {near}?"
        raise ValueError(
            f"Unknown limit {excerpt(repr(name.strip()), 60)}: expected {_either(LIMITS)}{meant}"
        )
    text = str(value).strip()
    sign, rest = (text[:1], text[1:]) if text[:1] in _SIGNS else ("", text)
    matched = _AMOUNT.fullmatch(rest.strip())
    if isinstance(value, bool) or matched is None:
        raise ValueError(_amount_error(field, text))
    amount, unit = float(matched[1].replace("_", "")), (matched[2] or "").strip()
    if amount <= 0:
        raise ValueError(f"{field}={excerpt(text, 40)}: expected more than 0")
    if field == "cost":
        return {"cost": amount, "currency": _SIGNS[sign] if sign else unit or "USD"}
    scale = (_TIMES if field == "seconds" else _COUNTS).get(unit.lower())
    if sign or scale is None:
        raise ValueError(_amount_error(field, text))
    whole = amount * scale
    if field == "seconds":
        return {field: whole}
    if whole != int(whole):
        raise ValueError(f"{field}={excerpt(text, 40)}: expected a whole number")
    return {field: int(whole)}


def _amount_error(field: LimitName, text: str) -> str:
    expected = {
        "cost": "an amount such as 2 USD or $2",
        "seconds": "a time such as 90s, 10m or 1h",
    }.get(field, "a number such as 50 or 200k")
    return f"{field}={excerpt(text, 40)}: expected {expected}"


def budgets_of(where: str, given: object) -> tuple[Budget, ...]:
    """Return the budgets that a program gives: one, several, or None."""
    if given is None:
        return ()
    if isinstance(given, Budget):
        return (given,)
    return tuple(cast("list[Budget]", require_types(where, given, Budget)))


# What was used.


class Spent(Struct, frozen=True, kw_only=True):
    """What was used, as far as the agent reports it; None where it reports nothing.

    `is_estimate` is whether the tokens are counted by the context usage, because the agent has
    not reported them.
    """

    tokens: int | None = None
    cost: float | None = None
    currency: str | None = None
    seconds: float = 0.0
    tool_calls: int = 0
    changed_files: int = 0
    is_estimate: bool = False

    def __str__(self) -> str:
        about = "about " if self.is_estimate else ""
        parts = [] if self.tokens is None else [f"{about}{shown('tokens', self.tokens)}"]
        if self.cost is not None:
            parts.append(shown("cost", self.cost, self.currency or "USD"))
        parts.append(shown("seconds", self.seconds))
        counts: list[tuple[LimitName, int]] = [
            ("tool_calls", self.tool_calls),
            ("changed_files", self.changed_files),
        ]
        parts += [shown(name, count) for name, count in counts if count]
        return ", ".join(parts)


class LimitReached(Struct, frozen=True, kw_only=True):
    """The limit of a budget that was reached, and what was spent at that moment."""

    name: LimitName
    per: Period
    spent: float
    allowed: float
    unit: str = ""
    """The currency of a cost."""
    reason: str = ""
    """Why it counts as reached, if what is spent cannot be compared."""

    def __str__(self) -> str:
        limit = shown(self.name, self.allowed, self.unit)
        if self.reason:
            return f"Limit of the {self.per} ({limit}): {self.reason}"
        used = shown(self.name, self.spent, self.unit)
        return f"Limit of the {self.per} reached: {used} of {limit}"


def shown(name: LimitName, amount: float, unit: str = "") -> str:
    """Return an amount for people, such as `1,200 tokens` or `0.25 USD`."""
    match name:
        case "cost":
            digits = 2 if amount >= 0.1 or amount == 0 else 4
            return f"{amount:,.{digits}f} {excerpt(unit, 20)}"
        case "seconds":
            return f"{amount:,.0f} s" if amount >= 10 else f"{amount:,.1f} s"
        case _:
            noun = name.replace("_", " ")
            return f"{amount:,.0f} {noun.removesuffix('s') if amount == 1 else noun}"


# The account of sessions and days, which outlives the process.


class Ledger(Protocol):
    """Keeps accounts; a key names a session, or a principal and a day."""

    principal: str
    """The user whose days are counted."""

    def read(self, key: str) -> Mapping[str, float]:
        """Return the amounts of an account by their names; empty if there is none."""
        ...

    def add(self, amounts: Iterable[tuple[str, str, float]]) -> None:
        """Add amounts to accounts, each by key and name; all are kept, or none."""
        ...


_LEDGER = """
CREATE TABLE IF NOT EXISTS spent (
    key TEXT NOT NULL, name TEXT NOT NULL, amount REAL NOT NULL, PRIMARY KEY (key, name)
) WITHOUT ROWID
"""
_ADD = """
INSERT INTO spent VALUES {rows}
ON CONFLICT DO UPDATE SET amount = amount + excluded.amount
"""


class SpendingLedger:
    """Accounts in an SQLite file, which several processes may share.

    What was added survives a kill of the process. `principal` is the user whose days are counted.
    Only its owner can read the file. Raises `StoreUnavailable` for a file that cannot be read or
    written, or that is locked for 5 s.
    """

    def __init__(self, path: str | Path | None = None, *, principal: str = "") -> None:
        self.path: Path = default_ledger() if path is None else Path(path)
        self.principal: str = principal
        self._opened: sqlite3.Connection | None = None

    @contextmanager
    def _db(self) -> Generator[sqlite3.Connection, None, None]:
        try:
            if self._opened is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
                db = sqlite3.connect(self.path, timeout=5.0, isolation_level=None)
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=NORMAL")
                db.execute(_LEDGER)
                self._opened = db
            yield self._opened
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(
                f"The accounts in {self.path} cannot be used: {error}"
            ) from error

    def read(self, key: str) -> Mapping[str, float]:
        with self._db() as db:
            return dict(db.execute("SELECT name, amount FROM spent WHERE key = ?", (key,)))

    def add(self, amounts: Iterable[tuple[str, str, float]]) -> None:
        rows = list(amounts)
        if rows:
            statement = _ADD.format(rows=", ".join(["(?, ?, ?)"] * len(rows)))
            with self._db() as db:
                db.execute(statement, list(chain.from_iterable(rows)))

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def default_ledger() -> Path:
    """Return the file of this user's accounts, in ACCORD_STATE or the folder for state."""
    return state_folder() / "spent.sqlite3"


# Agents that report what they use.

_TOKENS = frozenset({"tokens"})
_BOTH = frozenset({"tokens", "cost"})
REPORTS: dict[str, frozenset[str]] = {
    "@agentclientprotocol/claude-agent-acp": _BOTH,
    "@agentclientprotocol/codex-acp": _TOKENS,
    "@mistralai/mistral-vibe": _TOKENS,
    "bub": _TOKENS,
    "copilot": _TOKENS,
    "hermes-agent": _TOKENS,
    "opencode": _TOKENS,
    "qwen-code": _TOKENS,
}
"""What agents are known to report, by their names in small letters, as recordings of them show."""


def reports_of(name: str, meta: Mapping[str, Any] | None) -> frozenset[str]:
    """Return what an agent reports: `tokens`, `cost`; it may say so in its `_meta`."""
    said: Any = (meta or {}).get("accord")
    listed: Any = cast("Any", said).get("reports") if isinstance(said, dict) else None
    known = REPORTS.get(name.lower(), frozenset())
    if isinstance(listed, list):
        return known | {str(one) for one in cast("list[Any]", listed)}
    return known


def require_metered(
    budgets: Iterable[Budget],
    name: str,
    meta: Mapping[str, Any] | None,
    unmetered: Collection[str] = (),
) -> None:
    """Raise `UnmeteredAgent` for a limit of what an agent does not report.

    Agents that are listed in `unmetered`, by name, are allowed: their limits have an effect only
    if they report what they use after all.
    """
    if name in unmetered:
        return
    reports = reports_of(name, meta)
    for budget in budgets:
        for limit in _REPORTED:
            if budget.limit(limit) is not None and limit not in reports:
                raise UnmeteredAgent(
                    f"The agent {excerpt(repr(name), 60)} is not known to report its {limit}, so"
                    f" a limit of {limit} has no effect. Limit seconds, tool_calls or"
                    f" changed_files, or allow the agent by its name as unmetered"
                )


# The meter of a session.


class _Limit(Struct, frozen=True):
    """One limit of a budget, and by which key an account has what it limits."""

    name: LimitName
    allowed: float
    budget: Budget
    key: str


class _Account:
    """What was used in a turn, a session or a day."""

    __slots__ = ("amounts",)

    def __init__(self, amounts: Mapping[str, float] | None = None) -> None:
        self.amounts: dict[str, float] = dict(amounts or {})

    def add(self, name: str, amount: float) -> None:
        amounts = self.amounts
        whole = amounts.get(name, 0.0) + amount
        amounts[name] = whole if whole > 0 else 0.0

    def spent(self, currency: str | None, *, is_estimate: bool) -> Spent:
        get = self.amounts.get
        tokens, cost = get("tokens"), get(_cost_in(currency or ""))
        return Spent(
            tokens=None if tokens is None else int(tokens),
            cost=cost,
            currency=None if cost is None else currency,
            seconds=get("seconds", 0.0),
            tool_calls=int(get("tool_calls", 0)),
            changed_files=int(get("changed_files", 0)),
            is_estimate=is_estimate and tokens is not None,
        )


class SessionMeter:
    """Counts what one session uses; one turn runs at a time.

    `begin_turn` and `end_turn` enclose a turn, `end_prompt` is called for each prompt of it that
    the agent has ended, and `on_event` for all events of the session, also outside turns.
    """

    def __init__(
        self,
        budgets: Sequence[Budget],
        session_id: str = "",
        ledger: Ledger | None = None,
        *,
        cost_before: float | None = None,
        unmetered: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_limit: Callable[[LimitReached], None] | None = None
        """Called at most once in a turn, when it reaches a limit."""
        self.reached: LimitReached | None = None
        """The limit that the turn has reached, the last one if none runs."""
        self._budgets = tuple(budgets)
        self._limits = tuple(
            _Limit(name, allowed, one, _cost_in(one.currency) if name == "cost" else name)
            for one in budgets
            for name in LIMITS
            if (allowed := one.limit(name)) is not None
        )
        self._limits_of = {
            name: tuple(one for one in self._limits if one.name == name) for name in LIMITS
        }
        self._currencies = {one.currency.upper() for one in budgets if one.cost is not None}
        self._ledger = ledger
        self._key = f"session {session_id}"
        self._clock = clock
        kept: Mapping[str, float] = {} if ledger is None else ledger.read(self._key)
        self._session = _Account(kept)
        self._turn = _Account()
        self._runs = False
        self._since: float | None = None  # the time that is not counted yet
        self._unsaved = 0.0  # seconds that the ledger does not have
        self._paused = 0
        self._fault = ""  # of the ledger
        # What the agent has reported.
        self._cost = kept.get(_REPORTED_COST, 0.0) if cost_before is None else cost_before
        self._currency: str | None = None
        self._cost_key = ""  # of this currency, in accounts
        self._foreign: str | None = None  # a currency that no budget has
        self._wrong_cost = ""  # the last report, if it is not a cost
        self._used: int | None = None  # tokens of the context
        self._last_usage: TokenUsage | None = None  # at the end of a prompt
        self._hides_cost = False  # the agent has used tokens, and has not reported any cost
        self._unmetered = unmetered
        self._estimate = 0.0  # of the running prompt
        self._is_estimate = False
        self._calls: set[str] = set()
        self._files: set[str] = set()  # of the session
        self._turn_files: set[str] = set()

    @property
    def turn(self) -> Spent:
        """What the running turn has used, or the last one."""
        self._count_time()
        return self._turn.spent(self._currency, is_estimate=self._is_estimate)

    @property
    def session(self) -> Spent:
        """What the session has used."""
        self._count_time()
        return self._session.spent(self._currency, is_estimate=self._is_estimate)

    # Turns.

    def begin_turn(self) -> None:
        """Start counting a turn; raise `BudgetExceeded` if nothing is left for it."""
        self.reached = None
        self._runs = False
        self._turn = _Account()
        self._turn_files = set()
        self._estimate, self._is_estimate = 0.0, False
        if (reached := self._over(self._limits)) is not None:
            self.reached = reached
            raise BudgetExceeded(f"{reached}: the prompt was not sent", reached)
        self._runs = True
        self._since = None if self._paused else self._clock()

    def end_prompt(self, usage: TokenUsage | None) -> None:
        """Take the tokens of a prompt that the agent has ended.

        A report that ends several prompts, which the agent has joined, counts once.
        """
        if usage is not None:
            if usage is self._last_usage:
                return
            self._last_usage = usage
        estimate, self._estimate = self._estimate, 0.0
        if self._currency is None and (estimate or (usage is not None and usage.total > 0)):
            self._hides_cost = not self._unmetered
        if usage is not None and usage.total > 0:
            self._is_estimate = False
            self._add("tokens", usage.total - estimate)

    def end_turn(self) -> None:
        """Stop counting the turn; its time may have reached a limit."""
        self.check_time()
        self._runs = False
        self._since = None
        self.on_limit = None

    def pause(self) -> None:
        """Stop the time while a question to the user is open."""
        self._count_time()
        self._paused += 1
        self._since = None

    def resume(self) -> None:
        """Continue the time: the question was answered."""
        self._paused = max(self._paused - 1, 0)
        if self._runs and not self._paused:
            self._since = self._clock()

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may still run; None if its time is unlimited."""
        self._count_time()
        left = [
            budget.seconds - self._account(budget.per).amounts.get("seconds", 0.0)
            for budget in self._budgets
            if budget.seconds is not None
        ]
        return max(min(left), 0.0) if left else None

    # Events.

    def on_event(self, event: Event) -> None:
        """Count an event of the session."""
        if type(event) is ToolCall:
            self._tool_call(event)
        elif type(event) is UsageChanged:
            usage = event.usage
            self.used(usage.used)
            if usage.cost is not None:
                self.costs(usage.cost.amount, usage.cost.currency)

    def called(self, call_id: str) -> None:
        """Count a tool call, at its first report."""
        if self._runs and call_id not in self._calls:
            self._calls.add(call_id)
            self._add("tool_calls", 1)

    def used(self, tokens: int) -> None:
        """Count the context usage that the agent reports, if it has changed."""
        if self._runs and tokens != self._used and tokens > 0:
            self._estimate += tokens
            self._is_estimate = True
            self._add("tokens", tokens)
        self._used = tokens

    def wrote(self, path: str) -> None:
        """Count a file that was written for the agent."""
        if not self._runs:
            return
        path = os.path.normpath(path)
        is_new = path not in self._files
        self._files.add(path)
        if path not in self._turn_files:
            self._turn_files.add(path)
            self._add("changed_files", 1, in_session=is_new)

    def _tool_call(self, call: ToolCall) -> None:
        self.called(call.id)
        if "content" in call.changed or not call.changed:
            for part in call.content:
                if isinstance(part, Diff):
                    for path in (part.path, *part.others):
                        self.wrote(path)

    def costs(self, amount: float, currency: str) -> None:
        """Count the growth of the cost that the agent reports for its session."""
        if not 0 <= amount < float("inf"):
            self._wrong_cost = f"{amount:g} {excerpt(currency, 20)}"
            self._check(self._limits_of["cost"])
            return
        self._wrong_cost = ""
        before = self._cost
        if currency != self._currency:
            self._currency, self._cost_key = currency, _cost_in(currency)
            self._foreign = currency if self._currencies - {currency.upper()} else None
        elif amount == before:
            return
        self._cost, self._hides_cost = amount, False
        # A smaller cost is that of a new count, all of which is spent.
        growth = amount - before if amount >= before else amount
        self._keep(self._cost_key, growth, (self._key, _REPORTED_COST, amount - before))
        self._check(self._limits_of["cost"])

    # Accounts.

    @property
    def _day(self) -> str:
        assert self._ledger is not None
        return f"day {_date(int(time.time()) // 86_400)} {self._ledger.principal}"

    def _account(self, per: Period) -> _Account:
        if per == "turn":
            return self._turn
        if per == "session" or self._ledger is None:
            return self._session
        try:
            return _Account(self._ledger.read(self._day))
        except Exception as error:  # noqa: BLE001  # of a ledger of the program, too
            self._fault = f"the account cannot be read: {error}"
            return self._session

    def _count_time(self) -> None:
        if self._since is not None:
            now = self._clock()
            passed, self._since = now - self._since, now
            if passed > 0:
                self._turn.add("seconds", passed)
                self._session.add("seconds", passed)
                self._unsaved += passed
                if self._unsaved >= _SAVED_S:
                    self._save_time()

    def _save_time(self) -> None:
        seconds, self._unsaved = self._unsaved, 0.0
        if self._ledger is not None and seconds:
            self._write([(key, "seconds", seconds) for key in (self._key, self._day)])

    def _add(self, name: LimitName, amount: float, *, in_session: bool = True) -> None:
        self._keep(name, amount, in_session=in_session)
        self._check(self._limits_of[name])

    def _keep(
        self, name: str, amount: float, *more: tuple[str, str, float], in_session: bool = True
    ) -> None:
        self._turn.add(name, amount)
        if in_session:
            self._session.add(name, amount)
        if self._ledger is not None:
            keys = (self._key, self._day) if in_session else (self._day,)
            self._write([*more, *((key, name, amount) for key in keys)])

    def _write(self, amounts: Iterable[tuple[str, str, float]]) -> None:
        """Add amounts to the ledger; if it fails, no turn goes beyond what is known."""
        if self._ledger is None:
            return
        try:
            self._ledger.add(amounts)
        except Exception as error:  # noqa: BLE001  # of a ledger of the program, too
            log.warning("! what was spent is not kept: %s", error)
            self._fault = f"the account cannot be kept: {error}"

    def check_time(self) -> None:
        """Call `on_limit` if the time of the turn is over."""
        self._count_time()
        self._save_time()
        self._check(self._limits)

    def _check(self, limits: Sequence[_Limit]) -> None:
        """Call `on_limit` if one of these limits is reached."""
        if not self._runs or self.reached is not None:
            return
        if (reached := self._over(self._limits if self._fault else limits)) is not None:
            self.reached = reached
            if self.on_limit is not None:
                self.on_limit(reached)

    def _over(self, limits: Sequence[_Limit]) -> LimitReached | None:
        """Return a limit that is reached; of a turn that has not begun, one that leaves nothing."""
        day: _Account | None = None
        for limit in limits:
            per, allowed = limit.budget.per, limit.allowed
            if per == "day":
                account = day = day or self._account(per)
            else:
                account = self._account(per)
            spent, reason = account.amounts.get(limit.key, 0.0), self._fault
            if limit.name == "cost":
                reason = self._unknown_cost() or reason
            if not reason and (
                spent < allowed
                # Each of them may be used; the next one is too many.
                or (spent == allowed and self._runs and limit.name in _COUNTED)
            ):
                continue
            return LimitReached(
                name=limit.name,
                per=per,
                spent=0 if reason else spent,
                allowed=allowed,
                unit=limit.budget.currency if limit.name == "cost" else "",
                reason=reason,
            )
        return None

    def _unknown_cost(self) -> str:
        """Return why the reported cost cannot be compared, empty if it can."""
        if self._wrong_cost:
            return f"the agent reports a cost of {self._wrong_cost}"
        if self._foreign is not None:
            return f"the agent reports its cost in {excerpt(self._foreign, 20)}"
        if self._hides_cost and not self._runs:
            return "the agent uses tokens, and does not report their cost"
        return ""


@cache
def _date(days: int) -> str:
    """Return the date that is this many days after the beginning of 1970."""
    return f"{datetime.fromtimestamp(days * 86_400, UTC):%Y-%m-%d}"


_SAVED_S = 1.0  # at most this much time is lost with the process
_REPORTED_COST = "cost that was reported"


def _cost_in(currency: str) -> str:
    return f"cost {currency.upper()}"


class Budgets:
    """The budgets of one connection to an agent, and the meters of its sessions.

    Raises `UnmeteredAgent` as `require_metered`. Without a `ledger`, days are counted in a file of
    this user. With an `account`, all sessions count as one of this name.
    """

    def __init__(
        self,
        budgets: Sequence[Budget],
        agent: str,
        meta: Mapping[str, Any] | None,
        *,
        unmetered: Collection[str] = (),
        ledger: Ledger | None = None,
        account: str | None = None,
    ) -> None:
        require_metered(budgets, agent, meta, unmetered)
        if ledger is None and any(budget.per == "day" for budget in budgets):
            ledger = SpendingLedger()
        self._budgets = budgets
        self._agent = agent
        self._unmetered = agent in unmetered
        self._ledger = ledger
        self._account = account
        self._meters: dict[str, SessionMeter] = {}

    def meter(self, session_id: str, cost_before: float | None) -> SessionMeter:
        """Return the meter of a session that was opened, also again."""
        meter = self._meters.get(session_id)
        if meter is None:
            meter = self._meters[session_id] = SessionMeter(
                self._budgets,
                self._account or f"{self._agent} {session_id}",
                self._ledger,
                cost_before=cost_before,
                unmetered=self._unmetered,
            )
        return meter

    def drop(self, session_id: str) -> None:
        """Forget the meter of a session that is closed."""
        self._meters.pop(session_id, None)


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
