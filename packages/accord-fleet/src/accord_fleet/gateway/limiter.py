"""The limiter of requests and tokens per minute, one for each key of a provider.

Our own: the libraries for rate limits that are published neither take back a wrong estimate, nor
pause a key, nor serve waiting callers in turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

_BURST_S = 6.0  # of the allowance may be used at once; providers count in short windows, too
_MINUTE_S = 60.0
_LONGEST_S = 3600.0
_WORTH_SAYING_S = 1.0
_SAY_AGAIN_S = 10.0


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a key allows; None is unlimited."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


class KeyWait(NamedTuple):
    """Why requests of a key wait."""

    requests: int
    seconds: float
    """Until the next one may start."""
    is_paused: bool
    """Whether the provider asked for a pause; otherwise the limits of the key are used up."""


class Limiter(Protocol):
    """Admits requests; implemented in this process, or by an actor for a whole cluster."""

    async def acquire(self, key: str, caller: str, tokens: int) -> None:
        """Wait until a request with about so many tokens may be sent; callers take turns."""
        ...

    async def settle(self, key: str, tokens: int) -> None:
        """Correct an estimate: so many more tokens (or fewer, if negative) were used."""
        ...

    async def pause(self, key: str, seconds: float) -> None:
        """Let no request of a key start for some seconds."""
        ...


class LocalLimiter:
    """The limiter of one process; all its arguments can be pickled, so that an actor can host it.

    Each limit is a bucket that fills steadily. A request may start when the bucket has its tokens,
    or is full: so a request that is larger than the bucket passes, and the next ones wait longer.
    """

    def __init__(
        self,
        limits: dict[str, KeyLimits],
        on_wait: Callable[[str, KeyWait | None], None] | None = None,
    ) -> None:
        """`on_wait` is called for a key whose requests wait for a second or longer; None: none
        does any more."""
        self._limits = limits
        self._on_wait = on_wait
        self._keys: dict[str, _Key] = {}

    async def acquire(self, key: str, caller: str, tokens: int) -> None:
        """Wait until a request with about so many tokens may be sent; callers take turns."""
        await self._key(key).acquire(caller, tokens)

    async def settle(self, key: str, tokens: int) -> None:
        """Correct an estimate: so many more tokens (or fewer, if negative) were used."""
        self._key(key).settle(tokens)

    async def pause(self, key: str, seconds: float) -> None:
        """Let no request of a key start for some seconds."""
        self._key(key).pause(seconds)

    def _key(self, name: str) -> _Key:
        if (key := self._keys.get(name)) is None:
            told = None if self._on_wait is None else partial(self._on_wait, name)
            key = self._keys[name] = _Key(self._limits.get(name, KeyLimits()), told)
        return key


class _Bucket:
    def __init__(self, per_minute: float, now: float) -> None:
        self._per_s = per_minute / _MINUTE_S
        self._most = max(self._per_s * _BURST_S, 1.0)
        self._level = self._most
        self._seen = now

    def wait_s(self, amount: float, now: float) -> float:
        """Return the seconds until the amount can be taken."""
        self._level = min(self._level + (now - self._seen) * self._per_s, self._most)
        self._seen = now
        return max(min(amount, self._most) - self._level, 0.0) / self._per_s

    def take(self, amount: float) -> None:
        self._level = min(self._level - amount, self._most)


class _Key:
    """The buckets of a key, and the callers that wait, each with its own queue."""

    def __init__(self, limits: KeyLimits, on_wait: Callable[[KeyWait | None], None] | None) -> None:
        self._on_wait = on_wait
        self._said_at: float | None = None  # None: it was not said that one waits
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        rpm, tpm = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = None if rpm is None else _Bucket(rpm, now)
        self._tokens = None if tpm is None else _Bucket(tpm, now)
        self._paused_until = now
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, caller: str, tokens: int) -> None:
        if not self._waiting and self._wait_s(tokens) <= 0:
            self._take(tokens)
            return
        entry = (tokens, self._loop.create_future())
        self._waiting.setdefault(caller, deque()).append(entry)
        self._admit()
        try:
            await entry[1]
        except asyncio.CancelledError:
            self._leave(caller, entry)
            raise

    def settle(self, tokens: int) -> None:
        if self._tokens is not None:
            self._tokens.take(tokens)
            self._admit()

    def pause(self, seconds: float) -> None:
        until = self._loop.time() + min(seconds, _LONGEST_S)
        self._paused_until = max(self._paused_until, until)
        self._admit()

    def _wait_s(self, tokens: int) -> float:
        now = self._loop.time()
        waits = [self._paused_until - now]
        if self._requests is not None:
            waits.append(self._requests.wait_s(1, now))
        if self._tokens is not None:
            waits.append(self._tokens.wait_s(tokens, now))
        return max(waits)

    def _take(self, tokens: int) -> None:
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(tokens)

    def _admit(self) -> None:
        """Let those start who may, one of each caller in turn; set a timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            caller, queue = next(iter(self._waiting.items()))
            tokens, future = queue[0]
            wait_s = self._wait_s(tokens)
            if wait_s > 1e-6:
                self._timer = self._loop.call_later(wait_s, self._admit)
                self._say(wait_s)
                return
            queue.popleft()
            del self._waiting[caller]
            if queue:
                self._waiting[caller] = queue  # after the others
            if not future.done():
                self._take(tokens)
                future.set_result(None)
        if self._said_at is not None and self._on_wait is not None:
            self._said_at = None
            self._on_wait(None)

    def _say(self, wait_s: float) -> None:
        """Say that requests wait: when that begins, and then from time to time."""
        now = self._loop.time()
        is_new = self._said_at is None or now - self._said_at >= _SAY_AGAIN_S
        if self._on_wait is not None and wait_s >= _WORTH_SAYING_S and is_new:
            self._said_at = now
            self._loop.call_soon(self._say_now)  # with all that begin to wait now

    def _say_now(self) -> None:
        if self._on_wait is None or not self._waiting:
            return
        tokens = next(iter(self._waiting.values()))[0][0]
        wait_s = self._wait_s(tokens)
        is_paused = self._paused_until - self._loop.time() >= wait_s - 0.01
        self._on_wait(KeyWait(sum(map(len, self._waiting.values())), wait_s, is_paused))

    def _leave(self, caller: str, entry: tuple[int, asyncio.Future[None]]) -> None:
        queue = self._waiting.get(caller)
        if queue is not None and entry in queue:
            queue.remove(entry)
            if not queue:
                del self._waiting[caller]
        elif entry[1].done() and not entry[1].cancelled():
            # It was admitted and cancelled at the same moment: nothing will be sent.
            self._take_back(entry[0])
        self._admit()

    def _take_back(self, tokens: int) -> None:
        if self._requests is not None:
            self._requests.take(-1)
        if self._tokens is not None:
            self._tokens.take(-tokens)
