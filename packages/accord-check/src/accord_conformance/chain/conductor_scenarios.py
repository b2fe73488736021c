"""The scenarios for conductors: handshake, forwarding, cancellation, order, exits of components."""

from __future__ import annotations

import asyncio

from accord.text.lenient_json import is_object
from accord_conformance.chain.conductor_context import Component, ConductorContext, member
from accord_conformance.chain.line import (
    CUSTOM,
    EXITED,
    ODD,
    ODD_ERROR,
    ODD_RESULT,
    UNKNOWN,
    Arrival,
    End,
    Sent,
    same_value,
)
from accord_conformance.chain.proxy_context import initialize_params, initialize_result
from accord_conformance.harness import NoResponse, Scenario, decoded, encoded, scenario
from accord_conformance.traffic.message import Frame, format_value

# The handshake of a chain: lazy, from the first component to the last.

_LAZY_S = 0.3  # for a component that is started too early
_REFUSED = b'{"code":-31999,"message":"Cannot start","data":{"why":"accord-check"}}'


@scenario("handshake/initialize", "R-PROXY-01", "R-PROXY-02", "R-PROXY-09", "R-PROXY-24")
async def _initialize(context: ConductorContext) -> None:
    """All components start at `initialize`, and are initialized one after the other."""
    held: list[Component] = []

    def hold(component: Component, _: Arrival) -> bool:
        if component.name == "proxy-0":
            held.append(component)
        return component.name == "proxy-0"

    context.on_initialize = hold
    await context.connect()
    early = await context.tape.wait_until(lambda: bool(context.components), _LAZY_S)
    sent = context.send_initialize(accordCheckLater={"z": 1.0, "a": None})
    context.add(
        "R-PROXY-24",
        not early,
        sent.frame,
        expected="no component before `initialize`",
        got="a component",
    )
    together = await context.holds(lambda: len(context.components) == len(context.names))
    ahead = [one for one in context.components.values() if one.initialized and one not in held]
    context.add(
        "R-PROXY-24",
        together and not ahead,
        sent.frame,
        *(one.initialized.frame for one in ahead if one.initialized),
        expected="all components started, and only the first of them initialized",
        got=f"{', '.join(context.components) or 'none'} started"
        + (f", {ahead[0].name} initialized" if ahead else ""),
    )
    await context.holds(lambda: bool(held or sent.response))
    if held:
        held[0].relay_initialize()
    await sent.wait(context.answer_s)
    for name in context.names:
        _judge_first(context, name)
    result = encoded(initialize_result(context.version))
    found = sent.response.result if sent.response else None
    context.add(
        "R-PROXY-01",
        sent.ok and same_value(result, found),
        *sent.evidence,
        expected="the result of the first proxy, which is that of `initialize`",
        got=format_value(sent.result) if sent.ok else sent.describe(),
    )


def _judge_first(context: ConductorContext, name: str) -> None:
    """Judge the message that initialized a component."""
    component = context.components.get(name)
    arrived = component.line.plain.arrivals if component else []
    first = component.initialized if component else None
    wanted = component.initialize_method if component else "initialize"
    expected = f"{wanted} for {name}"
    rule = "R-PROXY-01" if name == "proxy-0" else "R-PROXY-02"
    seen = first or (arrived[0] if arrived else None)
    context.add(
        rule,
        first is not None and first.method == wanted,
        seen.frame if seen else context.tape.frames[0],
        expected=expected,
        got=seen.method if seen else "nothing",
    )
    if first is None:
        return
    params = first.value
    if is_object(params) and context.dialect.marks_proxies and name != "agent":
        meta = member(params, "_meta")
        context.add(
            rule,
            member(meta, "proxy") is True,
            first.frame,
            expected="`_meta.proxy`, because it is a proxy",
            got=format_value(meta),
        )
    wished = {**initialize_params(context.version), "accordCheckLater": {"z": 1.0, "a": None}}
    if is_object(params) and context.dialect.marks_proxies:
        params = {key: value for key, value in params.items() if key != "_meta"}
    context.add(
        "R-PROXY-09",
        params == wished,
        context.tape.frames[0],
        first.frame,
        expected=f"the params of the client, version {context.version}, for {name}",
        got=format_value(params),
    )


@scenario("handshake/failure", "R-PROXY-08", "R-PROXY-23")
async def _failure(context: ConductorContext) -> None:
    """The agent refuses `initialize`: the client gets that error, and gets it again."""

    def refuse(component: Component, arrival: Arrival) -> bool:
        if component.is_agent:
            arrival.fail(_REFUSED)
        return component.is_agent

    context.on_initialize = refuse
    await context.connect()
    first = context.send_initialize()
    await first.wait(context.answer_s)
    answer = next((one for one in context.tape.frames if one.sender == "agent"), first.frame)
    error = first.response.error if first.response else None
    context.add(
        "R-PROXY-08",
        not first.ok and same_value(_REFUSED, error),
        answer,
        *first.evidence,
        expected="the error of the agent",
        got=first.describe(),
    )
    second = context.send_initialize()
    await context.holds(lambda: second.response is not None)
    again = second.response.error if second.response else None
    context.add(
        "R-PROXY-23",
        second.response is not None and not second.ok and same_value(error, again),
        *first.evidence,
        *second.evidence,
        expected="the same error for each `initialize`",
        got=second.describe(),
    )
    context.may_exit = True


@scenario("handshake/proxy-initialize", "R-PROXY-10")
async def _proxy_initialize(context: ConductorContext) -> None:
    """The client and a proxy send `proxy/initialize`, which only a conductor sends."""
    await context.start()
    for line in (context.client, context.proxy.line):
        sent = line.plain.request("proxy/initialize", encoded(initialize_params(context.version)))
        await context.holds(lambda one=sent: one.response is not None)
        code = sent.response.code if sent.response else None
        context.add(
            "R-PROXY-10",
            code == -32600,
            *sent.evidence,
            expected="-32600, because only a conductor sends it",
            got=sent.describe(),
        )


HANDSHAKE = (_initialize, _failure, _proxy_initialize)


# Messages between the ends of a chain, and on each hop.


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


FORWARDING = (_ends, _hops)


# Cancellation in a chain: the conductor translates ids, and understands both forms.

_SLOW = "_accord-check/slow"
_CANCELLED = b'{"code":-32800,"message":"Cancelled"}'


async def _open(context: ConductorContext, origin: End, target: End) -> tuple[Sent, Arrival]:
    """Send a request that is left open; return it and its arrival."""
    sent = origin.request(_SLOW, b'{"a":1}')
    await context.wait_until(lambda: bool(target.since(sent.frame, _SLOW)), _SLOW)
    return sent, target.since(sent.frame, _SLOW)[0]


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
async def _cancelled_ends(context: ConductorContext) -> None:
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
    origin.notify(_SLOW, b'{"a":2}')
    if not await context.holds(lambda: bool(target.since(never, _SLOW))):
        raise NoResponse("a notification after a cancellation did not pass")


CANCELLATION = (_cancelled_ends, _forms)


# Order within a direction, independence of the directions, and bounded queues.

_COUNT = "_accord-check/count"
_ASK = "_accord-check/ask"
_MESSAGES = 100
_LARGE_BYTES = 256 * 1024
_LIMIT_BYTES = 48 * 1024 * 1024  # more than pipes, sockets and bounded queues hold
_STALLED_S = 1.0


@scenario("order/ends", "R-PROXY-18")
async def _order_of_ends(context: ConductorContext) -> None:
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


ORDER = (_order_of_ends, _directions, _stalled_client)


# A component exits: the chain ends with errors that name it.


def _judge_error(context: ConductorContext, sent: Sent) -> None:
    """Judge that a request that was open got an error that names the component."""
    error = decoded(sent.response.error) if sent.response and not sent.ok else None
    named = member(member(error, "data"), "component")
    context.add(
        "R-PROXY-22",
        isinstance(named, str | int),
        *sent.evidence,
        expected="an error with `data.component`",
        got=format_value(error) if is_object(error) else sent.describe(),
    )


async def _judge_end(context: ConductorContext) -> None:
    context.add(
        "R-PROXY-22",
        await context.holds(lambda: context.client.hop.is_closed),
        context.tape.frames[-1],
        expected="the end of the connection of the client",
        got="an open connection",
    )


@scenario("life/agent-exit", "R-PROXY-17", "R-PROXY-22")
async def _agent_exit(context: ConductorContext) -> None:
    """The agent exits while a wrapped request is open."""
    await context.start()
    context.may_exit = True
    first, last = context.proxy, context.components[context.names[-2]]
    first.relays = last.relays = False
    waiting = context.client.plain.request(_SLOW, b'{"a":1}')
    target = first.line.plain
    await context.wait_until(lambda: bool(target.since(waiting.frame, _SLOW)), _SLOW)
    sent = last.line.wrapped.request(_SLOW, b'{"a":1}')
    agent = context.agent.line.plain
    await context.wait_until(lambda: bool(agent.since(sent.frame, _SLOW)), _SLOW)
    await context.stop(context.agent)
    await context.holds(lambda: sent.response is not None)
    context.add(
        "R-PROXY-17",
        sent.response is not None and not sent.ok,
        *sent.evidence,
        expected=f"an error of the request {context.dialect.request}",
        got=sent.describe(),
    )
    await context.holds(lambda: waiting.response is not None)
    _judge_error(context, waiting)
    await _judge_end(context)


@scenario("life/proxy-exit", "R-PROXY-22")
async def _proxy_exit(context: ConductorContext) -> None:
    """The first proxy exits while a request of the client is open."""
    await context.start()
    context.may_exit = True
    context.proxy.relays = False
    waiting = context.client.plain.request(_SLOW, b'{"a":1}')
    target = context.proxy.line.plain
    await context.wait_until(lambda: bool(target.since(waiting.frame, _SLOW)), _SLOW)
    await context.stop(context.proxy)
    await context.holds(lambda: waiting.response is not None)
    _judge_error(context, waiting)
    await _judge_end(context)


LIFE = (_agent_exit, _proxy_exit)


# All scenarios.

_SCENARIOS: tuple[Scenario[ConductorContext], ...] = (
    *HANDSHAKE,
    *FORWARDING,
    *CANCELLATION,
    *ORDER,
    *LIFE,
)


def conductor_scenarios() -> tuple[Scenario[ConductorContext], ...]:
    """Return the scenarios for conductors."""
    return _SCENARIOS
