"""Order within a direction, independence of the directions, and bounded queues."""

from __future__ import annotations

import asyncio

from accord_conformance.chain.conductor_context import ConductorContext, member
from accord_conformance.harness.scenario import scenario

_COUNT = "_accord-check/count"
_ASK = "_accord-check/ask"
_SLOW = "_accord-check/slow"
_MESSAGES = 100
_LARGE_BYTES = 256 * 1024
_LIMIT_BYTES = 48 * 1024 * 1024  # more than pipes, sockets and bounded queues hold
_STALLED_S = 1.0


@scenario("order/ends", "R-PROXY-18")
async def _ends(context: ConductorContext) -> None:
    """Many notifications and then a response: all arrive at the other end, in this order."""
    await context.start()
    client, agent = context.client.plain, context.agent.line.plain
    for origin, target in ((client, agent), (agent, client)):
        asked = target.request(_ASK, b'{"sessionId":"accord-check"}')
        await context.wait_until(lambda o=origin, a=asked: bool(o.since(a.frame, _ASK)), _ASK)
        arrival = origin.since(asked.frame, _ASK)[0]
        for number in range(_MESSAGES):
            origin.notify(_COUNT, b'{"sessionId":"accord-check","n":%d}' % number)
        answer = arrival.reply(b"{}")
        await context.holds(
            lambda t=target, a=asked: (
                a.response is not None and len(t.since(a.frame, _COUNT)) == _MESSAGES
            )
        )
        arrived = target.since(asked.frame, _COUNT)
        numbers = [member(one.value, "n") for one in arrived]
        last = asked.response
        overtaken = [one for one in arrived if last and one.frame.number > last.frame.number]
        context.add(
            "R-PROXY-18",
            numbers == list(range(_MESSAGES)) and last is not None and not overtaken,
            answer,
            last.frame if last else None,
            *(one.frame for one in overtaken[:1]),
            expected=f"{_MESSAGES} notifications in their order, and then the response",
            got=f"{len(numbers)} notifications, "
            + ("and the response before some of them" if overtaken else f"{numbers[:10]}…"),
        )


@scenario("order/directions", "R-PROXY-19")
async def _directions(context: ConductorContext) -> None:
    """A proxy answers nothing: messages of the other direction still pass."""
    await context.start()
    proxy = context.proxy
    proxy.relays = False
    following = context.components[context.names[1]]
    for origin, target in (
        (context.client.plain, proxy.line.plain),
        (following.line.plain, proxy.line.wrapped),
    ):
        sent = origin.request(_SLOW, b'{"sessionId":"accord-check"}')
        await context.wait_until(lambda t=target, s=sent: bool(t.since(s.frame, _SLOW)), _SLOW)
    for origin, target in (
        (proxy.line.plain, context.client.plain),
        (proxy.line.wrapped, following.line.plain),
    ):
        frame = origin.notify(_COUNT, b'{"sessionId":"accord-check"}')
        found = await context.holds(lambda t=target, f=frame: bool(t.since(f, _COUNT)))
        context.add(
            "R-PROXY-19",
            found,
            frame,
            expected="the notification, while requests of the other direction are open",
            got="nothing",
        )


@scenario("order/stalled-client", "R-PROXY-19")
async def _stalled_client(context: ConductorContext) -> None:
    """The client stops reading: the conductor stops reading what is sent to it."""
    await context.start()
    proxy, client = context.proxy.line, context.client
    client.hop.pause_reading()
    text = b'{"jsonrpc":"2.0","method":"_accord-check/large","params":{"text":"%s"}}'
    frame = text % (b"x" * _LARGE_BYTES)
    began = proxy.plain.notify("_accord-check/large", b"{}")
    written, stalled = 0, False
    while written < _LIMIT_BYTES and not stalled and not proxy.hop.is_closed:
        proxy.hop.send_unrecorded(frame)
        written += len(frame)
        if proxy.hop.is_congested:
            stalled = not await context.tape.wait_until(
                lambda: not proxy.hop.is_congested, _STALLED_S
            )
        else:
            await asyncio.sleep(0)
    context.add(
        "R-PROXY-19",
        stalled,
        began,
        expected="a conductor that stops reading when the client does",
        got=f"{written // 2**20} MiB read",
    )
    context.may_exit = True


SCENARIOS = (_ends, _directions, _stalled_client)
