"""The scenarios for proxies: handshake, forwarding, cancellation, order, and MCP over ACP."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.chain.line import (
    CUSTOM,
    EXITED,
    ODD,
    ODD_ERROR,
    ODD_RESULT,
    UNKNOWN,
    Arrival,
    ChainLine,
    End,
    Sent,
)
from accord_conformance.chain.proxy_context import (
    ProxyContext,
    initialize_params,
    initialize_result,
)
from accord_conformance.harness import NoResponse, NotExercised, Scenario, encoded, scenario
from accord_conformance.traffic.message import format_value

# The handshake of a proxy: it initializes its successor, and derives its own response.

_REFUSED = b'{"code":-32603,"message":"Cannot start","data":{"why":"accord-check"}}'


async def _send(context: ProxyContext, line: ChainLine) -> tuple[Sent, Arrival | None]:
    """Send the request that initializes the proxy; return it and the `initialize` it forwards."""
    params = context.dialect.initialize_params(initialize_params(context.version))
    sent = line.plain.request(context.dialect.initialize, encoded(params))
    await line.hop.wait_until(
        lambda: bool(sent.response or line.wrapped.since(sent.frame)),
        "initialize for the successor",
        context.settings.answer_s,
    )
    forwarded = line.wrapped.since(sent.frame)
    return sent, forwarded[0] if forwarded else None


@scenario("handshake/forward", "R-PROXY-13", "R-PROXY-14")
async def _forward(context: ProxyContext) -> None:
    """The proxy forwards `initialize` to its successor before it answers, in the same version."""
    line = await context.connect()
    sent, arrival = await _send(context, line)
    seen = (*sent.evidence, arrival.frame if arrival else None)
    is_initialize = arrival is not None and arrival.method == "initialize" and arrival.is_request
    context.add(
        "R-PROXY-13",
        is_initialize and sent.response is None,
        *seen,
        expected=f"a request {context.dialect.request} with `initialize`, before the response",
        got=_first(sent, arrival),
    )
    if arrival is None or not is_initialize:
        return
    value = arrival.value
    forwarded = value.get("protocolVersion") if is_object(value) else None
    context.add(
        "R-PROXY-14",
        forwarded == context.version,
        sent.frame,
        arrival.frame,
        expected=f"protocolVersion {context.version} for the successor",
        got=format_value(forwarded),
    )
    arrival.reply(encoded(initialize_result(context.version)))
    await sent.wait(context.settings.answer_s)
    if sent.ok:
        _judge_version(context, sent, arrival, context.version)


@scenario("handshake/lower-version", "R-PROXY-14", versions=(2,))
async def _lower_version(context: ProxyContext) -> None:
    """The successor supports only version 1: the proxy answers with it, or with an error."""
    line = await context.connect()
    sent, arrival = await _send(context, line)
    if arrival is None:
        raise NotExercised("the proxy does not initialize its successor")
    arrival.reply(encoded(initialize_result(1)))
    await sent.wait(context.settings.answer_s)
    if sent.ok:
        _judge_version(context, sent, arrival, 1)
    else:
        context.add("R-PROXY-14", True)


def _judge_version(context: ProxyContext, sent: Sent, arrival: Arrival, version: int) -> None:
    answered = sent.result.get("protocolVersion") if is_object(sent.result) else None
    context.add(
        "R-PROXY-14",
        answered == version,
        arrival.frame,
        *sent.evidence,
        expected=f"protocolVersion {version}, as the successor answered",
        got=format_value(answered),
    )


def _first(sent: Sent, arrival: Arrival | None) -> str:
    if arrival is None:
        return f"{sent.describe()}, and nothing for the successor"
    if sent.response is not None:
        return f"{sent.describe()} at once"
    return f"{'a request' if arrival.is_request else 'a notification'} {arrival.method}"


@scenario("handshake/capabilities", "R-PROXY-06")
async def _capabilities(context: ProxyContext) -> None:
    """Two successors with different capabilities: the responses of the proxy differ as well."""
    found: list[Sent] = []
    for rich in (True, False):
        line = await context.connect()
        sent = await context.initialize(line, initialize_result(context.version, rich=rich))
        if not sent.ok:
            raise NotExercised("the proxy refused the handshake")
        found.append(sent)
    rich_result, bare_result = (one.result for one in found)
    context.add(
        "R-PROXY-06",
        rich_result != bare_result,
        *found[1].evidence,
        expected="another response for a successor without capabilities",
        got="the same response for both successors",
    )


@scenario("handshake/failure", "R-PROXY-06", "R-PROXY-08")
async def _failure(context: ProxyContext) -> None:
    """The successor answers `initialize` with an error: the proxy answers with it, too."""
    line = await context.connect()
    sent, arrival = await _send(context, line)
    if arrival is None or arrival.method != "initialize":
        raise NotExercised("the proxy does not initialize its successor")
    answer = arrival.fail(_REFUSED)
    await sent.wait(context.settings.answer_s)
    context.add(
        "R-PROXY-06",
        not sent.ok,
        answer,
        *sent.evidence,
        expected="an error, because the successor answered with one",
        got=sent.describe(),
    )
    if not sent.ok:
        context.compare_response(sent, _REFUSED, answer)
    context.may_exit = True


@scenario("handshake/terminal", "R-PROXY-03")
async def _terminal(context: ProxyContext) -> None:
    """`initialize` instead of the method for proxies: there is no successor."""
    line = await context.connect()
    context.may_exit = True
    sent = line.plain.request("initialize", encoded(initialize_params(context.version)))
    try:
        await line.hop.wait_until(
            lambda: bool(sent.response or line.wrapped.arrivals),
            "response to initialize",
            context.settings.answer_s,
        )
    except NoResponse:
        if not line.hop.is_closed:
            raise
    arrived = line.wrapped.arrivals
    context.add(
        "R-PROXY-03",
        not arrived,
        *sent.evidence,
        *(one.frame for one in arrived[:1]),
        expected="no message for a successor, which the proxy does not have",
        got=f"{arrived[0].method} for a successor" if arrived else "",
    )


HANDSHAKE = (_forward, _lower_version, _capabilities, _failure, _terminal)


# What a proxy does not change passes through it unchanged, in both directions.

_PASSING = ("R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-20")


def _directions(line: ChainLine) -> tuple[End, End]:
    return line.plain, line.wrapped


@scenario("forward/requests", *_PASSING, "R-PROXY-08")
async def _requests(context: ProxyContext) -> None:
    """Requests of unknown methods pass in both directions, and so do their results."""
    line = await context.start()
    for origin in _directions(line):
        for method in (CUSTOM, UNKNOWN):
            sent, arrival = await context.forwarded(origin, method, ODD)
            if sent is not None and arrival is not None and arrival.is_request:
                answer = arrival.reply(ODD_RESULT)
                if await context.answered("R-PROXY-08", sent, answer):
                    context.compare_response(sent, ODD_RESULT, answer)


@scenario("forward/notifications", *_PASSING)
async def _notifications(context: ProxyContext) -> None:
    """Notifications of unknown methods pass in both directions."""
    line = await context.start()
    for origin in _directions(line):
        for method in (CUSTOM, UNKNOWN):
            await context.forwarded(origin, method, ODD, is_request=False)


@scenario("forward/params", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15")
async def _params(context: ProxyContext) -> None:
    """Params may be absent, null, or an array."""
    line = await context.start()
    for origin in _directions(line):
        for params in (None, b"null", b"[1,{},null]", b"{}"):
            await context.forwarded(origin, CUSTOM, params, is_request=False)


@scenario("forward/envelope", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-16")
async def _envelope(context: ProxyContext) -> None:
    """`_meta` of an envelope belongs to that hop, and that of the message inside does not."""
    line = await context.start()
    for params in (b'{"a":1}', b'{"a":1,"_meta":{"inner":1}}'):
        for is_request in (True, False):
            _, arrival = await context.forwarded(
                line.wrapped, CUSTOM, params, meta=b'{"accord-check/hop":1}', is_request=is_request
            )
            if arrival is not None:
                context.add(
                    "R-PROXY-16",
                    b"accord-check/hop" not in arrival.frame.text,
                    arrival.frame,
                    expected="a message without the `_meta` of the envelope",
                    got="a message that has it",
                )


@scenario("forward/errors", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-08", "R-PROXY-20")
async def _errors(context: ProxyContext) -> None:
    """Errors of both ends pass unchanged, and so does that of a successor that has exited."""
    line = await context.start()
    for origin in _directions(line):
        for error in (ODD_ERROR, EXITED):
            sent, arrival = await context.forwarded(origin, CUSTOM, b'{"a":1}')
            if sent is not None and arrival is not None and arrival.is_request:
                answer = arrival.fail(error)
                if await context.answered("R-PROXY-08", sent, answer):
                    context.compare_response(sent, error, answer)


_SESSION = b'"sessionId":"accord-check"'
_TEXT = b'[{"type":"text","text":"hello","_meta":{"n":1.0}}]'
_OPTIONS = b'[{"optionId":"yes","name":"Yes","kind":"allow_once"}]'
_TOOL = b'{"toolCallId":"t1","title":"Edit","later":1.0}'
# A conversation: which end sends, the method, its params, and the result; None for a notification.
_Step = tuple[str, str, bytes, bytes | None]
_CONVERSATION_V1: tuple[_Step, ...] = (
    ("client", "session/new", b'{"cwd":"/","mcpServers":[],"later":1.0}', b"{%s}" % _SESSION),
    (
        "client",
        "session/prompt",
        b'{%s,"prompt":%s}' % (_SESSION, _TEXT),
        b'{"stopReason":"end_turn"}',
    ),
    (
        "agent",
        "session/update",
        b'{%s,"update":{"sessionUpdate":"agent_message_chunk","content":'
        b'{"type":"text","text":"hi"},"later":1.0}}' % _SESSION,
        None,
    ),
    (
        "agent",
        "session/request_permission",
        b'{%s,"toolCall":%s,"options":%s}' % (_SESSION, _TOOL, _OPTIONS),
        b'{"outcome":{"outcome":"selected","optionId":"yes","later":1.0}}',
    ),
    ("agent", "fs/read_text_file", b'{%s,"path":"/a","line":1}' % _SESSION, b'{"content":"a"}'),
    (
        "agent",
        "terminal/create",
        b'{%s,"command":"true","args":[]}' % _SESSION,
        b'{"terminalId":"1"}',
    ),
    ("client", "session/list", b'{"cwd":"/"}', b'{"sessions":[]}'),
    ("client", "session/cancel", b'{%s,"later":1.0}' % _SESSION, None),
)
_CONVERSATION_V2: tuple[_Step, ...] = (
    ("client", "session/new", b'{"cwd":"/","later":1.0}', b"{%s}" % _SESSION),
    ("client", "session/prompt", b'{%s,"prompt":%s}' % (_SESSION, _TEXT), b'{"messageId":"m1"}'),
    (
        "agent",
        "session/update",
        b'{%s,"update":{"sessionUpdate":"state_update","state":"running","later":1.0}}' % _SESSION,
        None,
    ),
    (
        "agent",
        "session/request_permission",
        b'{%s,"title":"May I?","subject":{"type":"tool_call","toolCall":%s},"options":%s}'
        % (_SESSION, _TOOL, _OPTIONS),
        b'{"outcome":{"outcome":"selected","optionId":"yes","later":1.0}}',
    ),
    ("client", "session/list", b'{"cwd":"/"}', b'{"sessions":[]}'),
    ("client", "session/cancel", b'{%s,"later":1.0}' % _SESSION, None),
)


@scenario("forward/protocol", *_PASSING, "R-PROXY-08")
async def _protocol(context: ProxyContext) -> None:
    """A session with a turn: every method passes that the proxy does not change on purpose."""
    line = await context.start()
    steps = _CONVERSATION_V1 if context.version == 1 else _CONVERSATION_V2
    for side, method, params, result in steps:
        origin = line.plain if side == "client" else line.wrapped
        sent, arrival = await context.forwarded(
            origin, method, params, is_request=result is not None
        )
        if sent is None or arrival is None or result is None or not arrival.is_request:
            continue
        answer = arrival.reply(result)
        if method in context.settings.changes:
            await sent.wait(context.settings.answer_s)
        elif await context.answered("R-PROXY-08", sent, answer):
            context.compare_response(sent, result, answer)


FORWARDING = (_requests, _notifications, _params, _envelope, _errors, _protocol)


# Cancellation: each hop cancels its own request, by its own id.

_SLOW = "_accord-check/slow"
_CANCELLED = b'{"code":-32800,"message":"Cancelled","data":{"at":"the end"}}'


@scenario("cancel/hops", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-08", "R-REQCAN-11")
async def _hops(context: ProxyContext) -> None:
    """A request of either end is cancelled: the proxy cancels its own request to the other."""
    line = await context.start()
    for origin in (line.plain, line.wrapped):
        # So that the ids of the two hops differ.
        for ident in ("accord-check-1", line.next_id() + 1000):
            sent, arrival = await context.forwarded(origin, _SLOW, b'{"a":1}', ident=ident)
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
        sent, arrival = await context.forwarded(origin, _SLOW, b'{"a":1}')
        if sent is None or arrival is None:
            continue
        arrival.reply(b"{}")
        await sent.wait(context.settings.answer_s)
        late = sent.cancel()
        never = line.hop.send_message(
            method=encoded("$/cancel_request"), params=encoded({"requestId": "accord-check-none"})
        )
        # A message after them: then the proxy has handled both.
        await context.forwarded(origin, _SLOW, b'{"a":2}', is_request=False)
        context.add(
            "R-REQCAN-11",
            not line.stray_cancels,
            late,
            never,
            *line.stray_cancels,
            expected="no cancellation of a request that is not open",
            got="one" if line.stray_cancels else "",
        )


CANCELLATION = (_hops, _unknown)


# Order within a direction, and independence of the two directions.

_COUNT = "_accord-check/count"
_ASK = "_accord-check/ask"
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
async def _independent_directions(context: ProxyContext) -> None:
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


ORDER = (_direction, _independent_directions)


# MCP over ACP through a proxy: messages for servers of the client, and for its own.

_CARRY = "mcp/message"
_INNER = (
    b'{"z":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}}'
)
_RESULTS = (
    b'{"result":{"tools":[],"ttlMs":1.0}}',
    b'{"error":{"code":-32601,"message":"Inner","data":{"z":1,"a":2}}}',
)


@scenario("mcp/forward", "R-MOA-10", "R-PROXY-04", "R-PROXY-05", "R-PROXY-15", "R-PROXY-08")
async def _mcp_forward(context: ProxyContext) -> None:
    """MCP messages for servers that the proxy does not have pass in both directions."""
    line = await context.start()
    for number, result in enumerate(_RESULTS):
        ident = b'"accord-check-%d"' % number
        params = b'{"serverId":"accord-check-server","requestId":%s,"method":"tools/list",' % ident
        sent, arrival = await context.forwarded(
            line.wrapped, _CARRY, params + b'"params":%s}' % _INNER
        )
        if sent is None or arrival is None:
            continue
        value = arrival.value
        kept = is_object(value) and value.get("requestId") == f"accord-check-{number}"
        context.add(
            "R-MOA-10",
            kept,
            sent.frame,
            arrival.frame,
            expected="the requestId of the agent",
            got=format_value(value.get("requestId") if is_object(value) else value),
        )
        note = params.replace(b"tools/list", b"notifications/progress")
        await context.forwarded(
            line.plain, _CARRY, note + b'"params":{"progress":0.50}}', is_request=False
        )
        answer = arrival.reply(result)
        if await context.answered("R-PROXY-08", sent, answer):
            context.compare_response(sent, result, answer)


_NEW = "session/new"
_CLIENTS_SERVER = "accord-check-clients-server"
_SETUP = (
    b'{"cwd":"/","mcpServers":[{"type":"acp","name":"accord-check","serverId":"%s"}]}'
    % _CLIENTS_SERVER.encode()
)
_NO_SERVER = b'{"code":-33001,"message":"MCP server not found"}'


@scenario("mcp/added", "R-MOA-02", "R-MOA-06", "R-MOA-08", "R-MOA-12")
async def _added(context: ProxyContext) -> None:
    """Servers that the proxy adds to a session answer as soon as they are declared."""
    line = await context.start()
    known = [_CLIENTS_SERVER]
    for number in (1, 2):
        sent = line.plain.request(_NEW, _SETUP)
        await line.hop.wait_until(
            lambda one=sent: bool(one.response or line.wrapped.since(one.frame, _NEW)),
            _NEW,
            context.settings.answer_s,
        )
        arrived = line.wrapped.since(sent.frame, _NEW)
        if not arrived:
            raise NotExercised("the proxy answers session/new itself")
        added = _servers(arrived[0])
        if added:
            known += added
            context.add(
                "R-MOA-02",
                len(set(known)) == len(known),
                arrived[0].frame,
                expected="a new serverId for each server of this connection",
                got=", ".join(added),
            )
            if number == 1:
                await _use(context, line, added[0])
        arrived[0].reply(b'{"sessionId":"accord-check-%d"}' % number)
        await sent.wait(context.settings.answer_s)
        if not added:
            raise NotExercised("the proxy adds no MCP servers over ACP to a session")


def _servers(setup: Arrival) -> list[str]:
    """Return the ids of the servers over ACP that are not the client's."""
    params = setup.value
    servers: Any = params.get("mcpServers") if is_object(params) else None
    ids = [
        one.get("serverId")
        for one in (servers if is_array(servers) else ())
        if is_object(one) and one.get("type") == "acp"
    ]
    if _CLIENTS_SERVER in ids:
        ids.remove(_CLIENTS_SERVER)
    return [one for one in ids if isinstance(one, str)]


async def _use(context: ProxyContext, line: ChainLine, server: str) -> None:
    """Send requests to a server while its session is being created."""
    listed = await _call(context, line, server, "tools/list")
    context.add(
        "R-MOA-08",
        listed.ok,
        *listed.evidence,
        expected="an answer of the server that the proxy has declared",
        got=listed.describe(),
    )
    if not listed.ok:
        return
    outcome = listed.result
    context.add(
        "R-MOA-06",
        is_object(outcome) and ("result" in outcome) != ("error" in outcome),
        *listed.evidence,
        expected="either `result` or `error` in the result",
        got=format_value(outcome),
    )
    unknown = await _call(context, line, server, "accord-check/unknown")
    inner: Any = unknown.result if unknown.ok else None
    error = inner.get("error") if is_object(inner) else None
    context.add(
        "R-MOA-12",
        is_object(error) and error.get("code") == -32601,
        *unknown.evidence,
        expected="the error -32601 of the MCP server inside the result",
        got=format_value(inner) if unknown.ok else unknown.describe(),
    )


async def _call(context: ProxyContext, line: ChainLine, server: str, method: str) -> Sent:
    """Send a request of the agent to a server; the client knows no such server."""
    params = {"serverId": server, "requestId": f"accord-check-{method}", "method": method}
    sent = line.wrapped.request(
        _CARRY, b'%s,"params":%s}' % (encoded(params).removesuffix(b"}"), _INNER)
    )
    await line.hop.wait_until(
        lambda: bool(sent.response or line.plain.since(sent.frame, _CARRY)),
        f"response to {_CARRY}",
        context.settings.answer_s,
    )
    for arrival in line.plain.since(sent.frame, _CARRY):
        if arrival.is_request:
            arrival.fail(_NO_SERVER)
    await sent.wait(context.settings.answer_s)
    return sent


MCP = (_mcp_forward, _added)


# All scenarios.

_SCENARIOS: tuple[Scenario[ProxyContext], ...] = (
    *HANDSHAKE,
    *FORWARDING,
    *CANCELLATION,
    *ORDER,
    *MCP,
)


def proxy_scenarios() -> tuple[Scenario[ProxyContext], ...]:
    """Return the scenarios for proxies."""
    return _SCENARIOS
