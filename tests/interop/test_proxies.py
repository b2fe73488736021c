"""A complete turn through chains of proxies with conductors and proxies written without Accord.

The turns are those of README.md.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interop.turns import HERE, PEERS, Peer, after_v1, after_v2, require, run

pytestmark = pytest.mark.slow

TYPESCRIPT = {version: PEERS[version]["typescript"] for version in (1, 2)}
NODE = shutil.which("node") or "node"
PACKAGE = HERE / "node_modules/@thinkwell/conductor/package.json"


CONDUCTORS = {
    "acp": [sys.executable, str(HERE / "peers/conductor_by_hand.py"), "acp"],
    "rust": [sys.executable, str(HERE / "peers/conductor_by_hand.py"), "rust"],
    # Only in version 1: it passes on `$/cancel_request` with the id of another connection.
    "thinkwell": [NODE, str(HERE / "peers/ts_conductor.mjs")],
}


def by_hand(dialect: str) -> list[str]:
    """Return the command of a proxy that is written by hand."""
    return [sys.executable, str(HERE / "peers/proxy_by_hand.py"), dialect]


def chain(conductor: Sequence[str], *components: Sequence[str]) -> list[str]:
    return [*conductor, *map(shlex.join, components)]


def expected(client: Peer, agent: Peer) -> dict[str, Any]:
    return after_v2(agent, client) if "_v2" in client.client else after_v1(agent)


def complete(client: Peer, agent: Peer, cwd: Path, command: Sequence[str]) -> None:
    """Run the client's turn through the chain of the command, which ends at the agent."""
    assert run(client, agent, cwd, command) == expected(client, agent)


@pytest.mark.parametrize(("dialect", "version"), [("acp", 1), ("rust", 2), ("thinkwell", 1)])
def test_conductors_and_proxies_without_accord_work_together(
    dialect: str, version: int, tmp_path: Path
) -> None:
    """The programs that the other tests use are correct."""
    if dialect == "thinkwell":
        require(Peer("thinkwell", (), "", "", (PACKAGE,)))
    peer = TYPESCRIPT[version]
    command = chain(CONDUCTORS[dialect], by_hand(dialect), by_hand(dialect), peer.start_agent())
    complete(peer, peer, tmp_path, command)
