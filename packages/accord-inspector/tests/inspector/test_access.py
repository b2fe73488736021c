"""Who may use the page: the token once, then the cookie; own host name and origin only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from accord_inspector.app import InspectorApp, PageAccess
from accord_inspector.recording_inspection import RecordingInspection
from inspector.inspector_process import Inspector, inspecting
from sample_recordings import one_turn

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    path = tmp_path_factory.mktemp("recordings") / "r.acp.jsonl"
    one_turn().save(path)
    async with inspecting(str(path)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def browser_like(inspector: Inspector) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that has no cookie yet."""
    async with httpx2.AsyncClient(base_url=inspector.origin) as client:
        yield client


async def log_in(client: httpx2.AsyncClient, inspector: Inspector) -> str:
    """Open the printed address; return the cookie."""
    response = await client.get(inspector.address)
    return response.headers["set-cookie"].partition(";")[0]


async def test_token_is_exchanged_for_a_cookie(
    inspector: Inspector, browser_like: httpx2.AsyncClient
) -> None:
    response = await browser_like.get(inspector.address)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    attributes = response.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert inspector.address.partition("token=")[2] not in response.headers["set-cookie"]
    assert (await browser_like.get("/api/inspection")).json()["kind"] == "recording"


async def test_token_opens_any_address_of_the_page(
    inspector: Inspector, browser_like: httpx2.AsyncClient
) -> None:
    query = inspector.address.partition("?")[2]
    response = await browser_like.get(f"/timeline/3?method=session%2F*&{query}&errors=1")
    assert response.headers["location"] == "/timeline/3?method=session%2F%2A&errors=1"
    response = await browser_like.get(f"{inspector.origin}//evil.example/?{query}")
    assert response.headers["location"] == "/evil.example/"


async def test_page_without_the_login_says_what_to_do(browser_like: httpx2.AsyncClient) -> None:
    for address in ("/", "/timeline", "/?token=wrong", "/?token=", "/x?token=a&token=b"):
        response = await browser_like.get(address)
        assert response.status_code == 401, address
        assert "accord inspect" in response.text, address
        assert "set-cookie" not in response.headers, address


async def test_api_needs_the_cookie(inspector: Inspector, browser_like: httpx2.AsyncClient) -> None:
    name = (await log_in(browser_like, inspector)).partition("=")[0]
    browser_like.cookies.clear()
    for cookie in ("", "accord_inspect_0=x", f"{name}=wrong", f"{name}=", ";;=", name):
        headers = {"Cookie": cookie}
        for path in ("/api/inspection", "/api/messages", "/api/nothing"):
            response = await browser_like.get(path, headers=headers)
            assert response.status_code == 401, cookie
            assert "accord inspect" in response.json()["error"], cookie
        response = await browser_like.post("/api/agent/restart", headers=headers, json={})
        assert response.status_code == 401, cookie


async def test_other_hosts_and_origins_are_refused(
    inspector: Inspector, browser_like: httpx2.AsyncClient
) -> None:
    cookie = await log_in(browser_like, inspector)
    token = inspector.address.partition("?")[2]
    for header, value in (
        ("Host", "evil.example"),
        ("Host", "127.0.0.1.evil.example"),
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1:1"),
        ("Origin", "https://127.0.0.1"),
    ):
        headers = {header: value}
        for path in ("/", "/api/inspection", "/page/app.js", f"/?{token}"):
            response = await browser_like.get(path, headers=headers)
            assert response.status_code == 403, (headers, path)
        posted = await browser_like.post("/api/agent/restart", headers=headers, json={})
        assert posted.status_code == 403, headers
        with pytest.raises(InvalidStatus, match="403"):
            await connected(inspector, {**headers, "Cookie": cookie})


async def routes_of(tmp_path: Path) -> list[tuple[str, str]]:
    """Return the method and the address of every route of the API."""
    path = tmp_path / "r.acp.jsonl"
    one_turn().save(path)
    async with RecordingInspection(path) as inspection:
        app = InspectorApp(inspection, inspection.hub, PageAccess())
        found = [route for route in app.routes if route.path.startswith("/api/")]
        return [
            (method, re.sub(r"\{[^}]*\}", "1", route.path))
            for route in found
            for method in route.methods or ["GET"]
        ]


async def test_every_address_of_the_api_has_the_same_guards(
    inspector: Inspector, browser_like: httpx2.AsyncClient, tmp_path: Path
) -> None:
    routes = await routes_of(tmp_path)
    new = ("export", "comparison", "waterfall", "copies/1")
    assert {f"/api/{name}" for name in new} <= {address for _, address in routes}
    token = inspector.address.partition("?")[2]
    for method, address in routes:
        response = await browser_like.request(method, address)
        assert response.status_code == 401, (method, address)
        response = await browser_like.request(method, f"{address}?token=wrong")
        assert response.status_code == 401, (method, address)
    await log_in(browser_like, inspector)
    for method, address in routes:
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            response = await browser_like.request(method, f"{address}?{token}", headers=headers)
            assert response.status_code == 403, (method, address)


async def test_only_recordings_that_the_user_named_are_read(
    inspector: Inspector, browser_like: httpx2.AsyncClient
) -> None:
    await log_in(browser_like, inspector)
    for name in ("../r.acp.jsonl", "/etc/passwd", "..%2F..%2Fetc%2Fpasswd", "x"):
        for address in (
            f"/api/export?format=har&recording={name}",
            f"/api/comparison?other={name}",
            f"/api/comparison?recording={name}&other=r.acp.jsonl",
            f"/api/waterfall?recording={name}",
            f"/api/copies/1?recording={name}",
        ):
            response = await browser_like.get(address)
            assert response.status_code == 404, address
            assert "Unknown recording" in response.json()["error"]


async def connected(inspector: Inspector, headers: dict[str, str]) -> None:
    """Open the WebSocket, and receive a message."""
    origin = headers.pop("Origin", None)
    address = inspector.origin.replace("http", "ws") + "/api/live"
    host = headers.pop("Host", None)
    if host is not None:
        # The library sends the host of the address: connect to the server under another name.
        port = inspector.origin.rpartition(":")[2]
        address = f"ws://{host}:{port}/api/live"
    async with connect(
        address,
        origin=origin,  # pyright: ignore[reportArgumentType]
        additional_headers=headers,
        host="127.0.0.1",
        proxy=None,
    ) as socket:
        await socket.send("{}")
        assert "inspection" in str(await socket.recv())


async def test_websocket_needs_the_cookie(
    inspector: Inspector, browser_like: httpx2.AsyncClient
) -> None:
    with pytest.raises(InvalidStatus, match="401"):
        await connected(inspector, {})
    cookie = await log_in(browser_like, inspector)
    await connected(inspector, {"Cookie": cookie, "Origin": inspector.origin})


async def test_every_response_forbids_inline_scripts_and_other_hosts(
    inspector: Inspector, browser_like: httpx2.AsyncClient
) -> None:
    seen = {
        (await browser_like.get("/")).status_code: await browser_like.get("/"),
        403: await browser_like.get("/", headers={"Host": "evil.example"}),
    }
    await log_in(browser_like, inspector)
    for path in ("/", "/timeline/7", "/api/inspection", "/api/nothing", "/page/app.js", "/page/no"):
        response = await browser_like.get(path)
        seen[response.status_code] = response
        check_headers(response)
    assert set(seen) == {200, 401, 403, 404}
    for response in seen.values():
        check_headers(response)


async def test_browsers_keep_only_files_whose_address_names_their_version(
    inspector: Inspector, browser_like: httpx2.AsyncClient
) -> None:
    await log_in(browser_like, inspector)
    named = re.findall(r'"(/page/[^"]+)"', (await browser_like.get("/timeline")).text)
    assert any(address.endswith("/app.js") for address in named)
    for address in named:
        response = await browser_like.get(address)
        assert response.status_code == 200, address
        check_headers(response, "private, max-age=31536000, immutable")
    other = re.sub("/page/[^/]+/", "/page/0123456789abcdef/", named[0])
    assert (await browser_like.get(other)).status_code == 404


def check_headers(response: httpx2.Response, kept: str = "no-store") -> None:
    headers = response.headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == kept


async def test_request_after_one_whose_body_was_not_read_is_answered() -> None:
    async with (
        inspecting("script") as inspector,
        httpx2.AsyncClient(base_url=inspector.origin) as client,
    ):
        cookie = await log_in(client, inspector)
        host, _, port = inspector.origin.removeprefix("http://").rpartition(":")
        head = f"Host: {host}:{port}\r\nCookie: {cookie}\r\n"
        get = f"GET /page/nothing HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
        for size in (10, 100_000):
            post = f"POST /api/faults/off HTTP/1.1\r\n{head}Content-Length: {size}\r\n\r\n"
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                async with asyncio.timeout(30):
                    for _ in range(5):
                        writer.write(post.encode())
                        await writer.drain()
                        writer.write(b"x" * size)
                    writer.write(get.encode())
                    received = await reader.read()
            finally:
                writer.close()
            assert received.count(b"HTTP/1.1 200") == 5, size
            assert received.count(b"HTTP/1.1 404") == 1, size
