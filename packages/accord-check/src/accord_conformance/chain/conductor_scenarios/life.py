"""A component exits: the chain ends with errors that name it."""

from __future__ import annotations

from accord.text.lenient_json import is_object
from accord_conformance.chain.conductor_context import ConductorContext, member
from accord_conformance.chain.line import Sent
from accord_conformance.harness.raw_hop import decoded
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.strict_types import format_value

_SLOW = "_accord-check/slow"


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


SCENARIOS = (_agent_exit, _proxy_exit)
