"""What is measured through chains of proxies."""

from __future__ import annotations

import shlex

from experiment import Column, Experiment, Numbers
from peers import HERE, Peer, python_with_cli
from processes import run_client

PASS_THROUGH = str(HERE / "proxies" / "pass_through.py")
RELAYS = str(HERE / "proxies" / "relays.py")
CHUNKS, WARM_CHUNKS = 100_000, 3_000
ROUNDTRIPS = 1_000
TURNS, WARM_TURNS = 150, 30
FEW_UPDATES, MANY_UPDATES = 100_000, 1_000_000
PROXIES = (1, 3)
PEERS = ("accord", "accord-api")


def chain(peer: Peer, proxies: int) -> tuple[str, ...]:
    """Return the command of the peer's agent behind so many proxy processes."""
    conductor = (python_with_cli(), "-m", "accord", "chain")
    proxy = shlex.join((peer.agent[0], PASS_THROUGH))
    return (*conductor, *(proxy for _ in range(proxies)), shlex.join(peer.agent))


def relays(peer: Peer, proxies: int) -> tuple[str, ...]:
    """Return the command of the peer's agent behind as many processes as messages would pass.

    They copy bytes and do nothing else.
    """
    return (peer.agent[0], "-S", RELAYS, str(1 + 2 * proxies), *peer.agent)


def _stream(peer: Peer, agent: tuple[str, ...], chunks: int) -> Numbers:
    return run_client(peer, "stream", {"n": chunks, "warm": WARM_CHUNKS}, agent=agent)


def stream(peer: Peer, chunks: int = CHUNKS) -> Numbers:
    """Stream without and with proxies."""
    alone = _stream(peer, (), chunks)
    numbers = {"alone_per_s": alone["per_s"], "cpu_us_0": alone["all_cpu_s"] / chunks * 1e6}
    for count in PROXIES:
        through = _stream(peer, chain(peer, count), chunks)
        numbers[f"per_s_{count}"] = through["per_s"]
        numbers[f"ratio_{count}"] = through["per_s"] / alone["per_s"]
        numbers[f"cpu_us_{count}"] = through["all_cpu_s"] / chunks * 1e6
    return numbers


def roundtrip(peer: Peer, count: int = ROUNDTRIPS) -> Numbers:
    """Ask without and with proxies; a message through n proxies passes 2 + 2n connections."""

    def p50_us(agent: tuple[str, ...]) -> float:
        result = run_client(peer, "roundtrip", {"n": count, "by": "prompt"}, agent=agent)
        return result["to_agent"]["p50_us"]

    alone = p50_us(())
    numbers = {"alone_us": alone, "conductor_us": p50_us(chain(peer, 0))}
    for proxies in PROXIES:
        through = p50_us(chain(peer, proxies))
        connections = 2 + 2 * proxies
        numbers[f"us_{proxies}"] = through
        numbers[f"hop_{proxies}"] = (through - alone) / (connections - 1) / alone
    return {**numbers, "relays_us": p50_us(relays(peer, 3))}


def turn(peer: Peer, turns: int = TURNS) -> Numbers:
    """Run realistic turns without and with three proxy processes."""
    params = {"n": turns, "warm": WARM_TURNS}
    alone = run_client(peer, "turn", params)
    copied = run_client(peer, "turn", params, agent=relays(peer, 3))
    through = run_client(peer, "turn", params, agent=chain(peer, 3))
    return {
        "ratio": through["per_s"] / alone["per_s"],
        "per_s": through["per_s"],
        "alone_per_s": alone["per_s"],
        "relays_ratio": copied["per_s"] / alone["per_s"],
        "cpu_ms": through["all_cpu_s"] / turns * 1e3,
        "alone_cpu_ms": alone["all_cpu_s"] / turns * 1e3,
        "relays_cpu_ms": copied["all_cpu_s"] / turns * 1e3,
    }


def turn_inside(peer: Peer, turns: int = TURNS) -> Numbers:
    """Run realistic turns without and with proxies in the client's process."""

    def per_s(proxies: int) -> float:
        extra = {"BENCH_PROXIES": str(proxies)} if proxies else {}
        params = {"n": turns, "warm": WARM_TURNS}
        return run_client(peer, "turn", params, extra=extra)["per_s"]

    alone = per_s(0)
    numbers = {"alone_per_s": alone}
    for count in PROXIES:
        through = per_s(count)
        numbers |= {f"per_s_{count}": through, f"cost_{count}": alone / through}
    return numbers


def memory(peer: Peer, few: int = FEW_UPDATES, many: int = MANY_UPDATES) -> Numbers:
    """Compare the peak memory of `accord chain` after few and after many updates."""
    before, after = (_stream(peer, chain(peer, 1), count)["agent_peak_mb"] for count in (few, many))
    return {"grown": after / before, "few_mb": before, "many_mb": after}


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


PROXY_EXPERIMENTS = (
    _experiment(
        "proxy-stream",
        f"Streaming {CHUNKS:,} message chunks in one turn through proxy processes",
        stream,
        3,
        ratio_1="one proxy, to none",
        ratio_3="three, to none",
        alone_per_s="none, updates/s",
        per_s_1="one, updates/s",
        per_s_3="three, updates/s",
        cpu_us_0="none, µs of CPU per update",
        cpu_us_1="one, µs of CPU",
        cpu_us_3="three, µs of CPU",
    ),
    _experiment(
        "proxy-roundtrip",
        f"Round trip through proxy processes, {ROUNDTRIPS:,} prompts one after another",
        roundtrip,
        3,
        hop_1="each of 3 more connections (one proxy), to the bare one",
        hop_3="each of 7 more (three), to the bare one",
        alone_us="bare, p50 µs",
        conductor_us="`accord chain` without a proxy, p50 µs",
        us_1="one proxy, p50 µs",
        us_3="three, p50 µs",
        relays_us="7 processes that copy bytes, p50 µs",
    ),
    _experiment(
        "proxy-turn",
        "Realistic turns through three proxy processes",
        turn,
        3,
        ratio="to none",
        relays_ratio="7 processes that copy bytes, to none",
        per_s="three proxies, turns/s",
        alone_per_s="none, turns/s",
        cpu_ms="three proxies, ms of CPU per turn",
        relays_cpu_ms="7 processes that copy bytes, ms of CPU",
        alone_cpu_ms="none, ms of CPU",
    ),
    _experiment(
        "proxy-inside",
        "Realistic turns through proxies in the client's process",
        turn_inside,
        3,
        cost_1="time with one, to none",
        cost_3="time with three, to none",
        alone_per_s="none, turns/s",
        per_s_1="one, turns/s",
        per_s_3="three, turns/s",
    ),
    _experiment(
        "proxy-memory",
        f"Peak memory of `accord chain` with one proxy, after {FEW_UPDATES:,} and "
        f"{MANY_UPDATES:,} updates in one turn",
        memory,
        1,
        grown="many, to few",
        few_mb="few, MB",
        many_mb="many, MB",
    ),
)
