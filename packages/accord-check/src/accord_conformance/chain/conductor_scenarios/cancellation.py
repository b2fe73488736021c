"""Cancellation in a chain: the conductor translates ids, and understands both forms."""

from __future__ import annotations

from accord_conformance.chain.conductor_context import ConductorContext
from accord_conformance.chain.line import Arrival, End, Sent
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.raw_hop import encoded
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.frame import Frame

_METHOD = "_accord-check/slow"
_CANCELLED = b'{"code":-32800,"message":"Cancelled"}'


async def _open(context: ConductorContext, origin: End, target: End) -> tuple[Sent, Arrival]:
    """Send a request that is left open; return it and its arrival."""
    sent = origin.request(_METHOD, b'{"a":1}')
    await context.wait_until(lambda: bool(target.since(sent.frame, _METHOD)), _METHOD)
    return sent, target.since(sent.frame, _METHOD)[0]


async def _judge(context: ConductorContext, sent: Sent, arrival: Arrival, cancel: Frame) -> None:
    done = await context.holds(lambda: arrival.cancelled is not None)
    context.add(
        "R-PROXY-21",
        done,
        sent.frame,
        arrival.frame,
        cancel,
        expected="`$/cancel_request` with the id of this hop",
        got="none",
    )
    arrival.fail(_CANCELLED)
    await sent.wait(context.answer_s)


@scenario("cancel/ends", "R-PROXY-21")
async def _ends(context: ConductorContext) -> None:
    """A request of either end is cancelled, hop by hop."""
    await context.start()
    client, agent = context.client.plain, context.agent.line.plain
    for origin, target in ((client, agent), (agent, client)):
        sent, arrival = await _open(context, origin, target)
        await _judge(context, sent, arrival, sent.cancel())


@scenario("cancel/forms", "R-PROXY-21")
async def _forms(context: ConductorContext) -> None:
    """A proxy cancels its own request in both forms, and a request that is not open."""
    await context.start()
    proxy = context.proxy
    following = context.components[context.names[1]]
    proxy.relays = following.relays = False
    origin, target = proxy.line.wrapped, following.line.plain
    for is_wrapped in (False, True):
        sent, arrival = await _open(context, origin, target)
        if is_wrapped:
            params = encoded({"requestId": sent.ident})
            cancel = origin.notify("$/cancel_request", params)
        else:
            cancel = sent.cancel()
        await _judge(context, sent, arrival, cancel)
    never = proxy.line.hop.send_message(
        method=encoded("$/cancel_request"), params=encoded({"requestId": "accord-check-none"})
    )
    # A message after it: then the conductor has handled it. Strays are judged at the end.
    origin.notify(_METHOD, b'{"a":2}')
    if not await context.holds(lambda: bool(target.since(never, _METHOD))):
        raise NoResponse("a notification after a cancellation did not pass")


SCENARIOS = (_ends, _forms)
