"""Turns between Accord and peers that differ as the official SDKs do, over real sockets."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.script_agent.agent import ScriptAgent
from remote.quirk_client import CLIENT_PRESETS, QuirkClient
from remote.quirk_server import SERVER_PRESETS, QuirkServer
from remote.servers import listener
from requirement import requirement

TOKEN = "a token of a test, long enough"
CLIENTS = [*((name, 1) for name in CLIENT_PRESETS), ("ts", 2)]


async def turn(url: str) -> list[str]:
    """Run a turn with a permission request and a turn with two messages, then load the session."""
    with tempfile.TemporaryDirectory() as cwd:
        async with accord.connect(url, permissions=lambda request: "allow", versions=(1,)) as agent:
            session = await agent.new_session(cwd)
            texts: list[str] = []
            for words in ("permission", "echo hello"):
                async with session.prompt(words) as running:
                    await running.wait()
                texts.append(running.text)
            ident = session.id
            again = await agent.load_session(ident, cwd)
            async with again.prompt("echo again") as running:
                await running.wait()
            texts.append(running.text)
            return texts


@requirement("R-HTTP-12", "R-HTTP-16", "R-HTTP-25", "R-HTTP-37")
@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize("preset", SERVER_PRESETS)
async def test_client_completes_turns_with_every_kind_of_server(preset: str, scheme: str) -> None:
    async with QuirkServer(preset) as server:
        texts = await turn(server.ws_url if scheme == "ws" else server.http_url)
        assert "hello" in texts[1]
        assert "again" in texts[2]
        refused: list[Any] = [
            (one.method, one.status, json.loads(one.body or b"{}").get("method"))
            for one in server.log
            if one.status is not None and one.status >= 400 and one.method != "GET"
        ]
        # Servers that know no session before it was loaded refuse its header.
        allowed = [("POST", 404, "session/load")] if preset == "rc3" else []
        assert [one for one in refused if one not in allowed] == []


@requirement("R-HTTP-34", "R-HTTP-35", "R-HTTP-45")
@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize(
    ("preset", "version"), [*((name, 1) for name in CLIENT_PRESETS), ("ts", 2)]
)
async def test_server_completes_turns_with_every_kind_of_client(
    preset: str, scheme: str, version: int, tmp_path: Path
) -> None:
    app = accord.asgi(ScriptAgent(), token=TOKEN)
    async with listener(app) as address:
        url = f"{scheme}://{address}/acp"
        async with QuirkClient(url, preset, token=TOKEN) as client:
            await client.initialize(version)
            session = await client.new_session(str(tmp_path))
            await client.prompt(session, "permission")
            await client.prompt(session, "echo hello")
            if version == 1:
                assert "hello" in json.dumps(client.updates)
        async with QuirkClient(url, preset, token=TOKEN) as client:
            await client.initialize(version)
            if version == 1:
                await client.load_session(session, str(tmp_path))
                await client.prompt(session, "echo again")
                assert "again" in json.dumps(client.updates)
        assert client.refusals == []
