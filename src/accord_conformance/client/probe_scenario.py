"""Scenarios that look through a client's window."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from accord_conformance.client.context import Scene
from accord_conformance.client.state_probe import NO_WINDOW, Window, looked
from accord_conformance.harness.scenario import NotExercised, Scenario, scenario

__all__ = ("shows", "window_of")


async def window_of(scene: Scene) -> Window:
    """Return the window on the scene's session; raise `NotExercised` where there is none."""
    posing, ident = scene.posing, scene.session.id
    if not posing.answers_probes or await looked(posing.line, ident) is None:
        raise NotExercised(NO_WINDOW)
    return Window(posing.line, ident, scene.judge, posing.pause_s)


def shows(
    name: str, *rules: str, versions: tuple[int, ...] = (1, 2)
) -> Callable[[Callable[[Any, Window], Awaitable[None]]], Scenario[Any]]:
    """Make a scenario of a coroutine function that gets the scene and the window."""

    def make(play: Callable[[Any, Window], Awaitable[None]]) -> Scenario[Any]:
        async def played(scene: Scene) -> None:
            window = await window_of(scene)
            await play(scene, window)
            window.over()

        played.__doc__ = play.__doc__
        return scenario(name, *rules, versions=versions)(played)

    return make
