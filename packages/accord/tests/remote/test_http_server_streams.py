"""The event streams of the HTTP server: what goes where, in which order, and what is held."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from accord.errors import ConnectionLost
from accord.remote.http_connection import HttpConnection
from accord.remote.http_stream import events_of
from event_loop import poll_until
from remote.http_peer import LIMIT_S, HttpPeer
from remote.raw_agent import INITIALIZE, RawAgent, RawServer, raw_server
from requirement import requirement

BIG = "x" * 10_000


class Socket:
    """A GET on a socket, of which the test decides what is read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def get(cls, peer: HttpPeer, session: str | None = None) -> Socket:
        """Open a stream, and read its head only."""
        host, _, port = peer.url.removeprefix("http://").removesuffix("/acp").partition(":")
        # The socket takes little, so that the server soon has to wait.
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        head = {"Host": host, "Accept": "text/event-stream", **peer.headers(session)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"GET /acp HTTP/1.1\r\n{lines}\r\n".encode())
        async with asyncio.timeout(LIMIT_S):
            assert b"200" in await reader.readline()
            await reader.readuntil(b":\n\n")
        return cls(reader, writer)

    async def close(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)


def prompt(session: str, request_id: Any = 1) -> dict[str, Any]:
    params = {"sessionId": session, "prompt": []}
    return {"jsonrpc": "2.0", "id": request_id, "method": "session/prompt", "params": params}


def connection_of(server: RawServer, peer: HttpPeer) -> HttpConnection:
    assert peer.connection is not None
    return server.app._http_server._connections[peer.connection]


async def received(agent: RawAgent) -> Any:
    async with asyncio.timeout(LIMIT_S):
        return await agent.get()


@requirement("R-HTTP-40", "R-HTTP-11")
@pytest.mark.parametrize("http2", [False, True])
async def test_stream_starts_at_once(http2: bool) -> None:
    async with raw_server(http2=http2) as server:
        for session in (None, "s"):
            peer, _ = await server.connect()
            async with peer.stream(session) as stream:
                await stream.until(lambda: stream.text == ":\n\n")
                headers = stream.response.headers
                assert headers["Content-Type"] == "text/event-stream", session
                assert headers["Cache-Control"] == "no-cache, no-transform", session
                assert headers["X-Accel-Buffering"] == "no", session
                assert headers["Acp-Connection-Id"] == peer.connection, session
                assert headers.get("Acp-Session-Id") == session, session
                assert "Content-Encoding" not in headers, session


@requirement("R-HTTP-17")
async def test_comment_is_sent_while_a_reader_waits() -> None:
    async with raw_server(keepalive_s=0.05) as server:
        peer, _ = await server.connect()
        async with peer.stream() as stream:
            await stream.until(lambda: stream.text.startswith(":\n\n" * 3))
            assert stream.events == []


@requirement("R-HTTP-28")
def test_event_is_one_line() -> None:
    assert events_of([b'{"a":1}', bytearray(b"{}")]) == b'data: {"a":1}\n\ndata: {}\n\n'
    # Line ends in JSON are white space.
    assert events_of([b'{\r\n"a":1\n}', b"{}\r"]) == b'data: {  "a":1 }\n\ndata: {} \n\n'


@requirement("R-HTTP-12", "R-HTTP-20")
async def test_messages_of_the_agent_go_to_the_stream_of_their_session() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common, peer.stream("a") as a, peer.stream("b") as b:
            agent.update("a", "1")
            agent.update("b", "2")
            agent.update("a", "3")
            agent.ask(1, "session/request_permission", {"sessionId": "b"})
            agent.send(
                b'{"params": {"update": {}, "sessionId": "a"}, "method": "session/update", '
                b'"jsonrpc": "2.0"}'
            )
            agent.tell("$/cancel_request", {"requestId": 1})
            agent.ask(2, "elicitation/create", {"mode": "form"})
            agent.tell("_vendor/thing")
            agent.send(b" ", b"not json")
            await common.until(lambda: common.text.endswith("data: not json\n\n"))
            await b.find(id=1)
            await a.until(lambda: len(a.events) == 3)
            assert [e["params"].get("update", {}).get("content") for e in a.events] == [
                {"type": "text", "text": "1"},
                {"type": "text", "text": "3"},
                None,
            ]
            assert [e["method"] for e in b.events] == [
                "session/update",
                "session/request_permission",
            ]
            methods = [e["method"] for e in common.events]
            assert methods == ["$/cancel_request", "elicitation/create", "_vendor/thing"]


@requirement("R-HTTP-12", "R-HTTP-21")
async def test_responses_go_to_the_stream_of_the_request() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common, peer.stream("s") as own:
            sent = {
                "session/new": (None, {}, common),
                "session/prompt": ("s", {"sessionId": "s"}, own),
                "session/resume": ("s", {"sessionId": "s"}, own),
                "session/load": ("s", {"sessionId": "s"}, common),
                "session/set_mode": (None, {"sessionId": "s"}, own),
                "session/list": ("s", {}, own),  # the header only picks the stream
                "_vendor/thing": (None, {}, common),
            }
            for method, (header, params, stream) in sent.items():
                request = await peer.request(method, params, header)
                assert (await received(agent))["method"] == method
                agent.answer(request, {})
                await stream.response_to(request)
            # An error without an id, for a message that the agent could not read.
            agent.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}})
            await common.response_to(None)


async def test_ids_of_different_json_types_differ() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream("a") as a, peer.stream("b") as b:
            assert (await peer.post(prompt("a", 1), "a")).status_code == 202
            assert (await peer.post(prompt("b", "1"), "b")).status_code == 202
            agent.answer("1", {})
            agent.answer(1, {})
            await a.response_to(1)
            await b.response_to("1")
            assert len(a.events) == len(b.events) == 1


@requirement("R-HTTP-12", "R-HTTP-34")
async def test_response_for_a_client_that_has_not_opened_the_stream() -> None:
    """Some clients send neither the header nor a GET before `session/resume`."""
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common:
            first = await peer.request("session/resume", {"sessionId": "s"})
            second = await peer.request("session/prompt", {"sessionId": "s"}, "s")
            await received(agent)
            agent.answer(first, {})
            agent.answer(second, {})
            await common.response_to(first)
            async with peer.stream("s") as own:
                await own.response_to(second)
            assert len(common.events) == 1


@requirement("R-HTTP-06")
async def test_body_reaches_the_agent_as_it_was_sent() -> None:
    body = b' {"jsonrpc":"2.0",\t"id":1e0,"method":"_x","params":{"n":1.50,"s":"\\u0041\\ud800"}} '
    async with raw_server() as server:
        peer, agent = await server.connect()
        assert (await peer.post(body)).status_code == 202
        await received(agent)
        assert agent.frames[-1] == body


@requirement("R-HTTP-12")
async def test_messages_wait_for_a_reader() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        for number in range(1000):
            agent.update("s", str(number))
        async with peer.stream("s") as stream:
            await stream.until(lambda: len(stream.events) == 1000)
            texts = [e["params"]["update"]["content"]["text"] for e in stream.events]
            assert texts == [str(number) for number in range(1000)]


@requirement("R-HTTP-22")
async def test_second_reader_is_refused_while_the_first_reads() -> None:
    async with raw_server() as server:
        for session in (None, "s"):
            peer, agent = await server.connect()
            async with peer.stream(session) as stream:
                second = await peer.get(session)
                assert second.status_code == 409, session
                assert second.headers["Retry-After"] == "1", session
                await second.aclose()
                agent.update("s", "still here") if session else agent.tell("_x")
                await stream.until(lambda: stream.events)
            await reopened(peer, session)


async def reopened(peer: HttpPeer, session: str | None) -> None:
    """Open a stream as soon as the server has noticed the end of the first."""
    async with asyncio.timeout(LIMIT_S):
        while (response := await peer.get(session)).status_code == 409:
            await response.aclose()
        assert response.status_code == 200
        await response.aclose()


@requirement("R-HTTP-22")
@pytest.mark.parametrize("second_reader", ["takeover", "conflict"])
async def test_reader_that_has_stopped_can_be_replaced(
    second_reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.remote.http_stream.STOPPED_S", 0.05)
    async with raw_server(second_reader=second_reader) as server:
        peer, agent = await server.connect()
        stalled = await Socket.get(peer, "s")
        count = 1000
        for number in range(count):
            agent.update("s", f"{number} {BIG}")
        reader = connection_of(server, peer)._streams["s"].reader
        await poll_until(lambda: reader is not None and reader.has_stopped())
        if second_reader == "conflict":
            response = await peer.get("s")
            assert response.status_code == 409
            await response.aclose()
        else:
            async with peer.stream("s") as stream:
                # What the first reader has, or had not taken, is in order; the rest follows.
                await stream.until(
                    lambda: stream.events and _number(stream.events[-1]) == count - 1
                )
                numbers = [_number(event) for event in stream.events]
                assert numbers == list(range(numbers[0], count))
                assert numbers[0] > 0
        await stalled.close()


def _number(event: Any) -> int:
    return int(event["params"]["update"]["content"]["text"].split()[0])


@requirement("R-HTTP-42")
async def test_frames_that_were_not_sent_wait_for_the_next_reader() -> None:
    """A stream that ends abnormally can lose what was on its way, and nothing else."""
    async with raw_server() as server:
        peer, agent = await server.connect()
        first = await Socket.get(peer, "s")
        count = 1000
        for number in range(count):
            agent.update("s", f"{number} {BIG}")
        await first.reader.read(1024)
        await first.close()
        numbers: list[int] = []
        async with asyncio.timeout(LIMIT_S):
            while (response := await peer.get("s")).status_code == 409:
                await response.aclose()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    numbers.append(_number(json.loads(line.removeprefix("data: "))))
                    if numbers[-1] == count - 1:
                        break
        await response.aclose()
        assert numbers == list(range(numbers[0], count))
        # The buffers of a socket and of the server, not the queue.
        assert 0 < numbers[0] * len(BIG) < 8 * 1024 * 1024


@requirement("R-HTTP-12")
@pytest.mark.parametrize("http2", [False, True])
async def test_response_to_load_follows_the_replay(http2: bool) -> None:
    async with raw_server(http2=http2) as server:
        peer, agent = await server.connect()
        async with peer.stream() as common:
            own = await peer.get("s")  # not read yet
            request = await peer.request("session/load", {"sessionId": "s"}, "s")
            await received(agent)
            count = 1000
            for number in range(count):
                agent.update("s", f"{number} {BIG}")
            agent.answer(request, {})
            agent.tell("_later")
            await common.find(method="_later")
            assert [event.get("id") for event in common.events] == [None]  # it is held
            read = 0
            async for line in own.aiter_lines():
                read += line.startswith("data: ")
                if read == count:
                    break
            await common.response_to(request)
            await own.aclose()


@requirement("R-HTTP-12")
@pytest.mark.parametrize("replay", [0, 3])
async def test_response_to_load_gives_the_client_time_to_read_the_replay(
    replay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.remote.http_stream.SETTLE_S", 3600)
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common:
            async with peer.stream("s") as own:
                request = await peer.request("session/load", {"sessionId": "s"}, "s")
                await received(agent)
                for number in range(replay):
                    agent.update("s", f"{number}")
                await own.until(lambda: len(own.events) == replay)
                agent.answer(request, {})
                agent.tell("_later")
                await common.find(method="_later")
                assert [event.get("id") for event in common.events] == [None]  # it is held
            await common.response_to(request)  # the reader has left


async def test_response_to_load_is_sent_by_an_agent_that_ends() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common, peer.stream("s") as own:
            request = await peer.request("session/load", {"sessionId": "s"}, "s")
            await received(agent)
            for _ in range(50):
                agent.update("s", BIG)
            agent.answer(request, {})
            agent.ended.set()  # `serve` returns
            await common.response_to(request)
            await own.until(lambda: len(own.events) == 50)


@requirement("R-HTTP-12")
async def test_response_to_load_does_not_wait_for_a_reader_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.remote.http_connection.HOLD_S", 0.05)
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common:
            # No stream of the session: the client opens it when it has the response.
            request = await peer.request("session/load", {"sessionId": "s"}, "s")
            agent.update("s", "1")
            agent.answer(request, {})
            await common.response_to(request)
            async with peer.stream("s") as own:
                await own.until(lambda: len(own.events) == 1)
            # A reader that leaves during the replay.
            gone = await Socket.get(peer, "t")
            request = await peer.request("session/load", {"sessionId": "t"}, "t")
            for _ in range(1000):
                agent.update("t", BIG)
            agent.answer(request, {})
            await gone.close()
            await common.response_to(request)


@requirement("R-HTTP-11", "R-HTTP-37")
async def test_streams_of_unknown_sessions_are_limited() -> None:
    async with raw_server(provisional_streams=2) as server:
        peer, agent = await server.connect()
        agent.update("known")
        async with peer.stream("a") as a, peer.stream("b"), peer.stream("known"):
            response = await peer.get("c")
            assert response.status_code == 429
            await response.aclose()
            agent.update("a")  # the agent knows it now
            await a.until(lambda: a.events)
            async with peer.stream("c"):
                pass


@requirement("R-HTTP-11")
async def test_stream_of_a_session_that_cannot_be_loaded_ends() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common, peer.stream("s") as own:
            request = await peer.request("session/load", {"sessionId": "s"}, "s")
            agent.send(
                {"jsonrpc": "2.0", "id": request, "error": {"code": -32002, "message": "no"}}
            )
            await common.response_to(request)
            await own.end()
            async with peer.stream("s"):  # another try
                request = await peer.request("session/load", {"sessionId": "s"}, "s")


@requirement("R-HTTP-11")
async def test_stream_of_an_unknown_session_ends_without_a_request() -> None:
    async with raw_server(provisional_s=1.0) as server:
        peer, _ = await server.connect()
        async with peer.stream("bogus") as bogus, peer.stream("s") as own:
            await peer.request("session/load", {"sessionId": "s"}, "s")
            await bogus.end()
            assert not own.ended


@requirement("R-HTTP-27", "R-HTTP-06")
async def test_requests_wait_while_too_much_is_unread() -> None:
    async with raw_server(unread_bytes=1_000_000) as server:
        peer, agent = await server.connect()
        while not agent.transport.congested:
            agent.update("s", BIG)
        held = asyncio.ensure_future(peer.post(prompt("t")))
        # Notifications and responses are never held.
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
        assert (await peer.post(cancel, "s")).status_code == 202
        assert await peer.answer(99, {}) == 202
        assert (await received(agent))["method"] == "session/cancel"
        assert (await received(agent))["id"] == 99
        assert not held.done()
        agent.may_write.clear()
        async with peer.stream("s"):
            assert (await held).status_code == 202
            assert (await received(agent))["method"] == "session/prompt"
            async with asyncio.timeout(LIMIT_S):
                await agent.may_write.wait()
            assert not agent.transport.congested


@requirement("R-HTTP-27")
async def test_unread_output_of_all_connections_is_bounded() -> None:
    """A connection waits beyond an equal share; those that read do not."""
    total = 400_000
    async with raw_server(total_unread_bytes=total) as server:
        ends = [await server.connect() for _ in range(8)]
        for _, agent in ends:
            for _ in range(2 * total // len(BIG)):
                if not agent.transport.congested:
                    agent.update("s", BIG)
        agents = [agent for _, agent in ends]
        held = sum(connection_of(server, peer).unsent_bytes for peer, _ in ends)
        assert total < held < 2 * total + len(agents) * 2 * len(BIG)
        assert all(agent.transport.congested for agent in agents)
        peer, reading = await server.connect()
        async with peer.stream("s") as stream:
            for count in range(1, 100):
                reading.update("s", BIG)
                await stream.until(lambda count=count: len(stream.events) == count)
                assert not reading.transport.congested
        for agent in agents:
            agent.may_write.clear()
        assert await ends[0][0].delete() == 202
        for agent in agents[1:]:
            async with asyncio.timeout(LIMIT_S):
                await agent.may_write.wait()
            assert not agent.transport.congested


@requirement("R-HTTP-27")
async def test_connection_that_is_not_read_is_closed() -> None:
    async with raw_server(unread_bytes=100_000, stall_s=0.2) as server:
        peer, agent = await server.connect()
        held = None
        async with peer.stream() as common:
            while not agent.transport.congested:
                agent.update("s", BIG)
            held = asyncio.ensure_future(peer.post(prompt("t")))
            async with asyncio.timeout(LIMIT_S):
                await agent.ended.wait()
            await common.end()
        assert isinstance(agent.error, ConnectionLost)
        assert (await held).status_code == 404


@requirement("R-HTTP-27")
async def test_connection_with_too_many_unread_sessions_is_closed() -> None:
    async with raw_server(unread_sessions=3) as server:
        peer, agent = await server.connect()
        async with peer.stream("read"):
            for session in ("read", "1", "2", "3"):
                agent.update(session)
            assert (await peer.post(prompt("read"))).status_code == 202
            assert not agent.ended.is_set()
            agent.update("4")
            async with asyncio.timeout(LIMIT_S):
                await agent.ended.wait()


@requirement("R-HTTP-27")
async def test_reader_that_stops_does_not_stop_other_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.remote.http_stream.SLOW_S", 0.05)
    async with raw_server() as server:
        peer, agent = await server.connect()
        stalled = await Socket.get(peer, "stalled")
        async with peer.stream("s") as own:
            # A reader that is behind makes the agent wait, until it is known to have stopped.
            for _ in range(1000):
                agent.update("stalled", BIG)
            assert agent.transport.congested
            async with asyncio.timeout(LIMIT_S):
                await agent.may_write.wait()
            for number in range(1000):
                agent.update("s", str(number))
            await own.until(lambda: len(own.events) == 1000)
        await stalled.close()


@requirement("R-HTTP-47")
async def test_connection_that_is_not_used_is_closed() -> None:
    async with raw_server(idle_s=0.2) as server:
        _, agent = await server.connect()
        async with asyncio.timeout(LIMIT_S):
            await agent.ended.wait()
        assert isinstance(agent.error, ConnectionLost)


@requirement("R-HTTP-47")
async def test_connection_with_a_request_or_a_reader_is_used() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        connection = connection_of(server, peer)

        async def closes() -> bool:
            connection._last_active -= 1000
            connection._check_idle()
            await asyncio.sleep(0)
            return connection.is_over

        request = await peer.request("session/prompt", {"sessionId": "s"}, "s")
        assert not await closes()
        async with peer.stream("s") as own:
            agent.answer(request, {})
            await own.response_to(request)
            assert not await closes()
        await poll_until(lambda: connection._streams["s"].reader is None)
        assert await closes()
        assert (await peer.post(prompt("s"))).status_code == 404


@requirement("R-HTTP-13", "R-HTTP-47")
@pytest.mark.parametrize("http2", [False, True])
async def test_delete_ends_the_connection(http2: bool) -> None:
    async with raw_server(http2=http2) as server:
        peer, agent = await server.connect()
        async with peer.stream() as common, peer.stream("s") as own:
            assert await peer.delete() == 202
            await common.end()
            await own.end()
        async with asyncio.timeout(LIMIT_S):
            await agent.ended.wait()
        assert agent.error is None
        assert await peer.delete() == 404
        assert (await peer.post(prompt("s"))).status_code == 404
        response = await peer.get()
        assert response.status_code == 404
        await response.aclose()


@requirement("R-HTTP-42")
@pytest.mark.parametrize("http2", [False, True])
async def test_agent_that_ends_ends_the_streams_after_what_it_wrote(http2: bool) -> None:
    async with raw_server(http2=http2) as server:
        peer, agent = await server.connect()
        async with peer.stream("s") as own:
            for number in range(100):
                agent.update("s", f"{number} {BIG}")
            agent.ended.set()  # `serve` returns
            await own.end()
            assert [_number(event) for event in own.events] == list(range(100))
        assert (await peer.post(prompt("s"))).status_code == 404


async def test_client_that_leaves_during_initialize() -> None:
    async with raw_server() as server:
        peer = server.peer()
        posting = asyncio.ensure_future(peer.post(INITIALIZE))
        agent = await server.agent()
        posting.cancel()
        await asyncio.wait([posting])
        async with asyncio.timeout(LIMIT_S):
            await agent.ended.wait()


async def test_agent_that_pauses_holds_posts_and_gets_them_in_order() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        agent.transport.pause_reading()
        posts = []
        for number in range(5):
            connection = connection_of(server, peer)
            before = connection._posts
            posts.append(asyncio.ensure_future(peer.post(prompt("s", number))))
            await poll_until(lambda: connection._posts == before + 1)  # noqa: B023
        assert agent.inbox.empty()
        agent.transport.resume_reading()
        assert [(await post).status_code for post in posts] == [202] * 5
        assert [(await received(agent))["id"] for _ in range(5)] == list(range(5))


async def test_posts_that_wait_are_limited() -> None:
    async with raw_server(waiting_posts=2) as server:
        peer, agent = await server.connect()
        agent.transport.pause_reading()
        posts = [asyncio.ensure_future(peer.post(prompt("s", number))) for number in range(3)]
        async with asyncio.timeout(LIMIT_S):
            done, waiting = await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        assert [post.result().status_code for post in done] == [429]
        assert len(waiting) == 2
        assert await peer.delete() == 202
        assert [(await post).status_code for post in waiting] == [404, 404]


async def test_requests_without_a_response_are_limited() -> None:
    async with raw_server(requests=2) as server:
        peer, _ = await server.connect()
        statuses = [(await peer.post(prompt("s", number))).status_code for number in range(3)]
        assert statuses == [202, 202, 429]


async def test_server_that_goes_away_ends_the_streams() -> None:
    async with raw_server() as server:
        peer, agent = await server.connect()
        async with peer.stream() as common:
            await server.app.drain(0.05)
            await common.end()
        assert agent.ended.is_set()
