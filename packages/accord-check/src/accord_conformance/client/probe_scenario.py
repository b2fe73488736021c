"""Scenarios that use the state probe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from accord_conformance.client.context import ClientContext
from accord_conformance.client.state_probe import NO_PROBE, StateProbe, probe_state
from accord_conformance.harness.scenario import NotExercised, Scenario, scenario


async def require_probe(context: ClientContext) -> StateProbe:
    """Return the probe of the session; raise `NotExercised` if the client does not support it."""
    posing, ident = context.agent, context.session.id
    if not posing.answers_probes or await probe_state(posing.connection, ident) is None:
        raise NotExercised(NO_PROBE)
    return StateProbe(posing.connection, ident, context.judge, posing.pause_s)


def probe_scenario(
    name: str, *rules: str, versions: tuple[int, ...] = (1, 2)
) -> Callable[[Callable[[Any, StateProbe], Awaitable[None]]], Scenario[Any]]:
    """Make a scenario of a coroutine function that takes the context and the probe."""

    def make(play: Callable[[Any, StateProbe], Awaitable[None]]) -> Scenario[Any]:
        async def played(context: ClientContext) -> None:
            probe = await require_probe(context)
            await play(context, probe)
            probe.require_judged()

        played.__doc__ = play.__doc__
        return scenario(name, *rules, versions=versions)(played)

    return make
