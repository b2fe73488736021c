"""The handshake of a chain: lazy, from the first component to the last."""

from __future__ import annotations

from accord.text.lenient_json import is_object
from accord_conformance.chain.conductor_context import Component, ConductorContext, member
from accord_conformance.chain.line import Arrival
from accord_conformance.chain.proxy_context import initialize_params, initialize_result
from accord_conformance.chain.same_json import same_value
from accord_conformance.harness.raw_hop import encoded
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.strict_types import format_value

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


SCENARIOS = (_initialize, _failure, _proxy_initialize)
