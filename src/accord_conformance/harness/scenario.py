"""A scenario: what is played with the program under test, and the rules that it tells of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from accord_conformance.judges.base import Evidence, frames_from

__all__ = ("Advisory", "LoginRequired", "NotExercised", "Scenario", "scenario")

ContextT = TypeVar("ContextT")


class NotExercised(Exception):
    """The rules of a scenario did not come into play; the text says why."""


class LoginRequired(NotExercised):
    """What was to be played is kept from whoever has not logged in."""


class Advisory(Exception):
    """The program did what no rule forbids, and what its author has to know: text and advice.

    `wrong`: nobody could want that, so the run has not passed. `seen` shows it.
    """

    def __init__(self, what: str, advice: str, *seen: Evidence, is_failure: bool = False) -> None:
        super().__init__(what)
        self.advice = advice
        self.is_failure = is_failure
        self.frames = frames_from(*seen)


class Scenario(Struct, Generic[ContextT], frozen=True, kw_only=True):
    """Something to play: `own` scenarios get a connection that nobody else uses.

    `rules` are those that `play` tells of itself; the observer judges all that passes besides.
    """

    name: str
    about: str
    run: Callable[[ContextT], Awaitable[None]]
    rules: tuple[str, ...] = ()
    versions: tuple[int, ...] = (1, 2)
    isolated: bool = False

    @property
    def area(self) -> str:
        """The first part of its name."""
        return self.name.partition("/")[0]


def scenario(
    name: str, *rules: str, versions: tuple[int, ...] = (1, 2), isolated: bool = False
) -> Callable[[Callable[[Any], Awaitable[None]]], Scenario[Any]]:
    """Make a scenario of a coroutine function, whose docstring says what it is about."""

    def make(play: Callable[[Any], Awaitable[None]]) -> Scenario[Any]:
        about = (play.__doc__ or "").strip()
        return Scenario(
            name=name, about=about, run=play, rules=rules, versions=versions, isolated=isolated
        )

    return make
