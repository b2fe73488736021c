"""Records every hop of a chain: each message on each connection of two neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.errors import InvalidParams
from accord.proxy.conductor import Component
from accord.proxy.hop import PROXY_INITIALIZE, SUCCESSOR, unwrap
from accord.transports.base import Frame
from accord_trace.recording import HopRecorder, Recording
from accord_trace.records import Direction

CLIENT = "client"  # the name of the hop to the client


class _Message(Struct, gc=False):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Message).decode


class ProxyRecorder:
    """Records one connection to a proxy, which carries the messages of two hops.

    Plain messages are those of `left`, the hop towards the client. Wrapped ones are those of
    `right`; they are recorded as the messages inside, with the id of the connection. Without a
    recorder for a hop, its messages are skipped.
    """

    def __init__(self, left: HopRecorder | None, right: HopRecorder | None) -> None:
        self._left = left
        self._right = right
        # Ids of wrapped requests without a response, by whether they went to the proxy.
        self._wrapped: dict[bool, set[bytes]] = {True: set(), False: set()}

    def frame(self, frame: Frame, *, to_proxy: bool) -> None:
        """Record a frame."""
        try:
            message = _decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = _Message()
        if message.method is UNSET:
            waiting = self._wrapped[not to_proxy]
            number = b"" if message.id is UNSET else bytes(message.id)
            is_wrapped = number in waiting
            waiting.discard(number)
        else:
            is_wrapped = message.method in SUCCESSOR
            if is_wrapped and message.id is not UNSET:
                self._wrapped[to_proxy].add(bytes(message.id))
        if is_wrapped:
            self._record(
                self._right, "to_client" if to_proxy else "to_agent", _inner(message, frame)
            )
        else:
            self._record(self._left, "to_agent" if to_proxy else "to_client", frame)

    @staticmethod
    def _record(hop: HopRecorder | None, direction: Direction, frame: Frame) -> None:
        if hop is not None:
            hop.frame(direction, frame)


class ChainRecorder:
    """An observer of one chain, for `Chain.observed`: it records every hop.

    The hops are those between `Client`, `Proxy(0)`, …, `Agent`. The hop between two proxies of
    this process has no messages of its own. The names of the components must be unique; see
    `with_unique_names`.
    """

    def __init__(self, recording: Recording, components: Sequence[Component]) -> None:
        self._recording = recording
        self._components = components
        self._connections: dict[str, ProxyRecorder] = {}

    def __call__(self, hop: str, direction: Literal["received", "sent"], frame: Frame) -> None:
        """Record a frame of a connection of the chain."""
        if not self._connections:
            is_proxy = any(name.encode() in frame for name in PROXY_INITIALIZE)
            self._connections = self._open(is_proxy=is_proxy)
        connection = self._connections.get(hop)
        if connection is not None:
            # What the client sends arrives here; what a component receives is sent from here.
            connection.frame(frame, to_proxy=(direction == "received") is (hop == CLIENT))

    def _open(self, *, is_proxy: bool) -> dict[str, ProxyRecorder]:
        """Return the recorders; a chain that is a proxy itself has a successor after the last."""
        parts = self._components
        proxies = len(parts) if is_proxy else len(parts) - 1
        names = ["Client", *(f"Proxy({number})" for number in range(proxies)), "Agent"]
        hops = [
            self._recording.hop(names[number], names[number + 1], conn=str(number))
            for number in range(len(names) - 1)
        ]
        has_connection = [part.make_stage is None for part in parts]
        first = None if has_connection[0] else hops[0]
        last = hops[-1] if is_proxy and not has_connection[-1] else None
        found = {CLIENT: ProxyRecorder(first, last)}
        for number, part in enumerate(parts):
            if not has_connection[number]:
                continue
            # A hop is recorded at its right end, or at the left one if the right is an object.
            is_last = number == len(parts) - 1
            is_seen_right = not is_last and has_connection[number + 1]
            right = hops[number + 1] if number + 1 < len(hops) and not is_seen_right else None
            found[part.name] = ProxyRecorder(hops[number], right)
        return found


def proxy_recorder(recording: Recording) -> ProxyRecorder:
    """Return the recorder of a program that is a proxy: it sees the hops on both its sides."""
    return ProxyRecorder(
        recording.hop("Client", "Proxy(0)", conn="0"), recording.hop("Proxy(0)", "Agent", conn="1")
    )


def _inner(message: _Message, frame: Frame) -> Frame:
    """Return the frame of a wrapped message; a response is not wrapped."""
    if message.method is UNSET or message.params is UNSET:
        return frame
    try:
        method, params = unwrap(message.params)
    except InvalidParams:
        return frame
    number = b"" if message.id is UNSET else b',"id":%b' % message.id
    shown = b"" if params is UNSET else b',"params":%b' % params
    return b'{"jsonrpc":"2.0"%b,"method":%b%b}' % (number, msgspec.json.encode(method), shown)
