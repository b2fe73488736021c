"""MCP over ACP through a proxy: messages for servers of the client, and for its own."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.chain.line import Arrival, ChainLine, Sent
from accord_conformance.chain.proxy_context import ProxyContext
from accord_conformance.harness.raw_hop import encoded
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.strict_types import format_value

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
async def _forward(context: ProxyContext) -> None:
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


SCENARIOS = (_forward, _added)
