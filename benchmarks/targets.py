"""What Accord wants to reach, as ratios to the others in the same run."""

from __future__ import annotations

from dataclasses import dataclass

OURS = "accord"  # the wire level
API = "accord-api"  # what users have


@dataclass(frozen=True)
class Bound:
    """A limit on ours divided by theirs, or theirs by ours when it is told as a speed-up."""

    limit: float
    at_least: bool = False
    speedup: bool = False
    unit: str = "×"

    def ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.speedup else ours / theirs

    def met(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Target:
    """One number of one experiment, and its limits beside the others'."""

    what: str
    experiment: str
    column: str
    official: Bound | None = None
    typescript: Bound | None = None
    floor: Bound | None = None
    itself: Bound | None = None  # on the number as it is: a ratio within Accord, or a time
    ours: str = OURS
    wire: Bound | None = None  # of the API to the wire level

    def bound(self, peer: str) -> Bound | None:
        if peer == OURS:
            return self.wire
        if peer.startswith("official"):
            return self.official
        return {"typescript": self.typescript, "floor": self.floor}.get(peer)


# The growth experiments: no cost of one may depend on how many there are.
GROWING = (
    "sessions",
    "tool-chunk",
    "text",
    "prompts",
    "load",
    "catch-up",
    "tool-content",
)


def at_most(limit: float) -> Bound:
    return Bound(limit)


def at_least(limit: float) -> Bound:
    return Bound(limit, at_least=True)


def faster(limit: float) -> Bound:
    return Bound(limit, at_least=True, speedup=True)


def _roundtrip(what: str, experiment: str, column: str) -> Target:
    return Target(what, experiment, column, at_most(0.6), at_most(0.85), at_most(1.3))


def _large_time(what: str, to: str) -> Target:
    return Target(what, f"large-60-to-{to}", "ms", at_most(0.9), None, at_most(1.15))


def _large_peak(what: str, to: str, side: str) -> Target:
    column = f"{side}_peak_mb"
    return Target(what, f"large-60-to-{to}", column, at_most(0.9), None, at_most(1.1))


TARGETS = (
    Target(
        "cold start, spawn to `initialize` answer",
        "cold-start",
        "ms",
        at_most(0.22),
        at_most(0.65),
        at_most(1.35),
    ),
    Target("idle memory of an agent", "cold-start", "rss_mb", at_most(0.68), at_most(0.45)),
    Target(
        "streaming, agent alone",
        "stream-agent",
        "per_s",
        at_least(8),
        at_least(3),
        at_least(0.5),
    ),
    Target(
        "streaming, client alone",
        "stream-client",
        "per_s",
        at_least(7),
        at_least(4.5),
        at_least(0.5),
    ),
    Target("streaming end to end", "stream", "per_s", at_least(8), at_least(5), at_least(0.5)),
    _roundtrip("round trip p50, client → agent", "roundtrip", "to_agent_p50"),
    _roundtrip("round trip p50, agent → client", "roundtrip", "to_client_p50"),
    _roundtrip("the same on one core, client → agent", "roundtrip-one-core", "to_agent_p50"),
    _roundtrip("the same on one core, agent → client", "roundtrip-one-core", "to_client_p50"),
    Target("realistic turn", "turn", "per_s", at_least(3), at_least(2.5), at_least(0.65)),
    Target("codec, decode the mix", "codec", "decode_mix", faster(4), faster(6), at_most(1.6)),
    Target("codec, encode the mix", "codec", "encode_mix", faster(4), faster(2), at_most(1.6)),
    _large_time("60 MB to the client: time", "client"),
    _large_peak("60 MB to the client: its peak memory", "client", "client"),
    _large_peak("60 MB to the client: the agent's peak memory", "client", "agent"),
    _large_time("60 MB to the agent: time", "agent"),
    _large_peak("60 MB to the agent: its peak memory", "agent", "agent"),
    _large_peak("60 MB to the agent: the client's peak memory", "agent", "client"),
    Target(
        "1,000 sessions on one connection",
        "sessions",
        "per_s",
        at_least(4.5),
        at_least(2.3),
        at_least(0.65),
    ),
    Target(
        "50 agents started at once",
        "fanout",
        "s",
        at_most(0.25),
        at_most(0.5),
        at_most(1.4),
    ),
)


def _remote_roundtrip(what: str, scheme: str, column: str) -> Target:
    return Target(what, f"remote-roundtrip-{scheme}", column, at_most(0.6), at_most(1))


NETWORK_TARGETS = (
    Target("streaming over WebSocket", "remote-stream-ws", "per_s", at_least(6), at_least(4)),
    Target("streaming over HTTP/2", "remote-stream-http", "per_s", at_least(6), at_least(3)),
    _remote_roundtrip("WebSocket round trip p50, client → agent", "ws", "to_agent_p50"),
    _remote_roundtrip("WebSocket round trip p50, agent → client", "ws", "to_client_p50"),
    _remote_roundtrip("HTTP round trip p50, client → agent", "http", "to_agent_p50"),
    _remote_roundtrip("HTTP round trip p50, agent → client", "http", "to_client_p50"),
    Target("1,000 WebSocket clients at once", "remote-clients", "per_s", at_least(4)),
)
TARGETS += NETWORK_TARGETS

OWN_TARGETS = (
    Target(
        "cold start of a ten-line `accord.Agent`, to v1 alone",
        "cold-start-agent",
        "ratio",
        itself=at_most(1.15),
    ),
    Target(
        "cold start of `accord agent`, to a ten-line `accord.Agent`",
        "cold-start-coder",
        "ratio",
        itself=at_most(1.5),
    ),
    Target(
        "`accord ask` with the script agent, start to exit, to `accord.ask`",
        "ask",
        "ratio",
        itself=at_most(2),
    ),
    Target(
        "streaming over WebSocket, to that over pipes",
        "remote-stdio",
        "ratio",
        itself=at_least(0.5),
    ),
    Target(
        "an idle WebSocket connection, above the agent's own memory",
        "remote-idle",
        "above_kb",
        itself=Bound(40, unit=" KB"),
    ),
    Target(
        "earliest / latest finish of 1,000 WebSocket clients",
        "remote-clients",
        "fairness",
        itself=Bound(0.5, at_least=True, unit=""),
    ),
    Target(
        "round trip by `accord bridge`, to that of the socket alone",
        "remote-bridge",
        "ratio",
        itself=at_most(1.5),
    ),
    *(
        Target(
            f"streaming through {proxies} to that through none",
            "proxy-stream",
            f"ratio_{count}",
            itself=at_least(bound),
        )
        for proxies, count, bound in (("one proxy,", 1, 0.6), ("three proxies,", 3, 0.4))
    ),
    Target(
        "round trip, each connection that three proxies add, to the bare one",
        "proxy-roundtrip",
        "hop_3",
        itself=at_most(1),
    ),
    Target(
        "realistic turns through three proxies, to none",
        "proxy-turn",
        "ratio",
        itself=at_least(0.5),
    ),
    Target(
        "time of a realistic turn with one proxy in the process, to none",
        "proxy-inside",
        "cost_1",
        itself=at_most(1.15),
    ),
    Target(
        "memory of the conductor after 1,000,000 updates, to that after 100,000",
        "proxy-memory",
        "grown",
        itself=at_most(1.05),
    ),
    Target(
        "streaming through `accord trace record`, to alone",
        "trace-stream",
        "ratio",
        itself=at_least(0.95),
    ),
    Target("updates that a recording misses", "trace-stream", "missing", itself=Bound(0, unit="")),
    Target(
        "round trip, added by `accord trace record`",
        "trace-roundtrip",
        "added_us",
        itself=Bound(20, unit=" µs"),
    ),
    Target(
        "recording",
        "trace-record",
        "per_s",
        itself=Bound(100_000, at_least=True, unit=" updates/s"),
    ),
    *(
        Target(f"recording of 1 GB, {what}", "trace-search", key, itself=Bound(limit, unit=" s"))
        for what, key, limit in (
            ("first rows", "first_rows_s", 2),
            ("opened with its index", "open_s", 2),
            ("by method", "method_s", 1),
            ("by session and direction", "session_s", 1),
            ("errors", "errors_s", 1),
            ("by latency", "latency_s", 1),
        )
    ),
    *(
        Target(
            f"page of a recording of 1 GB, {what}",
            "trace-page",
            key,
            itself=Bound(limit, unit=unit),
        )
        for what, key, limit, unit in (
            ("first rows", "first_rows_s", 2, " s"),
            ("opened with its index", "indexed_all_s", 2, " s"),
            ("by method", "method_s", 1, " s"),
            ("by session and direction", "session_s", 1, " s"),
            ("errors", "errors_s", 1, " s"),
            ("memory", "page_mb", 300, " MB"),
        )
    ),
    *(
        Target(f"growth of a cost: {item}", f"growth-{item}", "ratio", itself=at_most(2))
        for item in GROWING
    ),
    *(
        Target(
            f"longest wait of another session: {item}",
            f"growth-{item}",
            "wait_ms",
            itself=Bound(20, unit=" ms"),
        )
        for item in GROWING
    ),
)


def _api_roundtrip(what: str, experiment: str, column: str) -> Target:
    bounds = {"wire": at_most(1.3), "official": at_most(0.6), "typescript": at_most(1)}
    return Target(what, experiment, column, ours=API, **bounds)


API_TARGETS = (
    _api_roundtrip("`new_session` p50", "roundtrip", "to_agent_p50"),
    _api_roundtrip("client file read p50", "roundtrip", "to_client_p50"),
    _api_roundtrip("`new_session` p50, on one core", "roundtrip-one-core", "to_agent_p50"),
    _api_roundtrip("client file read p50, on one core", "roundtrip-one-core", "to_client_p50"),
    Target(
        "realistic turn",
        "turn",
        "per_s",
        at_least(3.5),
        at_least(2.8),
        ours=API,
        wire=at_least(0.75),
    ),
    Target(
        "streaming, agent alone (`turn.say`)",
        "stream-agent",
        "per_s",
        floor=at_least(1),
        ours=API,
        wire=at_least(0.5),
    ),
    Target(
        "streaming, client alone (`session.prompt`)",
        "stream-client",
        "per_s",
        floor=at_least(0.75),
        ours=API,
        wire=at_least(0.5),
    ),
)

FAIRNESS = 0.5  # of earliest to latest finish, with 1,000 sessions
