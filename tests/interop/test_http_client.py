"""A complete turn over streamable HTTP between Accord's client and the official SDKs' servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.test_websocket import ACCORD, SERVERS, listening, official, turn
from interop.turns import PEERS, after_v1
from requirement import requirement

pytestmark = pytest.mark.slow


@requirement("R-HTTP-01", "R-HTTP-15")
@pytest.mark.parametrize("server", SERVERS)
def test_bridge_completes_a_turn_with_every_server(server: str, tmp_path: Path) -> None:
    peer = official(server)
    with listening(SERVERS[server]) as url:
        target = url.replace("ws://", "http://")
        command = [*PEERS[1]["accord"].start_client(), *ACCORD, "bridge", target]
        assert turn(command, tmp_path) == after_v1(peer)
