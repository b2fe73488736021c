"""What is measured, one experiment after another."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import cycle

from chains import PROXY_EXPERIMENTS
from codec.messages import messages
from experiment import Column, Experiment, Numbers
from machine import cpu_s, memory_mb, peak_mb, share_mb
from network import NETWORK_EXPERIMENTS
from peers import HERE, Peer, python_with_cli
from processes import Driver, run, run_client, start_to_exit_ms
from traces import TRACE_EXPERIMENTS

CHUNKS = 100_000
WARM_CHUNKS = 3_000
ROUNDTRIPS = 2_000
TURNS, WARM_TURNS = 150, 30
SESSIONS, CHUNKS_PER_SESSION = 1_000, 200
AGENTS = 50
SIZES_MB = (1, 10, 60)
# What is counted, and how many there are when there are few and when there are many.
GROWTHS = {
    "sessions": ("opening a session, among others of the connection", 200, 16_000),
    "tool-chunk": ("receiving a chunk of tool content, version 2", 500, 100_000),
    "text": ("reading all of `turn.text` after a piece of it", 500, 30_000),
    "prompts": ("a turn, after others of the session, version 1", 50, 16_000),
    "load": ("an entry of a stored session that is loaded, version 1", 1_000, 100_000),
    "catch-up": ("sending what was postponed, among other sessions, version 1", 20, 1_000),
    "tool-content": ("showing something in a tool call, version 1", 100, 2_000),
}


def cold_start(peer: Peer) -> Numbers:
    with Driver(peer) as driver:
        driver.initialize()
        elapsed = time.perf_counter() - driver.start
        agent = driver.process.pid
        cpu = cpu_s(agent)
        driver.new_session()
        opened = time.perf_counter() - driver.start
        time.sleep(0.2)
        rss, pss = memory_mb(agent), share_mb(agent)
    return {
        "ms": elapsed * 1e3,
        "opened_ms": opened * 1e3,
        "cpu_ms": cpu * 1e3,
        "rss_mb": rss,
        "pss_mb": pss,
    }


def roundtrip(peer: Peer, core: int | None = None) -> Numbers:
    result = run_client(peer, "roundtrip", {"n": ROUNDTRIPS}, core=core)
    to_agent, to_client = result["to_agent"], result["to_client"]
    return {
        "to_agent_p50": to_agent["p50_us"],
        "to_agent_p99": to_agent["p99_us"],
        "to_client_p50": to_client["p50_us"],
        "to_client_p99": to_client["p99_us"],
    }


def stream(peer: Peer) -> Numbers:
    return run_client(peer, "stream", {"n": CHUNKS, "warm": WARM_CHUNKS})


def stream_agent(peer: Peer) -> Numbers:
    with Driver(peer) as driver:
        driver.initialize()
        session = driver.new_session()
        driver.drain_stream(session, WARM_CHUNKS)
        numbers = driver.drain_stream(session, CHUNKS)
        return {**numbers, "agent_peak_mb": peak_mb(driver.process.pid)}


def stream_client(peer: Peer) -> Numbers:
    feeder = (sys.executable, str(HERE / "agents" / "feeder.py"))
    return run_client(peer, "stream", {"n": CHUNKS, "warm": WARM_CHUNKS}, agent=feeder)


def _other(peer: Peer, folder: str, program: str) -> Peer:
    """Return the peer with another program of its implementation as its agent or client."""
    path = str(HERE / folder / program)
    if folder == "agents":
        return replace(peer, agent=(*peer.agent[:-1], path))
    return replace(peer, client=(*peer.client[:-1], path))


_first = cycle((True, False))


def _beside(peer: Peer, wire: Peer, measure: Callable[[Peer], Numbers], key: str) -> Numbers:
    """Measure both, in turns one of them first; `ratio` is to the program on `accord.v1`."""
    if next(_first):
        ours, theirs = measure(peer), measure(wire)
    else:
        theirs, ours = measure(wire), measure(peer)
    return {**ours, f"wire_{key}": theirs[key], "ratio": ours[key] / theirs[key]}


def cold_start_agent(peer: Peer) -> Numbers:
    ours = _other(peer, "agents", "agent_ten_lines.py")
    wire = _other(peer, "agents", "agent_ten_lines_v1.py")
    return _beside(ours, wire, cold_start, "ms")


def cold_start_coder(peer: Peer) -> Numbers:
    python = python_with_cli()  # the coder needs some packages
    peer = replace(peer, agent=(python, peer.agent[-1]))
    coder = _other(peer, "agents", "agent_coder.py")
    return _beside(coder, _other(peer, "agents", "agent_ten_lines.py"), cold_start, "ms")


BARE_ASK = "import sys, accord; print(accord.ask(sys.argv[1:], 'say hi').text)"


def ask(peer: Peer) -> Numbers:
    """Ask the script agent once, by the program and by the function; which is first alternates."""
    python = python_with_cli()
    agent = [python, "-m", "accord", "agent", "script"]
    program = [python, "-m", "accord", "ask", "say hi", "--agent", shlex.join(agent)]
    bare = [python, "-c", BARE_ASK, *agent]
    runs = {"ms": program, "bare_ms": bare}
    order = list(runs) if next(_first) else list(runs)[::-1]
    numbers = {key: start_to_exit_ms(runs[key], peer.variables()) for key in order}
    return {**numbers, "ratio": numbers["ms"] / numbers["bare_ms"]}


def turn(peer: Peer) -> Numbers:
    result = run_client(peer, "turn", {"n": TURNS, "warm": WARM_TURNS})
    result["client_cpu_ms"] = result["client_cpu_s"] / TURNS * 1e3
    result["agent_cpu_ms"] = result["agent_cpu_s"] / TURNS * 1e3
    return result


def large(peer: Peer, megabytes: int, to: str) -> Numbers:
    params = {"size": megabytes * 1_000_000, "to": to}
    result = run_client(peer, "large", params, extra=peer.large_environment)
    return {**result, "ms": result["s"] * 1e3}


def sessions(peer: Peer) -> Numbers:
    return run_client(peer, "sessions", {"n": SESSIONS, "chunks": CHUNKS_PER_SESSION})


def fanout(peer: Peer) -> Numbers:
    return run_client(peer, "fanout", {"n": AGENTS})


@cache
def _messages() -> bytes:
    return messages()


def codec(peer: Peer) -> Numbers:
    return run(list(peer.codec), peer.variables(), _messages())


STREAM_COLUMNS = (
    Column("per_s", "updates/s"),
    Column("client_cpu_s", "client CPU s"),
    Column("agent_cpu_s", "agent CPU s"),
    Column("client_peak_mb", "client peak MB"),
    Column("agent_peak_mb", "agent peak MB"),
)
ROUNDTRIP_COLUMNS = (
    Column("to_agent_p50", "client → agent p50 µs"),
    Column("to_agent_p99", "p99 µs"),
    Column("to_client_p50", "agent → client, 1 KB, p50 µs"),
    Column("to_client_p99", "p99 µs"),
)


def growth(peer: Peer, item: str) -> Numbers:
    _, few, many = GROWTHS[item]
    python, program = peer.agent[0], str(HERE / "growth" / "growth_accord.py")
    return run([python, program, item, str(few), str(many)], peer.variables())


def _growth() -> Iterator[Experiment]:
    for item, (what, few, many) in GROWTHS.items():
        yield Experiment(
            f"growth-{item}",
            f"Growth: {what}: {many:,} of them beside {few:,}, both sides in one process",
            rounds=3,
            quick_rounds=1,
            columns=(
                Column("ratio", "cost of one, many / few"),
                Column("few_us", f"µs, {few:,}"),
                Column("many_us", f"µs, {many:,}"),
                Column("wait_ms", "longest wait of another session, ms"),
            ),
            measure=partial(growth, item=item),
            only=("accord",),
        )


def _large() -> Iterator[Experiment]:
    columns = (
        Column("ms", "ms"),
        Column("client_peak_mb", "client peak MB"),
        Column("agent_peak_mb", "agent peak MB"),
        Column("client_cpu_s", "client CPU s"),
        Column("agent_cpu_s", "agent CPU s"),
    )
    titles = {"client": "in fs/write_text_file, agent → client", "agent": "in a prompt"}
    for megabytes in SIZES_MB:
        for to, title in titles.items():
            yield Experiment(
                f"large-{megabytes}-to-{to}",
                f"{megabytes} MB {title}",
                rounds=3,
                quick_rounds=1,
                columns=columns,
                measure=partial(large, megabytes=megabytes, to=to),
            )


EXPERIMENTS = (
    Experiment(
        "cold-start",
        "Cold start: spawn to `initialize` answer; memory of the idle agent with one session",
        rounds=20,
        quick_rounds=7,
        columns=(
            Column("ms", "ms"),
            Column("cpu_ms", "CPU ms"),
            Column("rss_mb", "resident MB"),
            Column("pss_mb", "proportional MB"),
        ),
        measure=cold_start,
    ),
    Experiment(
        "roundtrip",
        f"Round trip, {ROUNDTRIPS:,} one after another, both processes free on all cores",
        rounds=7,
        quick_rounds=2,
        columns=ROUNDTRIP_COLUMNS,
        measure=roundtrip,
    ),
    Experiment(
        "roundtrip-one-core",
        f"Round trip, {ROUNDTRIPS:,} one after another, both processes on one core",
        rounds=7,
        quick_rounds=2,
        columns=ROUNDTRIP_COLUMNS,
        measure=partial(roundtrip, core=0),
    ),
    Experiment(
        "stream",
        f"Streaming {CHUNKS:,} message chunks in one turn, end to end",
        rounds=5,
        quick_rounds=2,
        columns=STREAM_COLUMNS,
        measure=stream,
    ),
    Experiment(
        "stream-agent",
        f"Streaming {CHUNKS:,} chunks, agent alone: a reader that only counts lines",
        rounds=5,
        quick_rounds=2,
        columns=(STREAM_COLUMNS[0], STREAM_COLUMNS[2], STREAM_COLUMNS[4]),
        measure=stream_agent,
    ),
    Experiment(
        "stream-client",
        f"Streaming {CHUNKS:,} chunks, client alone: a writer of lines made beforehand; "
        "a typed handler per update",
        rounds=5,
        quick_rounds=2,
        columns=(STREAM_COLUMNS[0], STREAM_COLUMNS[1], STREAM_COLUMNS[3]),
        measure=stream_client,
    ),
    Experiment(
        "cold-start-agent",
        "Cold start of an `accord.Agent` of ten lines, beside that of one on `accord.v1`",
        rounds=20,
        quick_rounds=7,
        columns=(
            Column("ratio", "to v1 alone"),
            Column("ms", "ms"),
            Column("wire_ms", "v1 alone ms"),
            Column("opened_ms", "ms to the first session"),
            Column("rss_mb", "resident MB"),
        ),
        measure=cold_start_agent,
        only=("accord",),
    ),
    Experiment(
        "cold-start-coder",
        "Cold start of the bundled coding agent, beside that of an `accord.Agent` of ten lines",
        rounds=20,
        quick_rounds=7,
        columns=(
            Column("ratio", "to ten lines"),
            Column("ms", "ms"),
            Column("wire_ms", "ten lines ms"),
            Column("opened_ms", "ms to the first session"),
            Column("rss_mb", "resident MB"),
        ),
        measure=cold_start_coder,
        only=("accord",),
    ),
    Experiment(
        "ask",
        "`accord ask` with the script agent, start to exit, alongside a program with `accord.ask`",
        rounds=20,
        quick_rounds=5,
        columns=(
            Column("ratio", "to `accord.ask`"),
            Column("ms", "ms"),
            Column("bare_ms", "`accord.ask` ms"),
        ),
        measure=ask,
        only=("accord",),
    ),
    Experiment(
        "turn",
        "Realistic turn: plan, tool call, 20 KB diff, permission, files, terminal, 200 chunks",
        rounds=5,
        quick_rounds=2,
        columns=(
            Column("per_s", "turns/s"),
            Column("client_cpu_ms", "client CPU ms per turn"),
            Column("agent_cpu_ms", "agent CPU ms per turn"),
            Column("client_peak_mb", "client peak MB"),
            Column("agent_peak_mb", "agent peak MB"),
        ),
        measure=turn,
    ),
    *_large(),
    *_growth(),
    Experiment(
        "sessions",
        f"{SESSIONS:,} sessions × {CHUNKS_PER_SESSION} chunks at once on one connection",
        rounds=3,
        quick_rounds=1,
        columns=(
            STREAM_COLUMNS[0],
            Column("fairness", "earliest / latest finish"),
            *STREAM_COLUMNS[3:],
        ),
        measure=sessions,
    ),
    Experiment(
        "fanout",
        f"{AGENTS} agents started at once by one client, all initialized",
        rounds=3,
        quick_rounds=1,
        columns=(
            Column("s", "all s"),
            Column("half_s", "half of them s"),
            Column("agents_mb", "agents together, proportional MB"),
            Column("client_peak_mb", "client peak MB"),
        ),
        measure=fanout,
    ),
    Experiment(
        "codec",
        "Codec, µs per message: a mix of 10,000 messages (634 bytes on average), "
        "and the message chunks among them",
        rounds=5,
        quick_rounds=2,
        columns=(
            Column("decode_mix", "decode the mix"),
            Column("encode_mix", "encode the mix"),
            Column("decode_chunk", "decode a chunk"),
            Column("encode_chunk", "encode a chunk"),
        ),
        measure=codec,
    ),
    *NETWORK_EXPERIMENTS,
    *PROXY_EXPERIMENTS,
    *TRACE_EXPERIMENTS,
)


def chosen(names: list[str]) -> list[Experiment]:
    """Return the experiments that begin with one of the names; all when none is given."""
    if not names:
        return list(EXPERIMENTS)
    for name in names:
        if not any(one.name.startswith(name) for one in EXPERIMENTS):
            known = ", ".join(one.name for one in EXPERIMENTS)
            raise SystemExit(f"no experiment begins with {name!r}; there are {known}")
    return [one for one in EXPERIMENTS if one.name.startswith(tuple(names))]
