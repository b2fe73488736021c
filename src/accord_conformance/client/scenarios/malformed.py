"""Lines, ids and messages that nobody knows: what a client has to bear."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from accord_conformance.client.context import Json, Scene, outcome_of
from accord_conformance.client.fixtures import ABSENT_METHOD
from accord_conformance.harness.raw_connection import Silence
from accord_conformance.harness.scenario import scenario

__all__ = ("SCENES",)

# What each request of this revision of MCP says of its caller.
_MCP: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@scenario("wire/requests", "R-EXT-05", "R-EXT-06", "R-GEN-09")
async def _requests(scene: Scene) -> None:
    """Requests of methods that the client does not know, with params, null and none."""
    for ident in ("a text", 9_007_199_254_740_991):
        call = scene.line.ask("_accord/unknown", {"any": [1, {}]}, ident=ident)
        with suppress(Silence):
            await scene.line.reply(call)
        there = call.reply is not None
        scene.needs(not scene.line.hung_up, "the client hung up")
        scene.judge("R-EXT-05", there, call, expected="an answer", got="none")
        if not there:
            continue
        # A result would mean that it knows the method.
        kept = call.code == -32601
        scene.judge("R-EXT-06", kept, call, expected="error -32601", got=outcome_of(call))
    for nothing in ({}, {"params": None}):
        scene.line.message(id=f"without {len(nothing)}", method=ABSENT_METHOD, **nothing)
        call = scene.line.observer.talk.find("agent", f"without {len(nothing)}")
        assert call is not None
        await scene.line.reply(call)
        kept = call.code not in (-32600, -32602, -32700)
        expected = "the answer that the method gets with `{}`"
        scene.judge("R-GEN-09", kept, call, expected=expected, got=outcome_of(call))


@scenario("wire/notifications", "R-EXT-07", "R-REQCAN-10")
async def _notifications(scene: Scene) -> None:
    """Notifications that the client does not know."""
    sent = [scene.note("_accord/unheard", {"any": 1}), scene.note("session/unheard", scene.here())]
    await scene.goes_on("R-EXT-07", "an unknown notification", *sent)
    sent = [scene.note("$/accord/unheard", {"any": 1}), scene.note("$/unheard")]
    await scene.goes_on("R-REQCAN-10", "an unknown notification of `$/`", *sent)


@scenario("wire/cancels", "R-REQCAN-06")
async def _cancels(scene: Scene) -> None:
    """`$/cancel_request` for a request that nobody has sent, and for one that is answered."""
    done = await scene.ask(ABSENT_METHOD, {})
    sent = [
        scene.note("$/cancel_request", {"requestId": "never sent"}),
        scene.note("$/cancel_request", {"requestId": done.id}),
    ]
    await scene.goes_on("R-REQCAN-06", "a cancel that comes too late", *sent)


@scenario("wire/answers", "R-ERR-04")
async def _answers(scene: Scene) -> None:
    """Answers to requests that the client has never made."""
    sent = [
        scene.send(b'{"jsonrpc":"2.0","id":"never asked","result":{}}'),
        scene.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"It is so"}}'),
    ]
    before = len(scene.line.observer.talk.frames)
    await scene.goes_on("R-ERR-04", "an answer to nothing", *sent)
    for frame in scene.line.observer.talk.frames[before:]:
        if frame.sender == "client" and b"never asked" in frame.text:
            scene.judge("R-ERR-04", False, *sent, frame, expected="nothing", got="an answer to it")


@scenario("wire/lines", "R-STDIO-11")
async def _lines(scene: Scene) -> None:
    """Blank lines, a carriage return, bytes that are no UTF-8."""
    note = msgspec.json.encode({"jsonrpc": "2.0", "method": "_accord/unheard"})
    sent = [scene.send(b""), scene.send(b"  "), scene.send(note + b"\r")]
    await scene.goes_on("R-STDIO-11", "blank lines and a carriage return", *sent)
    call = scene.line.ask(ABSENT_METHOD, {})
    sent = [scene.send(note[:-1] + b',"params":{"a":"\xff\xfe"}}')]
    await scene.line.reply(call)
    await scene.goes_on("R-STDIO-11", "a line that is no UTF-8", *sent)


@scenario("wire/broken")
async def _broken(scene: Scene) -> None:
    """A line that is no JSON, one that is no message, an array: what they owe is observed."""
    scene.send(b'{"jsonrpc":"2.0","id":')
    await scene.posing.alive()
    scene.send(b'{"jsonrpc":"2.0","id":"no name","method":5}')
    await scene.posing.alive()
    entry = {"jsonrpc": "2.0", "id": "in an array", "method": ABSENT_METHOD}
    scene.send(msgspec.json.encode([entry]))
    await scene.posing.alive()
    if scene.version == 2:
        scene.send(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": ABSENT_METHOD}))
        await scene.posing.alive()


@scenario("wire/not_offered", "R-INIT-29")
async def _not_offered(scene: Scene) -> None:
    """Asks for what the client does not offer: files, commands, forms and pages."""
    asks: list[tuple[bool, str, Json]] = [
        (scene.offers_to("fs", "readTextFile"), "fs/read_text_file", {"path": "/accord-check"}),
        (scene.offers_to("terminal"), "terminal/create", {"command": "accord-check-nothing"}),
    ]
    for offered, method, params in asks:
        if offered:
            continue
        call = await scene.ask(method, scene.here(**params))
        kept = call.code in (-32601, -32602)
        expected = "-32601 or -32602 for what it does not offer"
        scene.judge("R-INIT-29", kept, call, expected=expected, got=outcome_of(call))
    form: Json = {"requestedSchema": {"type": "object", "properties": {}}}
    page: Json = {"elicitationId": "not offered", "url": "https://example.com/"}
    for mode, more in (("form", form), ("url", page)):
        if not scene.offers_to("elicitation", mode):
            params = scene.here(mode=mode, message="This was not offered", **more)
            await scene.ask("elicitation/create", params)  # observed


@scenario("wire/servers", "R-MOA-07")
async def _servers(scene: Scene) -> None:
    """Asks for something of an MCP server that the client has never declared."""
    inner: Json = {"method": "tools/list", "params": {"_meta": _MCP}}
    params: Json = {"serverId": "accord-nowhere", "requestId": "accord-1", **inner}
    call = await scene.ask("mcp/message", params)
    known = call.code not in (-32601, -32602)
    scene.needs(known, "the client carries no MCP over this connection")
    kept = call.code == -33001
    expected = "-33001 for a server that is not registered"
    scene.judge("R-MOA-07", kept, call, expected=expected, got=outcome_of(call))


SCENES = (_requests, _notifications, _cancels, _answers, _lines, _broken, _not_offered, _servers)
