"""Cancellation: each hop cancels its own request, by its own id."""

from __future__ import annotations

from accord_conformance.chain.proxy_context import ProxyContext
from accord_conformance.harness.raw_hop import encoded
from accord_conformance.harness.scenario import scenario

_METHOD = "_accord-check/slow"
_CANCELLED = b'{"code":-32800,"message":"Cancelled","data":{"at":"the end"}}'


@scenario("cancel/hops", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-08", "R-REQCAN-11")
async def _hops(context: ProxyContext) -> None:
    """A request of either end is cancelled: the proxy cancels its own request to the other."""
    line = await context.start()
    for origin in (line.plain, line.wrapped):
        # So that the ids of the two hops differ.
        for ident in ("accord-check-1", line.next_id() + 1000):
            sent, arrival = await context.forwarded(origin, _METHOD, b'{"a":1}', ident=ident)
            if sent is None or arrival is None:
                continue
            cancel = sent.cancel()
            await line.hop.tape.wait_until(
                lambda one=arrival: one.cancelled is not None or line.hop.is_closed,
                context.settings.answer_s,
            )
            context.add(
                "R-REQCAN-11",
                arrival.cancelled is not None,
                sent.frame,
                arrival.frame,
                cancel,
                *line.stray_cancels[:1],
                expected="`$/cancel_request` with the id of this hop",
                got="none" if not line.stray_cancels else "one with another id",
            )
            answer = arrival.fail(_CANCELLED)
            if await context.answered("R-PROXY-08", sent, answer):
                context.compare_response(sent, _CANCELLED, answer)


@scenario("cancel/unknown", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-REQCAN-11")
async def _unknown(context: ProxyContext) -> None:
    """A cancellation of a request that has been answered goes no further."""
    line = await context.start()
    for origin in (line.plain, line.wrapped):
        sent, arrival = await context.forwarded(origin, _METHOD, b'{"a":1}')
        if sent is None or arrival is None:
            continue
        arrival.reply(b"{}")
        await sent.wait(context.settings.answer_s)
        late = sent.cancel()
        never = line.hop.send_message(
            method=encoded("$/cancel_request"), params=encoded({"requestId": "accord-check-none"})
        )
        # A message after them: then the proxy has handled both.
        await context.forwarded(origin, _METHOD, b'{"a":2}', is_request=False)
        context.add(
            "R-REQCAN-11",
            not line.stray_cancels,
            late,
            never,
            *line.stray_cancels,
            expected="no cancellation of a request that is not open",
            got="one" if line.stray_cancels else "",
        )


SCENARIOS = (_hops, _unknown)
