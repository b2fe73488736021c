"""Order within a direction, and independence of the two directions."""

from __future__ import annotations

from accord.text.lenient_json import is_object
from accord_conformance.chain.line import ChainLine, End
from accord_conformance.chain.proxy_context import ProxyContext
from accord_conformance.harness.scenario import NotExercised, scenario

_COUNT = "_accord-check/count"
_ASK = "_accord-check/ask"
_SLOW = "_accord-check/slow"
_MESSAGES = 50


@scenario("order/direction", "R-PROXY-18")
async def _direction(context: ProxyContext) -> None:
    """Many notifications and then a response: all arrive, and in this order."""
    line = await context.start()
    for origin, target in ((line.plain, line.wrapped), (line.wrapped, line.plain)):
        # The other end asks first, so that a response follows the notifications.
        asked = target.request(_ASK, b'{"sessionId":"accord-check"}')
        arrival = await origin.wait_for(_ASK, asked.frame, context.settings.answer_s)
        for number in range(_MESSAGES):
            origin.notify(_COUNT, b'{"sessionId":"accord-check","n":%d}' % number)
        answer = arrival.reply(b'{"n":"last"}')
        await line.hop.tape.wait_until(
            lambda end=target, one=asked: (
                (one.response is not None and len(end.since(one.frame, _COUNT)) == _MESSAGES)
                or line.hop.is_closed
            ),
            context.settings.answer_s,
        )
        _judge_order(context, target, asked.frame.number, line)
        last = asked.response
        arrived = target.since(asked.frame, _COUNT)
        overtaken = last is not None and any(
            one.frame.number > last.frame.number for one in arrived
        )
        context.add(
            "R-PROXY-18",
            last is not None and not overtaken,
            answer,
            last.frame if last else None,
            expected="the response after the notifications that were sent before it",
            got="the response before some of them" if overtaken else "no response",
        )


def _judge_order(context: ProxyContext, target: End, since: int, line: ChainLine) -> None:
    arrived = [one for one in target.arrivals if one.method == _COUNT and one.frame.number > since]
    numbers = [one.value.get("n") if is_object(one.value) else None for one in arrived]
    wrong = next((one.frame for place, one in enumerate(arrived) if numbers[place] != place), None)
    context.add(
        "R-PROXY-18",
        numbers == list(range(_MESSAGES)),
        wrong or line.hop.tape.frames[-1],
        expected=f"{_MESSAGES} notifications in the order in which they were sent",
        got=f"{len(numbers)} notifications"
        + (f"; the first that is not in its place has n {numbers}" if wrong else ""),
    )


@scenario("order/directions", "R-PROXY-19")
async def _directions(context: ProxyContext) -> None:
    """Both ends leave a request open: messages of both directions still pass."""
    line = await context.start()
    for origin in (line.plain, line.wrapped):
        target = line.wrapped if origin is line.plain else line.plain
        sent = origin.request(_SLOW, b'{"sessionId":"accord-check"}')
        await line.hop.wait_until(
            lambda end=target, one=sent: bool(one.response or end.since(one.frame, _SLOW)),
            _SLOW,
            context.settings.answer_s,
        )
        if sent.response is not None:
            raise NotExercised("the proxy does not forward the request that is left open")
    for origin in (line.plain, line.wrapped):
        target = line.wrapped if origin is line.plain else line.plain
        frame = origin.notify(_COUNT, b'{"sessionId":"accord-check"}')
        await line.hop.tape.wait_until(
            lambda end=target, sent=frame: bool(end.since(sent, _COUNT)) or line.hop.is_closed,
            context.settings.answer_s,
        )
        context.add(
            "R-PROXY-19",
            bool(target.since(frame, _COUNT)),
            frame,
            expected="the notification at the other end, while requests are open",
            got="nothing",
        )


SCENARIOS = (_direction, _directions)
