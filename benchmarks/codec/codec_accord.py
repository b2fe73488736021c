"""The codec of Accord: all that its connection calls between lines and values."""

from __future__ import annotations

from functools import cache
from typing import Any

from timing import Item, main

from accord.jsonrpc.message import Response
from accord.jsonrpc.peer import Peer
from accord.v1.methods import METHODS
from accord.wire.codec import decoder, encode, encode_into

FRAMES_PER_READ = 100  # about as many as a pipe gives at once
FRAMES_PER_WRITE = 100  # about as many as one task sends in its turn

PARAMS = {method.name: decoder(method.params) for method in METHODS}
RESULTS = {method.name: decoder(method.result) for method in METHODS if method.is_request}


@cache
def asked(line: bytes) -> int:
    """Return the id of the request that a line answers."""
    return int(line.partition(b'"id":')[2].partition(b",")[0])


def peer_for(items: list[Item]) -> Peer:
    """Return a peer that waits for the answers among the items."""
    peer = Peer(encode, encode_into)
    peer._calls = {asked(line): RESULTS[method] for kind, method, line in items if kind == "result"}
    return peer


def decode_items(items: list[Item]) -> None:
    peer = peer_for(items)
    for start in range(0, len(items), FRAMES_PER_READ):
        for event in peer.receive([item[2] for item in items[start : start + FRAMES_PER_READ]]):
            if type(event) is Response:
                event.call(event.result)
            else:
                PARAMS[event.method](event.params)


def value(item: Item) -> Any:
    kind, method, line = item
    (event,) = peer_for([item]).receive([line])
    return RESULTS[method](event.result) if kind == "result" else PARAMS[method](event.params)


def encode_items(items: list[tuple[str, str, Any]]) -> None:
    peer = Peer(encode, encode_into)
    for index, (kind, method, params) in enumerate(items):
        if index % FRAMES_PER_WRITE == 0:
            peer.frames_to_send()
        if kind == "note":
            peer.notify(method, params)
        elif kind == "request":
            peer.request(method, params, None)
        else:
            peer._unanswered.add(1)
            peer.respond(1, params)


main(decode_items, value, encode_items)
