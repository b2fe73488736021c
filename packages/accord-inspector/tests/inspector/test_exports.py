"""The page exports what the list has as HAR and Markdown, without secrets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from accord_trace import Recording
from inspector.inspector_process import Inspector, go, inspecting
from inspector.recordings import chunk, message, opening, turn

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = "</script><img src=x> \x1b[2J \u202e `code` \ud800"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    path = tmp_path_factory.mktemp("recordings") / "a b'c.acp.jsonl"
    server = {"name": "x", "command": "x", "args": [], "env": [{"name": "KEY", "value": "hunter2"}]}
    setup = {"cwd": "/w", "mcpServers": [server]}
    with Recording(path, redact=False) as recording:
        hop = recording.hop()
        recording.add(hop, opening())
        recording.add(hop, [message("to_agent", id=2, method="session/new", params=setup)])
        recording.add(hop, [message("to_client", id=2, error={"code": -1, "message": "no"})])
        recording.add(hop, turn(3, chunk("hello"), chunk(HOSTILE), text="the prompt"))
        recording.add(hop, [("to_client", b'not JSON "password": "hunter2"')])
        recording.add(hop, [message("to_agent", id=4, method="session/list", params={})])
    async with inspecting(str(path)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def client(inspector: Inspector) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=inspector.origin, timeout=30) as client:
        await client.get(inspector.address)
        yield client


async def har_of(client: httpx2.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    response = await client.get(f"/api/export?format=har{query}")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    return json.loads(response.content)["log"]["entries"]


async def test_har_has_an_entry_for_each_request_and_notification(
    client: httpx2.AsyncClient,
) -> None:
    entries = await har_of(client)
    shown = [(one["request"]["url"], one["response"]["status"]) for one in entries]
    assert shown == [
        ("acp://agent/initialize", 200),
        ("acp://agent/session/new", 200),
        ("acp://agent/session/new", 500),
        ("acp://client/session/update", 0),
        ("acp://client/session/update", 0),
        ("acp://agent/session/prompt", 200),
        ("acp://agent/session/list", 0),
    ]
    for one in entries:
        assert json.loads(one["request"]["postData"]["text"])["jsonrpc"] == "2.0"


async def test_filter_exports_both_messages_of_a_pair(client: httpx2.AsyncClient) -> None:
    entries = await har_of(client, "&text=the+prompt")
    assert [one["request"]["url"] for one in entries] == ["acp://agent/session/prompt"]
    assert "end_turn" in entries[0]["response"]["content"]["text"]
    entries = await har_of(client, "&errors=1")
    assert [one["response"]["status"] for one in entries] == [500]


@pytest.mark.parametrize("form", ["har", "md"])
async def test_secrets_are_replaced_also_in_a_recording_that_has_them(
    client: httpx2.AsyncClient, form: str
) -> None:
    shown = (await client.get("/api/messages/4")).text
    assert "hunter2" in shown  # the user recorded it with --no-redact
    response = await client.get(f"/api/export?format={form}")
    text = response.text
    if form == "har":
        entries = json.loads(text)["log"]["entries"]
        sent = json.loads(entries[2]["request"]["postData"]["text"])
        assert sent["params"]["mcpServers"][0]["env"] == [{"name": "KEY", "value": "[redacted]"}]
    assert "KEY" in text or form == "md"
    assert '"value": "hunter2"' not in text
    assert '\\"hunter2\\"' not in text.partition("not JSON")[0]


async def test_name_of_the_file_is_plain(client: httpx2.AsyncClient) -> None:
    response = await client.get("/api/export?format=md")
    assert response.headers["content-disposition"] == 'attachment; filename="a_b_c.md"'
    assert response.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "> the prompt" in response.text
    assert "**Agent:** hello" in response.text
    assert not set("\x1b\u202e") & set(response.text)


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("", 400, "format: expected one of: har, md, got ''"),
        ("format=../x", 400, "got '../x'"),
        ("format=md&path=$[", 400, "JSONPath"),
        ("format=md&recording=../../etc/passwd", 404, "Unknown recording"),
    ],
)
async def test_mistake_is_explained(
    client: httpx2.AsyncClient, query: str, status: int, said: str
) -> None:
    response = await client.get(f"/api/export?{query}")
    assert response.status_code == status
    assert said in response.json()["error"]


async def test_page_downloads_what_the_list_has(page: Page, inspector: Inspector) -> None:
    await page.goto(inspector.address)
    await go(page, "/timeline?method=session/prompt")
    await expect(page.locator(".list-status")).to_contain_text(re.compile("^2 of 12 messages"))
    export = page.locator(".exports summary")
    for name, expected in (("HAR", "acp://agent/session/prompt"), ("Markdown", "> the prompt")):
        await export.click()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name=name).click()
        download = await downloading.value
        assert download.suggested_filename == f"a_b_c.{'har' if name == 'HAR' else 'md'}"
        text = await asyncio.to_thread(Path(await download.path()).read_text, "utf-8")
        assert expected in text
        assert "initialize" not in text
        await page.locator(".viewport").focus()
        await expect(page.get_by_role("link", name=name)).to_be_hidden()
