"""Lines, ids and messages that nobody knows: what a client has to bear."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from accord_conformance.client.context import ClientContext, Json, describe_outcome
from accord_conformance.client.fixtures import ABSENT_METHOD
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import scenario

__all__ = ("SCENES",)

# What each request of this revision of MCP says of its caller.
_MCP: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@scenario("wire/requests", "R-EXT-05", "R-EXT-06", "R-GEN-09")
async def _requests(scene: ClientContext) -> None:
    """Requests of methods that the client does not know, with params, null and none."""
    for ident in ("a text", 9_007_199_254_740_991):
        call = scene.connection.send_request("_accord/unknown", {"any": [1, {}]}, ident=ident)
        with suppress(NoResponse):
            await scene.connection.wait_for_response(call)
        there = call.response is not None
        scene.require(not scene.connection.is_closed, "the client hung up")
        scene.judge("R-EXT-05", there, call, expected="an answer", got="none")
        if not there:
            continue
        # A result would mean that it knows the method.
        kept = call.code == -32601
        scene.judge("R-EXT-06", kept, call, expected="error -32601", got=describe_outcome(call))
    for nothing in ({}, {"params": None}):
        scene.connection.send_message(id=f"without {len(nothing)}", method=ABSENT_METHOD, **nothing)
        call = scene.connection.observer.state.find_request("agent", f"without {len(nothing)}")
        assert call is not None
        await scene.connection.wait_for_response(call)
        kept = call.code not in (-32600, -32602, -32700)
        expected = "the answer that the method gets with `{}`"
        scene.judge("R-GEN-09", kept, call, expected=expected, got=describe_outcome(call))


@scenario("wire/notifications", "R-EXT-07", "R-REQCAN-10")
async def _notifications(scene: ClientContext) -> None:
    """Notifications that the client does not know."""
    sent = [
        scene.send_notification("_accord/unheard", {"any": 1}),
        scene.send_notification("session/unheard", scene.session_params()),
    ]
    await scene.expect_alive("R-EXT-07", "an unknown notification", *sent)
    sent = [
        scene.send_notification("$/accord/unheard", {"any": 1}),
        scene.send_notification("$/unheard"),
    ]
    await scene.expect_alive("R-REQCAN-10", "an unknown notification of `$/`", *sent)


@scenario("wire/cancels", "R-REQCAN-06")
async def _cancels(scene: ClientContext) -> None:
    """`$/cancel_request` for a request that nobody has sent, and for one that is answered."""
    done = await scene.call(ABSENT_METHOD, {})
    sent = [
        scene.send_notification("$/cancel_request", {"requestId": "never sent"}),
        scene.send_notification("$/cancel_request", {"requestId": done.id}),
    ]
    await scene.expect_alive("R-REQCAN-06", "a cancel that comes too late", *sent)


@scenario("wire/answers", "R-ERR-04")
async def _answers(scene: ClientContext) -> None:
    """Answers to requests that the client has never made."""
    sent = [
        scene.send(b'{"jsonrpc":"2.0","id":"never asked","result":{}}'),
        scene.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"It is so"}}'),
    ]
    before = len(scene.connection.observer.state.frames)
    await scene.expect_alive("R-ERR-04", "an answer to nothing", *sent)
    for frame in scene.connection.observer.state.frames[before:]:
        if frame.sender == "client" and b"never asked" in frame.text:
            scene.judge("R-ERR-04", False, *sent, frame, expected="nothing", got="an answer to it")


@scenario("wire/lines", "R-STDIO-11")
async def _lines(scene: ClientContext) -> None:
    """Blank lines, a carriage return, bytes that are no UTF-8."""
    note = msgspec.json.encode({"jsonrpc": "2.0", "method": "_accord/unheard"})
    sent = [scene.send(b""), scene.send(b"  "), scene.send(note + b"\r")]
    await scene.expect_alive("R-STDIO-11", "blank lines and a carriage return", *sent)
    call = scene.connection.send_request(ABSENT_METHOD, {})
    sent = [scene.send(note[:-1] + b',"params":{"a":"\xff\xfe"}}')]
    await scene.connection.wait_for_response(call)
    await scene.expect_alive("R-STDIO-11", "a line that is no UTF-8", *sent)


@scenario("wire/broken")
async def _broken(scene: ClientContext) -> None:
    """A line that is no JSON, one that is no message, an array: what they owe is observed."""
    scene.send(b'{"jsonrpc":"2.0","id":')
    await scene.agent.is_alive()
    scene.send(b'{"jsonrpc":"2.0","id":"no name","method":5}')
    await scene.agent.is_alive()
    entry = {"jsonrpc": "2.0", "id": "in an array", "method": ABSENT_METHOD}
    scene.send(msgspec.json.encode([entry]))
    await scene.agent.is_alive()
    if scene.version == 2:
        scene.send(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": ABSENT_METHOD}))
        await scene.agent.is_alive()


@scenario("wire/not_offered", "R-INIT-29")
async def _not_offered(scene: ClientContext) -> None:
    """Asks for what the client does not offer: files, commands, forms and pages."""
    asks: list[tuple[bool, str, Json]] = [
        (scene.supports("fs", "readTextFile"), "fs/read_text_file", {"path": "/accord-check"}),
        (scene.supports("terminal"), "terminal/create", {"command": "accord-check-nothing"}),
    ]
    for offered, method, params in asks:
        if offered:
            continue
        call = await scene.call(method, scene.session_params(**params))
        kept = call.code in (-32601, -32602)
        expected = "-32601 or -32602 for what it does not offer"
        scene.judge("R-INIT-29", kept, call, expected=expected, got=describe_outcome(call))
    form: Json = {"requestedSchema": {"type": "object", "properties": {}}}
    page: Json = {"elicitationId": "not offered", "url": "https://example.com/"}
    for mode, more in (("form", form), ("url", page)):
        if not scene.supports("elicitation", mode):
            params = scene.session_params(mode=mode, message="This was not offered", **more)
            await scene.call("elicitation/create", params)  # observed


@scenario("wire/servers", "R-MOA-07")
async def _servers(scene: ClientContext) -> None:
    """Asks for something of an MCP server that the client has never declared."""
    inner: Json = {"method": "tools/list", "params": {"_meta": _MCP}}
    params: Json = {"serverId": "accord-nowhere", "requestId": "accord-1", **inner}
    call = await scene.call("mcp/message", params)
    known = call.code not in (-32601, -32602)
    scene.require(known, "the client carries no MCP over this connection")
    kept = call.code == -33001
    expected = "-33001 for a server that is not registered"
    scene.judge("R-MOA-07", kept, call, expected=expected, got=describe_outcome(call))


SCENES = (_requests, _notifications, _cancels, _answers, _lines, _broken, _not_offered, _servers)
