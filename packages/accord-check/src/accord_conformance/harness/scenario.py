"""A scenario: what the kit does with the program under test, and the rules that it judges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from accord_conformance.judges.base import Evidence, frames_from
from accord_conformance.traffic.frame import Medium

ALL_MEDIA: tuple[Medium, ...] = ("stdio", "websocket", "http")

ContextT = TypeVar("ContextT")


class NotExercised(Exception):
    """The rules of a scenario were not exercised; the text is the reason."""


class LoginRequired(NotExercised):
    """The scenario requires a login."""


class PromptFailed(NotExercised):
    """The agent refused a plain prompt, or failed to work on it."""


class Advisory(Exception):
    """The program did something harmful that no rule forbids: a text and advice for its author.

    With `is_failure` the run fails. `seen` are the messages that show it.
    """

    def __init__(self, what: str, advice: str, *seen: Evidence, is_failure: bool = False) -> None:
        super().__init__(what)
        self.advice = advice
        self.is_failure = is_failure
        self.frames = frames_from(*seen)


class Scenario(Struct, Generic[ContextT], frozen=True, kw_only=True):
    """A scenario; an isolated one gets connections of its own.

    `rules` are those that `run` judges; the observer judges all messages in addition. `media` are
    the transports over which it can run.
    """

    name: str
    about: str
    run: Callable[[ContextT], Awaitable[None]]
    rules: tuple[str, ...] = ()
    versions: tuple[int, ...] = (1, 2)
    isolated: bool = False
    media: tuple[Medium, ...] = ALL_MEDIA

    @property
    def area(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]


def scenario(
    name: str,
    *rules: str,
    versions: tuple[int, ...] = (1, 2),
    isolated: bool = False,
    media: tuple[Medium, ...] = ALL_MEDIA,
) -> Callable[[Callable[[Any], Awaitable[None]]], Scenario[Any]]:
    """Make a scenario of a coroutine function, whose docstring is its description."""

    def make(play: Callable[[Any], Awaitable[None]]) -> Scenario[Any]:
        about = (play.__doc__ or "").strip()
        return Scenario(
            name=name,
            about=about,
            run=play,
            rules=rules,
            versions=versions,
            isolated=isolated,
            media=media,
        )

    return make
