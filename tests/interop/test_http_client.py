"""Complete turns over streamable HTTP between Accord's client and the official SDKs' servers."""

from __future__ import annotations

from pathlib import Path

import pytest

import accord
from interop.test_websocket import ACCORD, SERVERS, listening, official, turn
from interop.turns import PEERS, after_v1, after_v2, require
from requirement import requirement

pytestmark = pytest.mark.slow

STORED = {"typescript": "./ts_stored.mjs", "python-1.0": "stored"}


@requirement("R-HTTP-01", "R-HTTP-15")
@pytest.mark.parametrize("server", SERVERS)
def test_bridge_completes_a_turn_with_every_server(server: str, tmp_path: Path) -> None:
    peer = official(server)
    with listening(SERVERS[server]) as url:
        target = url.replace("ws://", "http://")
        command = [*PEERS[1]["accord"].start_client(), *ACCORD, "bridge", target]
        assert turn(command, tmp_path) == after_v1(peer)


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_bridge_completes_a_v2_turn_with_the_typescript_server(scheme: str, tmp_path: Path) -> None:
    official("typescript")
    peer = PEERS[2]["typescript"]
    require(peer)
    with listening([*SERVERS["typescript"], "./ts_agent_v2.mjs"]) as url:
        target = url.replace("ws://", f"{scheme}://")
        command = [*PEERS[2]["accord"].start_client(), *ACCORD, "bridge", target]
        assert turn(command, tmp_path) == after_v2(peer, PEERS[2]["accord"])


@requirement("R-HTTP-16", "R-HTTP-12", "R-HTTP-37")
@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("server", STORED)
async def test_session_is_loaded_on_another_connection(
    server: str, scheme: str, tmp_path: Path
) -> None:
    official(server)

    def counted(text: str) -> str:
        return "".join(f"{text} {number}, " for number in range(20))

    async def prompt(session: accord.ClientSession, text: str) -> str:
        async with session.prompt(text) as running:
            await running.wait()
        return running.text

    with listening([*SERVERS[server], STORED[server]]) as url:
        target = url.replace("ws://", f"{scheme}://")
        async with accord.connect(target) as agent:
            session = await agent.new_session(tmp_path)
            assert await prompt(session, "first") == counted("first")
        async with accord.connect(target) as agent:
            session = await agent.load_session(session.id, tmp_path)
            assert [one.text for one in session.transcript.messages] == [counted("first")]
            assert await prompt(session, "second") == counted("second")
