"""What the HTTP server refuses, and the status that it refuses it with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import accord
from accord.remote.access import Access, ConnectionLimits
from event_loop import poll_until
from remote.http_peer import TOKEN
from remote.raw_agent import INITIALIZE, RawServer, raw_server
from requirement import requirement

PROMPT = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "session/prompt",
    "params": {"sessionId": "s", "prompt": []},
}
LONG = "x" * 1025


def text_of(message: Any) -> str:
    return message if isinstance(message, str) else json.dumps(message)


CONTENT_TYPES = [
    ("application/json", 202),
    ("Application/JSON; charset=utf-8", 202),
    ("text/plain", 415),
    ("application/jsonx", 415),
    (None, 415),
]


@requirement("R-HTTP-07", "R-HTTP-26")
async def test_content_type_of_a_post() -> None:
    async with raw_server() as server:
        for content_type, status in CONTENT_TYPES:
            peer, _ = await server.connect()
            response = await peer.post(PROMPT, "s", Content_Type=content_type)
            assert response.status_code == status, (content_type, status)


NOT_MESSAGES = ["", "{", "nul", "42", '"text"', "null", "[]", "[" * 100_000, json.dumps([PROMPT])]


@requirement("R-HTTP-26", "R-BATCH-11", "R-HTTP-50")
async def test_body_that_is_not_a_message_is_refused() -> None:
    async with raw_server() as server:
        for body in NOT_MESSAGES:
            peer, agent = await server.connect()
            response = await peer.post(body)
            assert response.status_code == 400, body
            answer = response.json()
            assert (answer["jsonrpc"], answer["id"]) == ("2.0", None), body
            assert answer["error"]["code"] == -32600, body
            assert (await peer.post(PROMPT, "s")).status_code == 202, body
            assert await agent.get() == PROMPT, body


@requirement("R-HTTP-09", "R-HTTP-13", "R-HTTP-50")
async def test_connection_that_is_missing_or_unknown() -> None:
    async with raw_server() as server:
        for method in ("POST", "GET", "DELETE"):
            peer, _ = await server.connect()
            statuses = []
            for connection in (None, "0" * 32, LONG):
                peer.connection = connection
                headers = {"Content-Type": "application/json", "Accept": "text/event-stream, */*"}
                content = json.dumps(PROMPT) if method == "POST" else None
                response = await server.http.request(
                    method, peer.url, headers={**headers, **peer.headers("s")}, content=content
                )
                statuses.append((response.status_code, response.json()["error"]["code"]))
                if connection != LONG:
                    assert response.json()["error"]["data"] == {"kind": "connection"}, method
            assert statuses == [(400, -32600), (404, -32002), (400, -32600)], method


SESSIONS = [
    ("session/prompt", {"sessionId": "s"}, "s", 202),
    ("session/prompt", {"sessionId": "s"}, None, 202),
    ("session/prompt", {"sessionId": "s"}, "other", 400),
    ("session/prompt", {}, None, 400),
    ("session/prompt", [], None, 400),
    ("session/prompt", {"sessionId": 7}, None, 400),
    ("session/prompt", {}, "s", 202),
    ("session/load", {}, None, 400),
    ("session/set_model", {}, None, 400),
    ("session/new", {}, None, 202),
    ("session/list", {}, "s", 202),
    ("_vendor/thing", {"sessionId": "s"}, "other", 400),
    ("_vendor/thing", {"sessionId": "s"}, None, 202),
    ("_vendor/thing", {}, None, 202),
]


@requirement("R-HTTP-34", "R-HTTP-21", "R-HTTP-10")
async def test_session_of_a_request() -> None:
    async with raw_server() as server:
        for method, params, header, status in SESSIONS:
            peer, agent = await server.connect()
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            response = await peer.post(message, header)
            assert response.status_code == status, (method, params)
            if status == 202:
                # The params are as they were sent.
                assert await agent.get() == message, (method, params)
            elif header is None:
                assert response.json()["error"]["data"] == {"kind": "session"}, (method, params)


@requirement("R-HTTP-35")
async def test_session_of_a_response() -> None:
    async with raw_server() as server:
        for header, status in (("s", 202), (None, 202), ("other", 400)):
            peer, agent = await server.connect()
            async with peer.stream("s") as stream:
                agent.ask(7, "session/request_permission", {"sessionId": "s"})
                await stream.find(id=7)
                assert await peer.answer(7, {}, header) == status, (header, status)
                if status == 400:  # it can still be answered
                    assert await peer.answer(7, {}) == 202, (header, status)
                assert (await agent.get())["id"] == 7, (header, status)


@requirement("R-HTTP-22")
async def test_long_ids_are_refused() -> None:
    async with raw_server() as server:
        peer, _ = await server.connect()
        messages = [
            {**PROMPT, "id": LONG},
            {**PROMPT, "params": {"sessionId": LONG}},
            {**PROMPT, "params": {"sessionId": "🙂" * 513}},
        ]
        statuses = [(await peer.post(message)).status_code for message in messages]
        statuses.append((await peer.post(PROMPT, LONG)).status_code)
        response = await peer.get(LONG)
        await response.aclose()
        assert [*statuses, response.status_code] == [400] * 5
        assert (await peer.post({**PROMPT, "params": {"sessionId": "🙂" * 512}})).status_code == 202


HEADERS_OF_A_GET = [
    ({"Accept": "text/event-stream"}, 200),
    ({"Accept": "application/json, Text/Event-Stream;q=0.5"}, 200),
    ({"Accept": "application/json"}, 406),
    ({"Accept": "*/*"}, 406),
    ({"Upgrade": "websocket"}, 426),
    ({"Upgrade": "something"}, 200),
]


@requirement("R-HTTP-08", "R-HTTP-45")
async def test_headers_of_a_get() -> None:
    async with raw_server() as server:
        for headers, status in HEADERS_OF_A_GET:
            peer, _ = await server.connect()
            response = await peer.get(None, **headers)
            await response.aclose()
            assert response.status_code == status, (headers, status)


@requirement("R-HTTP-46", "R-HTTP-02")
async def test_other_methods_are_refused() -> None:
    async with raw_server() as server:
        for method in ("PUT", "HEAD", "OPTIONS", "PATCH"):
            peer = server.peer()
            response = await server.http.request(method, peer.url, headers=peer.headers())
            assert response.status_code == 405, method
            assert response.headers["Allow"] == "GET, POST, DELETE", method
            assert bool(response.content) == (method != "HEAD"), method


@requirement("R-HTTP-46", "R-SEC-03")
async def test_page_of_an_allowed_origin_can_use_the_server() -> None:
    origin = "https://editor.example"
    async with raw_server(access=Access(token=TOKEN, origins=[origin])) as server:
        peer = server.peer()
        asking = {"Access-Control-Request-Method": "POST", "Origin": origin}
        response = await server.http.options(peer.url, headers=asking)  # without a login
        assert response.status_code == 204
        assert response.headers["Access-Control-Allow-Origin"] == origin
        assert response.headers["Access-Control-Allow-Methods"] == "GET, POST, DELETE"
        assert "Acp-Session-Id" in response.headers["Access-Control-Allow-Headers"]
        refused = await peer.post(INITIALIZE, Origin=origin, Authorization=None)
        assert refused.status_code == 401  # the page can read why
        for response in (refused, await peer.get(Origin=origin)):
            await response.aclose()
            assert response.headers["Access-Control-Allow-Origin"] == origin
            assert "Acp-Connection-Id" in response.headers["Access-Control-Expose-Headers"]
        for other in ("https://evil.example", "null"):
            response = await server.http.options(peer.url, headers={**asking, "Origin": other})
            assert response.status_code == 403
            assert "Access-Control-Allow-Origin" not in response.headers


@requirement("R-HTTP-24")
async def test_initialize_without_a_valid_id_is_refused() -> None:
    async with raw_server() as server:
        for given in (None, LONG, [], {}, True):
            response = await server.peer().post({**INITIALIZE, "id": given})
            assert response.status_code == 400, given
            assert "Acp-Connection-Id" not in response.headers, given
            assert server.agents.empty(), given


FIRST_MESSAGES = [
    PROMPT,
    {"jsonrpc": "2.0", "method": "initialize", "params": {}},
    {**INITIALIZE, "jsonrpc": "1.0"},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    {},
]


@requirement("R-HTTP-24", "R-HTTP-09")
async def test_first_message_must_be_initialize() -> None:
    async with raw_server() as server:
        for message in FIRST_MESSAGES:
            assert (await server.peer().post(message)).status_code == 400, message
            assert server.agents.empty(), message


@requirement("R-HTTP-24")
async def test_agent_that_does_not_answer_initialize() -> None:
    async with raw_server(initialize_s=0.2) as server:
        for first in ("notification", "other id", "text", "nothing"):
            peer = server.peer()
            posting = asyncio.ensure_future(peer.post({**INITIALIZE, "id": "0"}))
            agent = await server.agent()
            match first:
                case "notification":
                    agent.update("s")
                case "other id":
                    agent.answer(0, {})  # the id was a string
                case "text":
                    agent.send(b"Welcome!")
                case _:
                    pass
            response = await posting
            assert response.status_code == 500, first
            assert response.json()["error"]["code"] == -32603, first
            assert response.json()["id"] == "0", first
            assert "Acp-Connection-Id" not in response.headers, first
            async with asyncio.timeout(20):
                await agent.ended.wait()


@requirement("R-HTTP-05")
async def test_agent_that_ends_during_initialize() -> None:
    async with raw_server() as server:
        peer = server.peer()
        posting = asyncio.ensure_future(peer.post(INITIALIZE))
        agent = await server.agent()
        agent.ended.set()  # `serve` returns
        response = await posting
        assert response.status_code == 200
        assert response.json()["error"]["code"] == -32603
        peer.connection = response.headers["Acp-Connection-Id"]
        assert (await peer.post(PROMPT, "s")).status_code == 404


@requirement("R-HTTP-05", "R-HTTP-23")
async def test_failed_initialize_can_be_tried_once_more() -> None:
    async with raw_server() as server:
        peer = server.peer()
        posting = asyncio.ensure_future(peer.post(INITIALIZE))
        agent = await server.agent()
        error = {"code": -32602, "message": "no"}
        agent.send({"jsonrpc": "2.0", "id": 0, "error": error})
        response = await posting
        assert (response.status_code, response.json()["error"]) == (200, error)
        peer.connection = response.headers["Acp-Connection-Id"]
        posting = asyncio.ensure_future(peer.post(INITIALIZE))
        await agent.get()
        agent.answer(0, {"protocolVersion": 1})
        response = await posting
        assert (response.status_code, "result" in response.json()) == (200, True)
        assert response.headers["Acp-Connection-Id"] == peer.connection
        assert (await peer.post(INITIALIZE)).status_code == 400
        assert (await peer.post(PROMPT, "s")).status_code == 202
        assert await agent.get() == PROMPT


@requirement("R-HTTP-05")
@pytest.mark.parametrize("tries", [1, 2])
async def test_connection_is_dropped_when_initialize_has_failed(
    tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tries == 1:
        monkeypatch.setattr("accord.remote.http_connection.RETRY_S", 0.1)
    async with raw_server() as server:
        peer = server.peer()
        agent = None
        for _ in range(tries):
            posting = asyncio.ensure_future(peer.post(INITIALIZE))
            if agent is None:
                agent = await server.agent()
            else:
                await agent.get()
            agent.send({"jsonrpc": "2.0", "id": 0, "error": {"code": 1, "message": "no"}})
            peer.connection = (await posting).headers["Acp-Connection-Id"]
        assert agent is not None
        async with asyncio.timeout(20):
            await agent.ended.wait()
        assert (await peer.post(PROMPT, "s")).status_code == 404


@requirement("R-SEC-05", "R-HTTP-19")
async def test_connection_of_another_principal_is_unknown() -> None:
    def authenticate(request: accord.RemoteRequest) -> accord.Principal:
        return accord.Principal(request.headers["x-user"][0])

    async def statuses(server: RawServer, connection: str, user: str) -> list[int]:
        headers = {"X-User": user, "Acp-Connection-Id": connection, "Accept": "text/event-stream"}
        url = server.peer().url
        post = await server.http.post(
            url, content=text_of(PROMPT), headers={**headers, "Content-Type": "application/json"}
        )
        request = server.http.build_request("GET", url, headers=headers)
        get = await server.http.send(request, stream=True)
        await get.aclose()
        delete = await server.http.delete(url, headers=headers)
        return [post.status_code, get.status_code, delete.status_code]

    async with raw_server(access=Access(authenticate=authenticate)) as server:
        peer = server.peer()
        posting = asyncio.ensure_future(peer.post(INITIALIZE, X_User="ada"))
        agent = await server.agent()
        agent.answer(0, {})
        connection = (await posting).headers["Acp-Connection-Id"]
        assert await statuses(server, connection, "bob") == [404, 404, 404]
        assert agent.inbox.empty()
        assert await statuses(server, connection, "ada") == [202, 200, 202]


@requirement("R-SEC-08", "R-HTTP-50")
async def test_connections_are_limited() -> None:
    limits = ConnectionLimits(connections=1)
    async with raw_server(connections=limits) as server:
        peer, _ = await server.connect()
        refused = await server.peer().post(INITIALIZE)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert refused.json()["error"]["code"] == -32603
        assert await peer.delete() == 202
        await poll_until(lambda: not server.app._connections.full)
        peer, agent = await server.connect()
        assert (await peer.post(PROMPT, "s")).status_code == 202
        await agent.get()
        draining = asyncio.ensure_future(server.app.drain(20))
        await asyncio.sleep(0)
        assert (await server.peer().post(INITIALIZE)).status_code == 503
        assert await peer.answer(7, {}) == 202  # the turn goes on
        assert (await agent.get())["id"] == 7
        agent.answer(PROMPT["id"], {"stopReason": "end_turn"})
        await draining


@requirement("R-SEC-08", "R-HTTP-22")
@pytest.mark.parametrize("http2", [False, True])
async def test_body_over_the_limit_is_refused(http2: bool) -> None:
    async with raw_server(body_bytes=100_000, http2=http2) as server:
        peer, agent = await server.connect()
        fitting = json.dumps(PROMPT).ljust(100_000)
        assert (await peer.post(fitting, "s")).status_code == 202
        assert (await peer.post(fitting + " ", "s")).status_code == 413

        async def parts() -> AsyncGenerator[bytes]:
            for _ in range(11):
                yield b" " * 10_000

        headers = {**peer.headers("s"), "Content-Type": "application/json"}
        response = await server.http.post(peer.url, content=parts(), headers=headers)
        assert response.status_code == 413
        assert response.json()["error"]["data"] == {"kind": "size"}
        assert len(agent.frames) == 2


@requirement("R-SEC-08", "R-HTTP-50")
async def test_body_that_trickles_is_refused() -> None:
    async with raw_server(body_s=0.2) as server:
        peer, _ = await server.connect()
        host, _, port = server.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = {**peer.headers("s"), "Content-Type": "application/json", "Content-Length": "100"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"POST /acp HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n{{".encode())
        async with asyncio.timeout(20):
            status = await reader.readline()
            await reader.read()
        writer.close()
        await writer.wait_closed()
        assert status.split()[1] == b"408"


ACCEPTED = [
    ("application/json", "application/json"),
    ("application/json;q=0.9, text/plain", "application/json"),
    ("*/*", "application/json"),
    ("text/event-stream", "text/plain; charset=utf-8"),
    ("text/html", "text/plain; charset=utf-8"),
]


@requirement("R-HTTP-50")
async def test_error_is_json_if_the_client_accepts_it() -> None:
    async with raw_server() as server:
        for accept, kind in ACCEPTED:
            response = await server.peer().post("{", Accept=accept)
            assert response.status_code == 400, (accept, kind)
            assert response.headers["Content-Type"] == kind, (accept, kind)
            assert response.text.count("\n") <= 1, (accept, kind)
