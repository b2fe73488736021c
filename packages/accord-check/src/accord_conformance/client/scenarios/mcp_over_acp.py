"""MCP servers that the client provides over ACP: valid, malformed and cancelled requests."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.client.context import ClientContext, Json, describe_outcome
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value

_KEY = "io.modelcontextprotocol/"
_VERSION = "2026-07-28"
_META: Json = {f"{_KEY}protocolVersion": _VERSION, f"{_KEY}clientCapabilities": {}}


def _server(context: ClientContext) -> str:
    """Return the id of a declared server; raise `NotExercised` if there is none."""
    found = ""
    for call in context.connection.requests:
        if call.method not in SETUP_METHODS or not is_object(call.params):
            continue
        servers: Any = call.params.get("mcpServers")
        for one in servers if is_array(servers) else []:
            if is_object(one) and one.get("type") == "acp" and isinstance(one.get("serverId"), str):
                found = one["serverId"]
    context.require(bool(found), "the client declares no MCP servers over ACP")
    return found


class _Consumer:
    """Sends MCP requests to one server, each with an id of its own."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._server = _server(context)

    async def call(self, method: str, inner: Any) -> Request:
        """Send a request; return it with its response."""
        number = len(self._context.connection.observer.state.requests)
        return await self._context.call(
            "mcp/message",
            {
                "serverId": self._server,
                "requestId": f"accord-check-{number}",
                "method": method,
                "params": inner,
            },
        )


def _inner_code(call: Request) -> Any:
    """Return the code of the error of the MCP server, inside the result."""
    error = call.result.get("error") if is_object(call.result) else None
    return error.get("code") if is_object(error) else None


def _describe(call: Request) -> str:
    return f"the result {format_value(call.result)}" if call.ok else describe_outcome(call)


@scenario("mcp/context", "R-MOA-13")
async def _context(context: ClientContext) -> None:
    """Requests without the MCP version or the capabilities, and with another version."""
    consumer = _Consumer(context)
    wrong: list[tuple[str, Any, int]] = [
        ("a request without `_meta`", {}, -32602),
        ("a request without capabilities", {"_meta": {f"{_KEY}protocolVersion": _VERSION}}, -32602),
        ("another version", {"_meta": {**_META, f"{_KEY}protocolVersion": "1999-01-01"}}, -32022),
    ]
    for why, inner, code in wrong:
        call = await consumer.call("tools/list", inner)
        context.judge(
            "R-MOA-13",
            call.ok and _inner_code(call) == code,
            call,
            expected=f"the error {code} inside the result for {why}",
            got=_describe(call),
        )


@scenario("mcp/codes", "R-MOA-05", "R-MOA-12")
async def _codes(context: ClientContext) -> None:
    """Errors of the MCP server are inside the result, those of the connection outside."""
    consumer = _Consumer(context)
    call = await consumer.call("tools/list", {"_meta": _META})
    context.require(call.ok, "the server does not list its tools")
    call = await consumer.call("accord-check/unknown", {"_meta": _META})
    context.judge(
        "R-MOA-12",
        call.ok and _inner_code(call) == -32601,
        call,
        expected="the error -32601 of the MCP server inside the result",
        got=_describe(call),
    )
    call = await consumer.call("tools/list", [1])
    context.judge(
        "R-MOA-05",
        not call.ok or _inner_code(call) is not None,
        call,
        expected="an error for params that are an array",
        got=_describe(call),
    )


@scenario("mcp/cancel", "R-MOA-11")
async def _cancel(context: ClientContext) -> None:
    """A request is cancelled at once; a result may be faster."""
    server = _server(context)
    call = context.connection.send_request(
        "mcp/message",
        {
            "serverId": server,
            "requestId": "accord-check-cancelled",
            "method": "tools/list",
            "params": {"_meta": _META},
        },
    )
    context.cancel_request(call)
    await context.connection.wait_for_response(call)
    context.judge(
        "R-MOA-11",
        call.ok or call.code == -32800,
        call,
        expected="-32800, or a result that was faster",
        got=describe_outcome(call),
    )


@scenario("mcp/old-dialect", "R-MOA-16")
async def _old_dialect(context: ClientContext) -> None:
    """Requests that older drafts had."""
    for method in ("mcp/connect", "_mcp/connect"):
        call = await context.call(method, {"acpId": "accord-check"})
        context.judge(
            "R-MOA-16",
            call.code == -32601,
            call,
            expected=f"-32601 for {method}",
            got=describe_outcome(call),
        )


SCENARIOS = (_context, _codes, _cancel, _old_dialect)
