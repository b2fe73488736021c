"""Messages between the ends of a chain, and on each hop."""

from __future__ import annotations

from accord_conformance.chain.conductor_context import ConductorContext
from accord_conformance.chain.odd_messages import (
    CUSTOM,
    EXITED,
    ODD,
    ODD_ERROR,
    ODD_RESULT,
    UNKNOWN,
)
from accord_conformance.harness.scenario import scenario


@scenario("forward/ends", "R-PROXY-08", "R-PROXY-15", "R-PROXY-20")
async def _ends(context: ConductorContext) -> None:
    """Messages of unknown methods pass through the chain in both directions, unchanged."""
    await context.start()
    client, agent = context.client.plain, context.agent.line.plain
    for origin, target in ((client, agent), (agent, client)):
        for method in (CUSTOM, UNKNOWN):
            sent, arrival = await context.passed_on(origin, target, method, ODD)
            await context.answered(sent, ODD_RESULT, arrival.reply(ODD_RESULT))
            await context.passed_on(origin, target, method, ODD, is_request=False)
        for error in (ODD_ERROR, EXITED):
            sent, arrival = await context.passed_on(origin, target, CUSTOM, b'{"a":1}')
            await context.answered(sent, error, arrival.fail(error))
        for params in (None, b"null", b"[1,{},null]"):
            await context.passed_on(origin, target, CUSTOM, params, is_request=False)


@scenario("forward/hops", "R-PROXY-08", "R-PROXY-15", "R-PROXY-16", "R-PROXY-20")
async def _hops(context: ConductorContext) -> None:
    """A proxy sends to both sides and receives from both; `_meta` of its envelopes stays there."""
    await context.start()
    proxy = context.proxy
    proxy.relays = False
    client = context.client.plain
    following = context.components[context.names[1]]
    following.relays = False
    before, after = proxy.line.plain, proxy.line.wrapped
    behind = following.line.plain
    for origin, target in ((client, before), (before, client), (after, behind), (behind, after)):
        meta = b'{"accord-check/hop":1}' if origin is after else None
        for is_request in (True, False):
            sent, arrival = await context.passed_on(
                origin, target, CUSTOM, ODD, meta=meta, is_request=is_request
            )
            if is_request:
                await context.answered(sent, ODD_RESULT, arrival.reply(ODD_RESULT))
            if meta is not None:
                context.add(
                    "R-PROXY-16",
                    b"accord-check/hop" not in arrival.frame.text,
                    arrival.frame,
                    expected="a message without the `_meta` of the envelope",
                    got="a message that has it",
                )


SCENARIOS = (_ends, _hops)
