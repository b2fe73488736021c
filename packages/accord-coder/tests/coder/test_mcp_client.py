"""MCP servers of the client, as real processes, used by a session of the coder."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `coder` is not installed")

from accord import EmbeddedResource, ImageContent, McpServerHttp, McpServerStdio, Notice
from accord.types.mcp import McpServerSse
from coder import mcp_server  # what it imports, the forked servers need not import
from coder.harness import BOTH, CoderHarness, scripted
from coder.scripted_model import ScriptedModel

pytestmark = pytest.mark.slow  # each starts a server that imports a lot

SERVER = Path(mcp_server.__file__)


# A program is forked only if it has the settings of Python that this process has.
OF_PYTHON = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}


def stdio(name: str = "test", **env: str) -> McpServerStdio:
    return McpServerStdio(name, sys.executable, (str(SERVER),), OF_PYTHON | env)


def requests_of(harness: CoderHarness) -> list[Any]:
    """Return the requests that the model received."""
    assert isinstance(harness.model, ScriptedModel)
    return harness.model.requests


@asynccontextmanager
async def over_http(kind: str) -> AsyncGenerator[Any, None]:
    """Serve the server over HTTP; yield its entry in `mcp_servers`."""
    import uvicorn

    server = mcp_server.make_server()
    app = server.streamable_http_app() if kind == "http" else server.sse_app()
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="on", ws="none")
    up = asyncio.Event()

    class Served(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            up.set()

    served = Served(config)
    task = asyncio.create_task(served.serve())
    try:
        async with asyncio.timeout(20):
            await up.wait()
        port = served.servers[0].sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        headers = {"X-Test": "yes"}
        if kind == "http":
            yield McpServerHttp("test", f"{address}/mcp", headers)
        else:
            yield McpServerSse("test", f"{address}/sse", headers)
    finally:
        served.should_exit = True
        await task


@asynccontextmanager
async def given(kind: str) -> AsyncGenerator[Any, None]:
    if kind == "stdio":
        yield stdio()
    else:
        async with over_http(kind) as server:
            yield server


@BOTH
@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_mcp_tools_are_used_like_built_in_tools(
    version: int, tmp_path: Path, kind: str
) -> None:
    if (version, kind) == (2, "sse"):
        return  # version 2 does not define it
    async with (
        given(kind) as server,
        scripted(tmp_path, version, mcp_servers=[server]) as harness,
    ):
        result = await harness.use("mcp__test__add", a=2, b=3)
        assert "5" in result.text
        assert harness.call.status == "completed"
        assert harness.call.kind == "read"
        assert harness.call.title == "Add numbers (test)"
        assert harness.asked  # the hints of a server are not permissions
        spec = next(s for s in requests_of(harness)[0].tools if s.name == "mcp__test__add")
        assert spec.description == "Add two numbers."
        assert set(spec.parameters["properties"]) == {"a", "b"}


async def test_images_and_resources_keep_their_types(tmp_path: Path) -> None:
    async with scripted(tmp_path, mcp_servers=[stdio()]) as harness:
        picture, document = await harness.uses(
            ("mcp__test__picture", {}), ("mcp__test__document", {})
        )
        assert picture.content == (ImageContent(b"\x89PNG", "image/png"),)
        assert isinstance(document.content[0], EmbeddedResource)
        assert document.content[0].content == "the notes"


async def test_failed_tool_reports_the_reason(tmp_path: Path) -> None:
    async with scripted(tmp_path, mcp_servers=[stdio()]) as harness:
        failed, wrong = await harness.uses(
            ("mcp__test__fail", {}), ("mcp__test__add", {"a": "no number"})
        )
        assert failed.failed
        assert "nothing works" in failed.text
        assert wrong.failed


async def test_failed_start_is_reported_and_other_servers_work(tmp_path: Path) -> None:
    missing = McpServerStdio("missing", str(tmp_path / "no-such-program"))
    dies = McpServerStdio("dies", sys.executable, ("-c", "raise SystemExit(1)"))
    servers = [missing, stdio(), dies]
    async with scripted(tmp_path, mcp_servers=servers) as harness:
        result = await harness.use("mcp__test__add", a=1, b=1)
        assert "2" in result.text
        reported = "".join(event.title for event in harness.events if isinstance(event, Notice))
        assert "missing cannot be used: the command does not exist" in reported
        assert "dies cannot be used" in reported


async def test_cancel_is_forwarded_and_progress_is_shown(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    os.mkfifo(mark)
    reading = os.open(mark, os.O_RDONLY | os.O_NONBLOCK)
    cancelled = asyncio.Event()
    asyncio.get_running_loop().add_reader(reading, cancelled.set)
    server = stdio(CANCELLED=str(mark))
    async with scripted(tmp_path, mcp_servers=[server]) as harness:
        async with harness.using("mcp__test__slow") as turn:
            async for _ in turn:
                if harness.calls and "one of four (1/4)" in harness.call.title:
                    await turn.cancel()
        assert turn.stop_reason == "cancelled"
        async with asyncio.timeout(20):
            await cancelled.wait()
        asyncio.get_running_loop().remove_reader(reading)
        assert os.read(reading, 100) == b"cancelled"
        os.close(reading)
        assert "2" in (await harness.use("mcp__test__add", a=1, b=1)).text


@pytest.mark.parametrize(
    ("version", "kind"), [(1, "http"), (2, "stdio")], ids=["v1-http", "v2-stdio"]
)
async def test_tools_added_later_are_available(version: int, tmp_path: Path, kind: str) -> None:
    async with (
        given(kind) as server,
        scripted(tmp_path, version, mcp_servers=[server]) as harness,
    ):
        await harness.use("mcp__test__grow")
        async with asyncio.timeout(20):
            while "mcp__test__grown" not in {s.name for s in requests_of(harness)[-1].tools}:
                await harness.prompt("look again")
        assert (await harness.use("mcp__test__grown")).text == "grown"


async def test_server_that_exits_is_an_error_and_is_restarted(tmp_path: Path) -> None:
    async with scripted(tmp_path, mcp_servers=[stdio()]) as harness:
        died = await harness.use("mcp__test__leave")
        assert died.failed
        assert "2" in (await harness.use("mcp__test__add", a=1, b=1)).text


async def test_server_receives_no_api_keys_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server = stdio(OF_THE_CLIENT="1")
    async with scripted(tmp_path, mcp_servers=[server]) as harness:
        names = (await harness.use("mcp__test__environment")).text.split()
        assert "OF_THE_CLIENT" in names
        assert "OPENAI_API_KEY" not in names


async def test_servers_end_with_the_session(tmp_path: Path) -> None:
    async with scripted(tmp_path, mcp_servers=[stdio()]) as harness:
        await harness.use("mcp__test__add", a=1, b=1)
        state = harness.state
        await harness.session.close()
        assert state.mcp is not None
        assert not state.mcp
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("mcp ")]
    assert not left
