"""Decorators for calls that must be awaited or entered: a mistake is reported by name."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

__all__ = (
    "MustEnter",
    "log_not_awaited",
    "must_await",
    "must_enter",
    "must_iterate",
    "not_awaited",
)

log: logging.Logger = logging.getLogger("accord.agent")

P = ParamSpec("P")
T = TypeVar("T")
# Only the event loop uses what the coroutine yields and receives.
_Work = Coroutine[Any, Any, T]


class _MustAwait(Coroutine[Any, Any, T]):
    """A coroutine that is named in the log if it is dropped, and that has no truth value."""

    __slots__ = ("_log", "_owner", "_was_awaited", "_what", "_work")

    def __init__(
        self, work: Coroutine[Any, Any, T], what: str, owner: Any, logger: logging.Logger
    ) -> None:
        self._work = work
        self._what = what
        self._owner = owner
        self._log = logger
        self._was_awaited = False

    def __await__(self) -> Any:
        self._was_awaited = True
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        self._was_awaited = True
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        self._was_awaited = True
        return self._work.throw(*error)

    def close(self) -> None:
        self._was_awaited = True
        self._work.close()

    def __bool__(self) -> bool:
        raise not_awaited(self._what)

    if not TYPE_CHECKING:  # type checkers should reject them

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{not_awaited(self._what)} before {name!r} is used")

        def __aenter__(self) -> NoReturn:
            raise not_awaited(self._what)

        def __aexit__(self, *error: object) -> NoReturn:
            raise not_awaited(self._what)

        def __aiter__(self) -> NoReturn:
            raise not_awaited(self._what)

    def __del__(self) -> None:
        if not self._was_awaited:
            self._work.close()
            log_not_awaited(self._what, getattr(self._owner, "_core", None), self._log)


def not_awaited(what: str) -> TypeError:
    """Return the error for a call that is used without `await`."""
    return TypeError(f"{what} has to be awaited: write `await {what}`")


def log_not_awaited(what: str, core: Any, logger: logging.Logger = log) -> None:
    """Log that a call was dropped; `core` is that of its session, whose turn fails."""
    logger.error("! %s was not awaited: write `await %s`", what, what)
    if core is not None:
        core.not_awaited.append(what)


def must_await(what: str) -> Callable[[Callable[P, _Work[T]]], Callable[P, _Work[T]]]:
    """Return a decorator for methods of an object that users call `what`.

    A call that is dropped without `await` is named in the log and at the end of the turn.
    """

    def decorate(method: Callable[P, _Work[T]]) -> Callable[P, _Work[T]]:
        name = f"{what}.{getattr(method, '__name__', '?')}(…)"
        logger = logging.getLogger(".".join(method.__module__.split(".")[:2]))

        @wraps(method)
        def call(*args: P.args, **named: P.kwargs) -> _Work[T]:
            return _MustAwait(method(*args, **named), name, args[0], logger)

        return call

    return decorate


class MustEnter:
    """Mixin: explains how to use an object with `async with` if it is used in another way."""

    _hint = ""

    if not TYPE_CHECKING:  # type checkers should reject them

        def __await__(self) -> NoReturn:
            raise TypeError(self._hint)

        def __enter__(self) -> NoReturn:
            raise TypeError(self._hint)

        def __exit__(self, *error: object) -> NoReturn:
            raise TypeError(self._hint)

        def __iter__(self) -> NoReturn:
            raise TypeError(self._hint)


class _Entered(MustEnter, AbstractAsyncContextManager[T]):
    """A context manager that explains how to use it."""

    def __init__(self, manager: AbstractAsyncContextManager[T], hint: str) -> None:
        self._manager = manager
        self._hint = hint

    async def __aenter__(self) -> T:
        return await self._manager.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(self._hint)

        def __aiter__(self) -> NoReturn:
            raise TypeError(self._hint)


class _Iterated(AsyncGenerator[T, None]):
    """An asynchronous generator that explains how to use it."""

    def __init__(self, generator: AsyncGenerator[T, None], hint: str) -> None:
        self._generator = generator
        self._hint = hint

    def __aiter__(self) -> AsyncGenerator[T, None]:
        return self._generator

    async def asend(self, value: None) -> T:
        return await self._generator.asend(value)

    async def athrow(self, *error: Any) -> T:
        return await self._generator.athrow(*error)

    async def aclose(self) -> None:
        await self._generator.aclose()

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(self._hint)

        def __iter__(self) -> NoReturn:
            raise TypeError(self._hint)


def must_iterate(
    hint: str,
) -> Callable[[Callable[P, AsyncGenerator[T, None]]], Callable[P, AsyncGenerator[T, None]]]:
    """Return a decorator for asynchronous generators: they are used with `async for`."""

    def decorate(
        function: Callable[P, AsyncGenerator[T, None]],
    ) -> Callable[P, AsyncGenerator[T, None]]:
        @wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> AsyncGenerator[T, None]:
            return _Iterated(function(*args, **named), hint)

        return call

    return decorate


def must_enter(
    hint: str,
) -> Callable[
    [Callable[P, AbstractAsyncContextManager[T]]], Callable[P, AbstractAsyncContextManager[T]]
]:
    """Return a decorator for functions whose result is used with `async with`, not `await`."""

    def decorate(
        function: Callable[P, AbstractAsyncContextManager[T]],
    ) -> Callable[P, AbstractAsyncContextManager[T]]:
        @wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> AbstractAsyncContextManager[T]:
            return _Entered(function(*args, **named), hint)

        return call

    return decorate
