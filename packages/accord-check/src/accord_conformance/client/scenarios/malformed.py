"""Malformed and unknown lines, ids and messages."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from accord_conformance.client.context import ClientContext, Json, describe_outcome
from accord_conformance.client.fixtures import ABSENT_METHOD
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import scenario

# The metadata of each request in this revision of MCP.
_MCP: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@scenario("malformed/unknown-requests", "R-EXT-05", "R-EXT-06", "R-GEN-09")
async def _requests(context: ClientContext) -> None:
    """Sends requests with unknown methods: with params, with null and without params."""
    for ident in ("a text", 9_007_199_254_740_991):
        call = context.connection.send_request("_accord/unknown", {"any": [1, {}]}, ident=ident)
        with suppress(NoResponse):
            await context.connection.wait_for_response(call)
        is_answered = call.response is not None
        context.require(not context.connection.is_closed, "the client disconnected")
        context.judge("R-EXT-05", is_answered, call, expected="a response", got="none")
        if not is_answered:
            continue
        # A result would mean that it knows the method.
        passed = call.code == -32601
        context.judge("R-EXT-06", passed, call, expected="error -32601", got=describe_outcome(call))
    for nothing in ({}, {"params": None}):
        context.connection.send_message(
            id=f"without {len(nothing)}", method=ABSENT_METHOD, **nothing
        )
        call = context.connection.observer.state.find_request("agent", f"without {len(nothing)}")
        assert call is not None
        await context.connection.wait_for_response(call)
        passed = call.code not in (-32600, -32602, -32700)
        expected = "the same response as with `{}`"
        context.judge("R-GEN-09", passed, call, expected=expected, got=describe_outcome(call))


@scenario("malformed/unknown-notifications", "R-EXT-07", "R-REQCAN-10")
async def _notifications(context: ClientContext) -> None:
    """Sends notifications with unknown methods."""
    sent = [
        context.send_notification("_accord/unheard", {"any": 1}),
        context.send_notification("session/unheard", context.session_params()),
    ]
    await context.expect_alive("R-EXT-07", "an unknown notification", *sent)
    sent = [
        context.send_notification("$/accord/unheard", {"any": 1}),
        context.send_notification("$/unheard"),
    ]
    await context.expect_alive("R-REQCAN-10", "an unknown notification with `$/`", *sent)


@scenario("malformed/late-cancels", "R-REQCAN-06")
async def _cancels(context: ClientContext) -> None:
    """Sends `$/cancel_request` for an unknown request, and for an answered one."""
    done = await context.call(ABSENT_METHOD, {})
    sent = [
        context.send_notification("$/cancel_request", {"requestId": "never sent"}),
        context.send_notification("$/cancel_request", {"requestId": done.id}),
    ]
    await context.expect_alive("R-REQCAN-06", "a cancel that comes too late", *sent)


@scenario("malformed/responses", "R-ERR-04")
async def _answers(context: ClientContext) -> None:
    """Sends responses that match no request."""
    sent = [
        context.send(b'{"jsonrpc":"2.0","id":"never asked","result":{}}'),
        context.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"It is so"}}'),
    ]
    before = len(context.connection.observer.state.frames)
    await context.expect_alive("R-ERR-04", "a response without a request", *sent)
    for frame in context.connection.observer.state.frames[before:]:
        if frame.sender == "client" and b"never asked" in frame.text:
            context.judge(
                "R-ERR-04", False, *sent, frame, expected="nothing", got="a response to it"
            )


@scenario("malformed/lines", "R-STDIO-11", media=("stdio",))
async def _lines(context: ClientContext) -> None:
    """Sends blank lines, a carriage return, and bytes that are not UTF-8."""
    note = msgspec.json.encode({"jsonrpc": "2.0", "method": "_accord/unheard"})
    sent = [context.send(b""), context.send(b"  "), context.send(note + b"\r")]
    await context.expect_alive("R-STDIO-11", "blank lines and a carriage return", *sent)
    call = context.connection.send_request(ABSENT_METHOD, {})
    sent = [context.send(note[:-1] + b',"params":{"a":"\xff\xfe"}}')]
    await context.connection.wait_for_response(call)
    await context.expect_alive("R-STDIO-11", "a line that is not UTF-8", *sent)


# Readers of events skip what is not a message (R-HTTP-28).
@scenario("malformed/frames", media=("stdio", "websocket"))
async def _broken(context: ClientContext) -> None:
    """Sends a line that is not JSON, one that is not a message, and an array."""
    context.send(b'{"jsonrpc":"2.0","id":')
    await context.agent.is_alive()
    context.send(b'{"jsonrpc":"2.0","id":"no name","method":5}')
    await context.agent.is_alive()
    entry = {"jsonrpc": "2.0", "id": "in an array", "method": ABSENT_METHOD}
    context.send(msgspec.json.encode([entry]))
    await context.agent.is_alive()
    if context.version == 2:
        context.send(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": ABSENT_METHOD}))
        await context.agent.is_alive()


@scenario("malformed/unsupported-methods", "R-INIT-29")
async def _not_offered(context: ClientContext) -> None:
    """Sends requests that the client does not support: files, commands, elicitations."""
    asks: list[tuple[bool, str, Json]] = [
        (context.supports("fs", "readTextFile"), "fs/read_text_file", {"path": "/accord-check"}),
        (context.supports("terminal"), "terminal/create", {"command": "accord-check-nothing"}),
    ]
    for offered, method, params in asks:
        if offered:
            continue
        call = await context.call(method, context.session_params(**params))
        passed = call.code in (-32601, -32602)
        expected = "-32601 or -32602 for a method that it does not advertise"
        context.judge("R-INIT-29", passed, call, expected=expected, got=describe_outcome(call))
    form: Json = {"requestedSchema": {"type": "object", "properties": {}}}
    page: Json = {"elicitationId": "not offered", "url": "https://example.com/"}
    for mode, more in (("form", form), ("url", page)):
        if not context.supports("elicitation", mode):
            params = context.session_params(mode=mode, message="This was not advertised", **more)
            await context.call("elicitation/create", params)  # observed


@scenario("malformed/unknown-server", "R-MOA-07")
async def _servers(context: ClientContext) -> None:
    """Sends a request for an MCP server that the client has not declared."""
    inner: Json = {"method": "tools/list", "params": {"_meta": _MCP}}
    params: Json = {"serverId": "accord-nowhere", "requestId": "accord-1", **inner}
    call = await context.call("mcp/message", params)
    is_supported = call.code not in (-32601, -32602)
    context.require(is_supported, "the client does not support MCP over ACP")
    passed = call.code == -33001
    expected = "-33001 for a server that is not registered"
    context.judge("R-MOA-07", passed, call, expected=expected, got=describe_outcome(call))


SCENARIOS = (_requests, _notifications, _cancels, _answers, _lines, _broken, _not_offered, _servers)
