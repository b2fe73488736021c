"""Turns between Accord and peers that differ as the official SDKs do, over real sockets."""

from __future__ import annotations

import json
import tempfile
from typing import Any

import pytest

import accord
from accord.transports.registry import transport_for_url
from remote.quirk_server import SERVER_PRESETS, QuirkServer
from requirement import requirement


def schemes() -> list[str]:
    """Return the schemes that Accord's client knows."""
    known = ["ws"]
    try:
        transport_for_url("http://127.0.0.1:1/acp")
    except ValueError:
        return known
    return [*known, "http"]


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
@pytest.mark.parametrize("scheme", schemes())
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
