"""What recording costs, and how fast recordings of gigabytes are searched."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from experiment import Column, Experiment, Numbers
from peers import HERE, Peer, python_with_cli, python_with_json_path
from processes import run, run_client

PEERS = ("accord",)
CHUNKS, WARM_CHUNKS = 300_000, 3_000
ROUNDTRIPS = 3_000
MESSAGES = 1_000_000
UPDATES = 500_000
SEARCH = str(HERE / "recordings" / "search.py")
PAGE = str(HERE / "recordings" / "page.py")
RECORD = str(HERE / "recordings" / "record.py")
RELAYS = str(HERE / "proxies" / "relays.py")
WRITE = str(HERE / "recordings" / "write.py")


def recorded(peer: Peer, path: Path) -> tuple[str, ...]:
    """Return the command of the peer's agent behind `accord trace record`."""
    program = (python_with_cli(), "-m", "accord", "trace", "record")
    return (*program, "-o", str(path), "--", *peer.agent)


def copied(peer: Peer) -> tuple[str, ...]:
    """Return the command of the peer's agent behind a process that only copies bytes."""
    return (peer.agent[0], "-S", RELAYS, "1", *peer.agent)


def stream(peer: Peer, chunks: int = CHUNKS) -> Numbers:
    """Stream without and with a recording; every update must be in it."""
    params = {"n": chunks, "warm": WARM_CHUNKS}
    alone = run_client(peer, "stream", params)["per_s"]
    plain = run_client(peer, "stream", params, agent=copied(peer))["per_s"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.acp.jsonl")
        through = run_client(peer, "stream", params, agent=recorded(peer, path))["per_s"]
        missing = chunks - path.read_bytes().count(b'"method":"session/update"')
    return {
        "ratio": through / alone,
        "copied_ratio": plain / alone,
        "alone_per_s": alone,
        "per_s": through,
        "missing": max(missing, 0),
    }


def roundtrip(peer: Peer, count: int = ROUNDTRIPS) -> Numbers:
    """Ask without and with a recording, and through a process that only copies bytes."""

    def p50_us(agent: tuple[str, ...]) -> float:
        result = run_client(peer, "roundtrip", {"n": count, "by": "prompt"}, agent=agent)
        return result["to_agent"]["p50_us"]

    alone, plain = p50_us(()), p50_us(copied(peer))
    with tempfile.TemporaryDirectory() as folder:
        through = p50_us(recorded(peer, Path(folder, "r.acp.jsonl")))
    return {
        "added_us": through - alone,
        "copied_us": plain - alone,
        "alone_us": alone,
        "recorded_us": through,
    }


def record(peer: Peer, count: int = UPDATES) -> Numbers:
    """Record updates that arrive in blocks, without a client and an agent."""
    return run([peer.agent[0], RECORD, str(count)], peer.variables())


def search(peer: Peer, messages: int = MESSAGES) -> Numbers:
    """Open and search a recording of a gigabyte."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "r.acp.jsonl"))
        argv = [peer.agent[0], WRITE, path, str(messages)]
        subprocess.run(argv, env=peer.variables(), check=True, timeout=240)
        return run([python_with_json_path(), SEARCH, path], peer.variables())


def page(peer: Peer, messages: int = MESSAGES) -> Numbers:
    """Open, filter and scroll a recording of a gigabyte in Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "r.acp.jsonl"))
        argv = [peer.agent[0], WRITE, path, str(messages)]
        subprocess.run(argv, env=peer.variables(), check=True, timeout=240)
        return run([sys.executable, PAGE, path], peer.variables())


def _experiment(name: str, title: str, measure: object, rounds: int, **columns: str) -> Experiment:
    return Experiment(
        name,
        title,
        rounds=rounds,
        quick_rounds=1,
        columns=tuple(Column(key, heading) for key, heading in columns.items()),
        measure=measure,  # type: ignore[arg-type]
        only=PEERS,
    )


TRACE_EXPERIMENTS = (
    _experiment(
        "trace-stream",
        f"Streaming {CHUNKS:,} message chunks in one turn through `accord trace record`",
        stream,
        5,
        ratio="recorded, to alone",
        copied_ratio="a process that copies bytes, to alone",
        alone_per_s="alone, updates/s",
        per_s="recorded, updates/s",
        missing="updates that are missing",
    ),
    _experiment(
        "trace-roundtrip",
        f"Round trip through `accord trace record`, {ROUNDTRIPS:,} prompts one after another",
        roundtrip,
        5,
        added_us="added, p50 µs",
        copied_us="added by a process that copies bytes, p50 µs",
        alone_us="alone, p50 µs",
        recorded_us="recorded, p50 µs",
    ),
    _experiment(
        "trace-record",
        f"Recording {UPDATES:,} updates that arrive in blocks",
        record,
        3,
        per_s="updates/s",
        cpu_us="processor time of an update, µs",
    ),
    _experiment(
        "trace-search",
        f"Opening and searching a recording of 1 GB and {MESSAGES:,} messages, seconds",
        search,
        1,
        first_rows_s="first rows, without an index",
        index_s="all rows, without an index",
        open_s="all rows, with the index",
        method_s="by method",
        session_s="by session and direction",
        errors_s="errors",
        latency_s="by latency",
        text_s="by text",
        json_path_s="by JSONPath",
        peak_mb="peak memory, MB",
        size_gb="size, GB",
    ),
    _experiment(
        "trace-page",
        f"A recording of 1 GB and {MESSAGES:,} messages in the page of `accord inspect`, seconds",
        page,
        1,
        first_rows_s="first rows, without an index",
        first_all_s="all counted, without an index",
        indexed_rows_s="first rows, with the index",
        indexed_all_s="all counted, with the index",
        method_s="by method",
        session_s="by session and direction",
        errors_s="errors",
        text_s="by text",
        json_path_s="by JSONPath",
        wheel_p50_ms="frame while a wheel scrolls, p50 ms",
        wheel_p95_ms="p95 ms",
        drag_p50_ms="frame while the scroll bar is dragged, p50 ms",
        drag_p95_ms="p95 ms, dragged",
        page_mb="memory of the page, MB",
        server_mb="memory of the program, MB",
    ),
)
