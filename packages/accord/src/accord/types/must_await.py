"""Decorators for calls that must be awaited or entered: a mistake is reported by name."""

from __future__ import annotations

import inspect
import logging
import sys
from asyncio import coroutines
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from accord.text.excerpt import nearest_keyword

log: logging.Logger = logging.getLogger("accord.agent")

P = ParamSpec("P")
R = TypeVar("R")
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

        def _refuse(self, *_: object) -> NoReturn:
            raise not_awaited(self._what)

        __aenter__ = __aexit__ = __aiter__ = _refuse

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


def mark_coroutine_function(function: Callable[P, R]) -> Callable[P, R]:
    """Let `iscoroutinefunction` be true of a function that returns a coroutine.

    Before Python 3.12 that of asyncio only: that of inspect looks at the code.
    """
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    vars(function)["_is_coroutine"] = vars(coroutines)["_is_coroutine"]
    return function


def must_await(what: str) -> Callable[[Callable[P, _Work[T]]], Callable[P, _Work[T]]]:
    """Return a decorator for methods of an object that users call `what`.

    A call that is dropped without `await` is named in the log and at the end of the turn.
    """

    def decorate(method: Callable[P, _Work[T]]) -> Callable[P, _Work[T]]:
        name = f"{what}.{getattr(method, '__name__', '?')}(…)"
        logger = logging.getLogger(".".join(method.__module__.split(".")[:2]))
        return mark_coroutine_function(
            _wrapped(method, lambda work, owner: _MustAwait(work, name, owner, logger))
        )

    return decorate


def _wrapped(function: Callable[P, R], wrap: Callable[[R, Any], R]) -> Callable[P, R]:
    """Return the function, whose result is wrapped; `wrap` also gets the first argument."""

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            result = function(*args, **named)
        except TypeError as error:  # by the arguments: the body has not begun
            raise _with_suggestion(error, function, named) from None
        return wrap(result, args[0] if args else None)

    return call


def _with_suggestion(
    error: TypeError, function: Callable[..., object], named: dict[str, Any]
) -> TypeError:
    """Return the error of a call; that of an unknown keyword argument suggests one."""
    known = inspect.signature(function).parameters
    unknown = next((name for name in named if name not in known), None)
    near = None if unknown is None else nearest_keyword(unknown, known)
    return error if near is None else TypeError(f"{error}; did you mean {near!r}?")


class MustEnter:
    """Mixin: an object that is used without the `async` statement that it needs explains it."""

    _hint = ""

    if not TYPE_CHECKING:  # type checkers should reject them

        def _explain(self, *_: object) -> NoReturn:
            raise TypeError(self._hint)

        __await__ = __enter__ = __exit__ = __iter__ = _explain


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


class _Iterated(MustEnter, AsyncGenerator[T, None]):
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


def must_iterate(
    hint: str,
) -> Callable[[Callable[P, AsyncGenerator[T, None]]], Callable[P, AsyncGenerator[T, None]]]:
    """Return a decorator for asynchronous generators: they are used with `async for`."""
    return lambda function: _wrapped(function, lambda made, _: _Iterated(made, hint))


def must_enter(
    hint: str,
) -> Callable[
    [Callable[P, AbstractAsyncContextManager[T]]], Callable[P, AbstractAsyncContextManager[T]]
]:
    """Return a decorator for functions whose result is used with `async with`, not `await`."""
    return lambda function: _wrapped(function, lambda made, _: _Entered(made, hint))
