"""What is measured over the network of this machine: WebSocket and streamable HTTP."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from experiment import Column, Experiment, Numbers
from peers import HERE, Peer, on_network, python_with_remote
from processes import Server, run, run_client

CHUNKS, WARM_CHUNKS = 100_000, 3_000
ROUNDTRIPS = 1_000
IDLE = 5_000
CLIENTS, CHUNKS_PER_CLIENT = 1_000, 100

HTTP2 = {"BENCH_HTTP2": "1"}
PEERS = ("accord", "accord-api", "official", "typescript")
STREAM_COLUMNS = (
    Column("per_s", "updates/s"),
    Column("client_cpu_s", "client CPU s"),
    Column("agent_cpu_s", "server CPU s"),
    Column("client_peak_mb", "client peak MB"),
    Column("agent_peak_mb", "server peak MB"),
)
ROUNDTRIP_COLUMNS = (
    Column("to_agent_p50", "client → agent, p50 µs"),
    Column("to_agent_p99", "p99 µs"),
    Column("to_client_p50", "agent → client, 1 KB, p50 µs"),
    Column("to_client_p99", "p99 µs"),
)


def stream(peer: Peer, scheme: str) -> Numbers:
    peer = on_network(peer)
    with Server(peer) as server:
        params = {"n": CHUNKS, "warm": WARM_CHUNKS}
        return run_client(peer, "stream", params, agent=server.agent(scheme), extra=HTTP2)


def stream_stdio(peer: Peer) -> Numbers:
    """Stream over pipes, then over WebSocket, by the same client."""
    peer = on_network(peer)
    pipes = run_client(peer, "stream", {"n": CHUNKS, "warm": WARM_CHUNKS})["per_s"]
    socket = stream(peer, "ws")["per_s"]
    return {"ratio": socket / pipes, "ws_per_s": socket, "stdio_per_s": pipes}


def _roundtrip(peer: Peer, agent: tuple[str, ...]) -> Numbers:
    result = run_client(peer, "roundtrip", {"n": ROUNDTRIPS, "by": "prompt"}, agent=agent)
    to_agent, to_client = result["to_agent"], result["to_client"]
    return {
        "to_agent_p50": to_agent["p50_us"],
        "to_agent_p99": to_agent["p99_us"],
        "to_client_p50": to_client["p50_us"],
        "to_client_p99": to_client["p99_us"],
    }


def roundtrip(peer: Peer, scheme: str) -> Numbers:
    peer = on_network(peer)
    with Server(peer) as server:
        return _roundtrip(peer, server.agent(scheme))


def bridge(peer: Peer) -> Numbers:
    """Measure round trips over the socket, then over pipes to `accord bridge`."""
    peer = on_network(peer)
    with Server(peer) as server:
        url, pid = server.agent("ws")
        socket = _roundtrip(peer, (url, pid))
        bridged = _roundtrip(peer, (python_with_remote(), "-m", "accord", "bridge", url))
    key = "to_agent_p50"
    return {
        "ratio": bridged[key] / socket[key],
        "to_client_ratio": bridged["to_client_p50"] / socket["to_client_p50"],
        "bridge_us": bridged[key],
        "socket_us": socket[key],
    }


def idle(peer: Peer) -> Numbers:
    """Hold idle connections; what an agent takes without a network is known of ours only."""
    peer = on_network(peer)
    with Server(peer) as server:
        program = [sys.executable, str(HERE / "servers" / "idle.py")]
        held = run([*program, *server.agent("ws"), str(IDLE)], peer.variables())
    if not peer.name.startswith("accord"):
        return held
    alone = run([*peer.server, str(IDLE)], peer.variables())
    return {**held, "agent_kb": alone["kb"], "above_kb": held["kb"] - alone["kb"]}


def clients(peer: Peer) -> Numbers:
    peer = on_network(peer)
    with Server(peer) as server:
        params = {"n": CLIENTS, "chunks": CHUNKS_PER_CLIENT}
        return run_client(peer, "clients", params, agent=server.agent("ws"))


def _by_scheme() -> Iterator[Experiment]:
    for scheme, name, version, rounds in (
        ("ws", "WebSocket", "WebSocket", 3),
        ("http", "streamable HTTP/1.1", "streamable HTTP/2 (TypeScript: 1.1)", 2),
    ):
        common = {"rounds": rounds, "quick_rounds": 1, "only": PEERS}
        yield Experiment(
            f"remote-stream-{scheme}",
            f"Streaming {CHUNKS:,} message chunks in one turn over {version}",
            columns=STREAM_COLUMNS,
            measure=partial(stream, scheme=scheme),
            **common,
        )
        yield Experiment(
            f"remote-roundtrip-{scheme}",
            f"Round trip over {name}, {ROUNDTRIPS:,} one after another: a prompt, a file read",
            columns=ROUNDTRIP_COLUMNS,
            measure=partial(roundtrip, scheme=scheme),
            **common,
        )


NETWORK_EXPERIMENTS = (
    *_by_scheme(),
    Experiment(
        "remote-stdio",
        f"Streaming {CHUNKS:,} chunks over WebSocket alongside pipes",
        rounds=2,
        quick_rounds=1,
        columns=(
            Column("ratio", "to pipes"),
            Column("ws_per_s", "WebSocket, updates/s"),
            Column("stdio_per_s", "pipes, updates/s"),
        ),
        measure=stream_stdio,
        only=("accord", "accord-api"),
    ),
    Experiment(
        "remote-idle",
        f"{IDLE:,} idle WebSocket connections held by one server",
        rounds=1,
        quick_rounds=1,
        columns=(
            Column("kb", "KB of the server per connection"),
            Column("agent_kb", "KB of an agent alone"),
            Column("above_kb", "KB above it"),
            Column("connects_per_s", "connections/s"),
        ),
        measure=idle,
        only=PEERS,
    ),
    Experiment(
        "remote-clients",
        f"{CLIENTS:,} WebSocket clients of one process, one session each, "
        f"× {CHUNKS_PER_CLIENT} chunks at once",
        rounds=1,
        quick_rounds=1,
        columns=(
            STREAM_COLUMNS[0],
            Column("fairness", "earliest / latest finish"),
            *STREAM_COLUMNS[1:],
        ),
        measure=clients,
        only=PEERS,
    ),
    Experiment(
        "remote-bridge",
        "Round trip by `accord bridge` over pipes, alongside that of the socket alone",
        rounds=3,
        quick_rounds=1,
        columns=(
            Column("ratio", "client → agent, to the socket"),
            Column("to_client_ratio", "agent → client, to the socket"),
            Column("bridge_us", "bridge p50 µs"),
            Column("socket_us", "socket p50 µs"),
        ),
        measure=bridge,
        only=("accord",),
    ),
)
