"""The turns of README.md through chains of proxies, with the official SDKs at both ends.

Conductors and proxies are Accord's or written without it, in each dialect.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from interop.frames import messages
from interop.test_websocket import TOKEN, listening
from interop.turns import HERE, LIMIT_S, PEERS, Peer, after_v1, after_v2, require, run, tapped
from requirement import requirement

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
ACCORD = [sys.executable, "-W", "error", "-m", "accord"]
PASS = [sys.executable, "-W", "error", str(HERE / "accord_proxy.py"), "pass"]
READ = [*PASS[:-1], "read"]


def by_hand(dialect: str) -> list[str]:
    """Return the command of a proxy without Accord."""
    return [sys.executable, str(HERE / "peers/proxy_by_hand.py"), dialect]


def chain(conductor: Sequence[str], *components: Sequence[str]) -> list[str]:
    return [*conductor, *map(shlex.join, components)]


def complete(client: Peer, agent: Peer, cwd: Path, command: Sequence[str]) -> None:
    """Run the client's turn through the chain of the command, which ends at the agent."""
    is_v2 = client.client.endswith(("_v2.mjs", "_v2.py"))
    expected = after_v2(agent, client) if is_v2 else after_v1(agent)
    assert run(client, agent, cwd, command) == expected


def require_conductor(dialect: str) -> None:
    require(Peer(dialect, (), "", "", (PACKAGE,) if dialect == "thinkwell" else ()))


# Accord with other conductors and proxies.


@pytest.mark.parametrize(("dialect", "version"), [("acp", 1), ("thinkwell", 1)])
def test_conductors_and_proxies_without_accord_work_together(
    dialect: str, version: int, tmp_path: Path
) -> None:
    """The programs of the other tests are correct."""
    require_conductor(dialect)
    peer = TYPESCRIPT[version]
    command = chain(CONDUCTORS[dialect], by_hand(dialect), peer.start_agent())
    complete(peer, peer, tmp_path, command)


@requirement("R-PROXY-03", "R-PROXY-04", "R-PROXY-06", "R-PROXY-13")
@pytest.mark.parametrize(("dialect", "version"), [("acp", 1), ("rust", 2), ("thinkwell", 1)])
def test_proxies_of_accord_work_with_every_conductor(
    dialect: str, version: int, tmp_path: Path
) -> None:
    require_conductor(dialect)
    peer = TYPESCRIPT[version]
    # Two proxies, where the conductor does not say to the second that it is one.
    proxies = [PASS, READ] if dialect == "thinkwell" else [READ]
    command = chain(CONDUCTORS[dialect], *proxies, peer.start_agent())
    complete(peer, peer, tmp_path, command)


@requirement("R-PROXY-01", "R-PROXY-02", "R-PROXY-07", "R-REQCAN-11")
@requirement("R-PROXY-21", "R-PROXY-25")
@pytest.mark.parametrize("version", [1, 2])
def test_conductor_of_accord_drives_proxies_of_every_dialect(version: int, tmp_path: Path) -> None:
    """The dialect `thinkwell` is a setting; the others are found in the handshake."""
    peer = TYPESCRIPT[version]
    commands = [*map(by_hand, ("acp", "rust", "thinkwell")), peer.start_agent()]
    tables = [f"[[component]]\ncommand = {json.dumps(command)}" for command in commands]
    tables[2] += '\ndialect = "thinkwell"'
    file = tmp_path / "chain.toml"
    file.write_text("\n".join(tables), encoding="utf-8")
    complete(peer, peer, tmp_path, [*ACCORD, "chain", "--config", str(file)])


# Bytes.


def unchanged(peer: Peer, cwd: Path, command: Sequence[str]) -> None:
    """Run a turn whose agent is recorded in `agent.log`, and compare both ends."""
    complete(peer, peer, cwd, command)
    for direction in "<>":
        at_client, at_agent = (
            messages(cwd / name, direction) for name in ("frames.log", "agent.log")
        )
        assert len(at_client) > 10
        assert at_client == at_agent


CHAINS = {
    "one process": chain([*ACCORD, "chain"], READ),
    "three processes": chain([*ACCORD, "chain"], PASS, READ, PASS),
    "in process": [sys.executable, "-W", "error", str(HERE / "accord_chain.py"), "pass,read,pass"],
}


@requirement("R-PROXY-05", "R-PROXY-08", "R-PROXY-09", "R-PROXY-14")
@requirement("R-PROXY-18", "R-PROXY-20")
@pytest.mark.parametrize(
    ("version", "name"),
    [(1, "one process"), (1, "in process"), (2, "three processes"), (2, "in process")],
)
def test_turn_has_the_same_bytes_at_both_ends(version: int, name: str, tmp_path: Path) -> None:
    peer = TYPESCRIPT[version]
    agent = tapped(tmp_path / "agent.log", peer.start_agent())
    unchanged(peer, tmp_path, [*CHAINS[name], shlex.join(agent)])


@requirement("R-PROXY-20", "R-PROXY-26")
def test_proxy_and_agent_can_be_remote(tmp_path: Path) -> None:
    peer = TYPESCRIPT[1]
    token = tmp_path / "token"
    token.write_text(TOKEN)
    agent = tapped(tmp_path / "agent.log", peer.start_agent())
    serve = [*ACCORD, "serve", "--port", "0", "--allow-mcp", "stdio", "--"]
    with (
        listening([*serve, *PASS], on_stderr=True) as proxy_url,
        listening([*serve, *agent], on_stderr=True, cwd=tmp_path) as agent_url,
    ):
        tables = [
            f'[[component]]\ncommand = "{url}"\ntoken_file = "token"'
            for url in (proxy_url, agent_url)
        ]
        file = tmp_path / "chain.toml"
        file.write_text("\n".join(tables), encoding="utf-8")
        unchanged(peer, tmp_path, [*ACCORD, "chain", "--config", str(file)])


# The conformance kit.


def passes_check(*words: str) -> str:
    done = subprocess.run(
        [*ACCORD, "check", *words], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_proxy_without_accord_passes_the_check() -> None:
    passes_check("proxy", "--version", "1", "--", *by_hand("acp"))


def test_chain_passes_the_check_of_agents_as_its_agent_does() -> None:
    """A chain answers unusable lines, ids and params itself, and passes on large ones."""
    scenarios = ("malformed/lines", "malformed/ids", "handshake/future-version")
    only = [word for name in scenarios for word in ("--only", name)]
    command = chain([*ACCORD, "chain"], PASS, [*ACCORD, "agent", "script"])
    text = passes_check("agent", "--strict", "--version", "2", *only, "--", *command)
    assert "Advice" not in text, text


# The official Python SDK.


@pytest.mark.parametrize(("version", "agent"), [(1, "python-1.0"), (2, "accord")])
def test_official_python_client_works_through_a_chain(
    version: int, agent: str, tmp_path: Path
) -> None:
    client, end = PEERS[version]["python-1.0"], PEERS[version][agent]
    complete(client, end, tmp_path, chain([*ACCORD, "chain"], READ, end.start_agent()))
