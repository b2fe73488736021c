"""The handshake of a proxy: it initializes its successor, and derives its own response."""

from __future__ import annotations

from accord.text.lenient_json import is_object
from accord_conformance.chain.line import Arrival, ChainLine, Sent
from accord_conformance.chain.proxy_context import (
    ProxyContext,
    initialize_params,
    initialize_result,
)
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.raw_hop import encoded
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.strict_types import format_value

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


SCENARIOS = (_forward, _lower_version, _capabilities, _failure, _terminal)
