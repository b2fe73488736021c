"""MCP over ACP through a proxy: messages for servers of the client, and for its own."""

from __future__ import annotations

from accord.text.lenient_json import is_object
from accord_conformance.chain.proxy_context import ProxyContext
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.strict_types import format_value

__all__ = ("SCENARIOS",)

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


SCENARIOS = (_forward,)
