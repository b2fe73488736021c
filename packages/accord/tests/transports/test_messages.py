"""Transports over message streams: the base class, and the selection by URL."""

from __future__ import annotations

import asyncio
import sys

import pytest

import accord
from accord.errors import ConnectionClosed, ConnectionLost, TransportError
from accord.remote.asgi_socket import MessageTransport
from accord.testing import Recorder, TransportContract
from accord.transports import registry
from accord.transports.base import FRAME_BYTES, Frame, Transport
from transports.tcp import TcpTransport, connect_tcp, listening

loops = ("asyncio",)  # it uses nothing in which they differ


@pytest.mark.usefixtures("closing_is_quick")
class TestTcp(TransportContract):
    """A transport of forty lines fulfils the whole contract."""

    burst = 800

    async def pair(self, frame_bytes: int) -> tuple[Transport, Transport]:
        accepted: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set_result(TcpTransport(streams=(reader, writer), frame_bytes=frame_bytes))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        streams = await asyncio.open_connection(host, port)
        here = TcpTransport(streams=streams, frame_bytes=frame_bytes)
        there = await accepted
        server.close()
        for transport in (here, there):
            self._close_unstarted(transport)
        return here, there

    def _close_unstarted(self, transport: Transport) -> None:
        """Close the sockets of a transport that is closed before its start."""
        assert isinstance(transport, TcpTransport)
        close = transport.aclose

        async def aclose() -> None:
            await close()
            assert transport._streams is not None
            transport._streams[1].close()

        transport.aclose = aclose


class _Scripted(MessageTransport):
    """Receives from a queue of the test, and sends into a list."""

    def __init__(self) -> None:
        super().__init__()
        self.incoming: asyncio.Queue[Frame | Exception | None] = asyncio.Queue()
        self.sent: list[Frame] = []
        self.send_error: Exception | None = None
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.open_error: Exception | None = None
        self.closed_times = 0

    async def _open(self) -> None:
        if self.open_error is not None:
            raise self.open_error

    async def _receive(self) -> Frame | None:
        item = await self.incoming.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def _send(self, frame: Frame) -> None:
        await self.may_send.wait()
        if self.send_error is not None:
            raise self.send_error
        self.sent.append(frame)

    async def _close(self) -> None:
        self.closed_times += 1


async def test_error_of_open_is_a_transport_error() -> None:
    transport = _Scripted()
    transport.open_error = OSError("refused")
    with pytest.raises(TransportError, match="Cannot connect: refused"):
        await transport.start(Recorder())
    await transport.aclose()
    assert transport.closed_times == 0


async def test_error_of_receive_ends_the_input_with_that_error() -> None:
    transport, heard = _Scripted(), Recorder()
    await transport.start(heard)
    transport.incoming.put_nowait(OSError("reset"))
    await heard.until(lambda: heard.ended)
    assert isinstance(heard.ends[0], ConnectionLost)
    await transport.aclose()
    assert transport.closed_times == 1


async def test_error_of_send_ends_the_input_after_a_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.remote.asgi_socket.LINGER_S", 0.01)
    transport, heard = _Scripted(), Recorder()
    await transport.start(heard)
    transport.send_error = OSError("broken pipe")
    transport.write([b"x" * 1_000_000])
    assert transport.congested
    transport.incoming.put_nowait(b"{}")
    await heard.until(lambda: heard.ended)
    assert heard.frames == [b"{}"]
    assert isinstance(heard.ends[0], ConnectionLost)
    assert heard.writable_calls == 1
    assert not transport.congested
    transport.write([b"{}"])
    await transport.aclose()
    assert transport.sent == []


async def test_close_ends_while_a_send_does_not_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord.remote.asgi_socket.FLUSH_S", 0.01)
    transport = _Scripted()
    await transport.start(Recorder())
    transport.may_send.clear()
    transport.write([b"{}"])
    await transport.aclose()
    assert transport.closed_times == 1
    with pytest.raises(ConnectionClosed):
        await transport.start(Recorder())


class _Echo(accord.Agent):
    async def prompt(self, turn: accord.Turn) -> None:
        await turn.say(turn.text)


async def test_url_selects_the_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_openers", {})
    registry.register_scheme("tcp", connect_tcp)
    agent = _Echo()
    async with (
        listening(lambda transport: accord.serve(agent, transport)) as url,
        accord.connect(url) as connected,
    ):
        session = await connected.new_session()
        async with session.prompt("hello") as turn:
            await turn.wait()
        assert turn.text == "hello"


def test_opener_can_be_named_by_a_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_openers", {})
    monkeypatch.setitem(sys.modules, "tcp_of_a_test", sys.modules[connect_tcp.__module__])
    registry.register_scheme("TCP", "tcp_of_a_test:connect_tcp")
    transport = registry.transport_for_url("tcp://127.0.0.1:1")()
    assert isinstance(transport, TcpTransport)
    assert transport.frame_bytes == FRAME_BYTES


def test_unknown_scheme_is_an_error_that_lists_the_known_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_openers", {"tcp": connect_tcp})
    with pytest.raises(ValueError, match="Unknown URL scheme 'wss': expected one of: tcp"):
        registry.transport_for_url("wss://host")


def test_agent_runs_on_a_given_transport() -> None:
    sent: list[bytes] = []

    class Canned(_Scripted):
        async def _open(self) -> None:
            self.incoming.put_nowait(
                b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
            )

        async def _send(self, frame: Frame) -> None:
            sent.append(bytes(frame))
            self.incoming.put_nowait(None)

    async def make() -> Transport:
        return Canned()

    _Echo().run(make)
    assert b'"protocolVersion":1' in sent[0]
