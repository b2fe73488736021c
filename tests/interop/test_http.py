"""Complete turns of the official SDKs' clients with `accord serve`, most over streamable HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.accord_agent_stored import COUNT
from interop.test_websocket import ACCORD, HERE, listening, turn
from interop.turns import PEERS, after_v1, after_v2, require
from requirement import requirement

pytestmark = pytest.mark.slow

LOADERS = {"typescript": "peers/ts_load.mjs", "python-1.0": "peers/py_load.py"}


@requirement("R-HTTP-05", "R-HTTP-12", "R-HTTP-34", "R-HTTP-35")
@pytest.mark.parametrize("client", ["typescript", "python-1.0"])
def test_served_agent_completes_a_turn_with_every_client(client: str, tmp_path: Path) -> None:
    peer = PEERS[1][client]
    require(peer)
    served = [*ACCORD, "serve", "--port", "0", "--", *PEERS[1]["accord"].start_agent()]
    with listening(served, on_stderr=True) as url:
        command = [*peer.start_client(), url.replace("ws://", "http://")]
        seen, expected = turn(command, tmp_path), after_v1(PEERS[1]["accord"])
        if client == "python-1.0" and seen["modeAtAnswer"] is None:
            # It handles notifications in tasks, so a response can overtake an update.
            expected["modeAtAnswer"] = None
        assert seen == expected


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_served_agent_completes_a_v2_turn_with_the_typescript_client(
    scheme: str, tmp_path: Path
) -> None:
    peer = PEERS[2]["typescript"]
    require(peer)
    served = [*ACCORD, "serve", "--port", "0", "--", *PEERS[2]["accord"].start_agent()]
    with listening(served, on_stderr=True) as url:
        command = [*peer.start_client(), url.replace("ws://", f"{scheme}://")]
        assert turn(command, tmp_path) == after_v2(PEERS[2]["accord"], peer)


@requirement("R-HTTP-11", "R-HTTP-12")
@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("client", LOADERS)
def test_session_is_loaded_on_another_connection(client: str, scheme: str, tmp_path: Path) -> None:
    peer = PEERS[1][client]
    require(peer)
    served = [*ACCORD, "serve", "--port", "0", "accord_agent_stored:Counter"]
    with listening(served, on_stderr=True, cwd=HERE) as url:
        command = [*peer.runner, str(HERE / LOADERS[client]), url.replace("ws://", f"{scheme}://")]
        found = turn(command, tmp_path)
    first = [f"first: {number}" for number in range(COUNT)] + ["first: the end"]
    assert found["replayed"] == ["first", *first]
    if client == "typescript" and scheme == "ws":
        assert found["atResponse"] == len(found["replayed"])
    assert found["said"] == [text.replace("first", "second") for text in first]
