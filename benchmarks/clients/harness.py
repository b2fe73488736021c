"""The client's side of every experiment, for the implementations in Python.

A client module subclasses `Bench`, calls `on_text` and `on_other` from the handler that its
library gives typed updates to, and ends in `main(ItsClass)`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from machine import Meter, children, peak_mb, share_mb
from workload import CHUNKS_PER_TURN, DIFF_BYTES, UPDATES_PER_TURN, percentile, source_text, spread

TERMINAL_TEXT = source_text(2048)
CONNECTING = 50  # clients that connect at the same time

Params = dict[str, Any]
Result = dict[str, Any]


class Bench:
    """One connection to one agent, and what came through it."""

    # Whether every turn has the same number of updates other than chunks.
    counts_updates = True

    def __init__(self) -> None:
        self.chunks = self.characters = self.others = self.written = 0
        self.result: Result = {}
        self.last_chunk: dict[str, float] | None = None
        self.chunks_of: dict[str, int] = {}

    async def start(self, argv: list[str]) -> None:
        """Start the agent, connect and initialize."""
        raise NotImplementedError

    async def new_session(self) -> str:
        raise NotImplementedError

    async def prompt(self, session_id: str, *texts: str) -> str:
        """Return the stop reason."""
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    def on_text(self, session_id: str, text: str) -> None:
        if text.startswith("RESULT "):
            self.result = json.loads(text[7:])
            return
        self.chunks += 1
        self.characters += len(text)
        if self.last_chunk is not None:
            self.last_chunk[session_id] = time.perf_counter()
            self.chunks_of[session_id] = self.chunks_of.get(session_id, 0) + 1

    def on_other(self, session_id: str) -> None:
        self.others += 1

    async def do(self, session_id: str, what: str, *texts: str, **params: Any) -> None:
        stop_reason = await self.prompt(session_id, json.dumps({"do": what, **params}), *texts)
        assert stop_reason == "end_turn", stop_reason

    async def all_handled(self, count: int) -> None:
        """Wait for updates whose handlers outlive the prompt's answer."""
        async with asyncio.timeout(10):
            while self.chunks < count:  # noqa: ASYNC110 - the handler is what is measured
                await asyncio.sleep(0.001)


def is_url(argv: list[str]) -> bool:
    """Return True if the agent is reached by a URL, which its process id follows."""
    return "://" in argv[0]


def through_proxies(argv: list[str]) -> Any:
    """Return the agent behind as many proxies in this process as the environment says."""
    count = int(os.environ.get("BENCH_PROXIES", "0"))
    if not count:
        return None
    from proxies.pass_through import PassThrough

    from accord import chain

    return chain(*(PassThrough() for _ in range(count)), argv)


def uses_http2() -> bool:
    """Return whether to use HTTP/2 over `http://`, which no client does by itself."""
    return "BENCH_HTTP2" in os.environ


def agent_pid(argv: list[str]) -> int:
    """Return the process id of the agent, or of the server that has it."""
    return int(argv[1]) if is_url(argv) else children()[0]


async def stream(bench: Bench, params: Params, argv: list[str]) -> Result:
    """Send `n` chunks in one turn."""
    await bench.start(argv)
    session = await bench.new_session()
    await bench.do(session, "stream", n=params["warm"])
    await bench.all_handled(params["warm"])
    bench.chunks = bench.characters = 0
    meter = Meter(agent_pid(argv))
    await bench.do(session, "stream", n=params["n"])
    await bench.all_handled(params["n"])
    used = meter.read()
    assert bench.chunks == params["n"], bench.chunks
    assert bench.characters == 40 * params["n"], bench.characters
    return {**used, "per_s": params["n"] / used["s"]}


async def roundtrip(bench: Bench, params: Params, argv: list[str]) -> Result:
    """Ask `n` times in each direction, one after another."""
    await bench.start(argv)
    session = await bench.new_session()
    times: list[float] = []

    async def ask() -> object:
        # Over HTTP each session has a stream of its own, which is not to be measured.
        if params.get("by") == "prompt":
            return await bench.do(session, "nothing")
        return await bench.new_session()

    for _ in range(100):
        await ask()
    for _ in range(params["n"]):
        start = time.perf_counter_ns()
        await ask()
        times.append(time.perf_counter_ns() - start)
    await bench.do(session, "read", n=100, size=1024)
    bench.result = {}
    await bench.do(session, "read", n=params["n"], size=1024)
    async with asyncio.timeout(10):
        while not bench.result:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
    return {"to_agent": spread(times), "to_client": bench.result}


async def turn(bench: Bench, params: Params, argv: list[str]) -> Result:
    """Run `n` realistic turns, one after another."""
    await bench.start(argv)
    session = await bench.new_session()
    for _ in range(params["warm"]):
        await bench.do(session, "turn")
    await bench.all_handled(CHUNKS_PER_TURN * params["warm"])
    await asyncio.sleep(0.05)
    bench.chunks = bench.others = bench.written = 0
    meter = Meter(agent_pid(argv))
    for _ in range(params["n"]):
        await bench.do(session, "turn")
    used = meter.read()
    await bench.all_handled(CHUNKS_PER_TURN * params["n"])
    await asyncio.sleep(0.05)
    assert bench.chunks == CHUNKS_PER_TURN * params["n"], bench.chunks
    if bench.counts_updates:
        assert bench.others == UPDATES_PER_TURN * params["n"], bench.others
    assert bench.written == DIFF_BYTES * params["n"], bench.written
    return {**used, "per_s": params["n"] / used["s"]}


async def large(bench: Bench, params: Params, argv: list[str]) -> Result:
    """Move one message of `size` characters: a prompt, or a file that the agent writes."""
    await bench.start(argv)
    session = await bench.new_session()
    texts = [source_text(params["size"])] if params["to"] == "agent" else []
    meter = Meter(agent_pid(argv))
    async with asyncio.timeout(60):
        if params["to"] == "agent":
            await bench.do(session, "nothing", *texts)
        else:
            await bench.do(session, "write", size=params["size"])
            assert bench.written == params["size"], bench.written
    return meter.read()


async def sessions(bench: Bench, params: Params, argv: list[str]) -> Result:
    """Stream `chunks` to each of `n` sessions at once."""
    await bench.start(argv)
    await bench.do(await bench.new_session(), "stream", n=500)
    await bench.all_handled(500)
    ids = [await bench.new_session() for _ in range(params["n"])]
    total = params["n"] * params["chunks"]
    bench.chunks, bench.last_chunk = 0, {}
    start = time.perf_counter()
    meter = Meter(agent_pid(argv))
    await asyncio.gather(
        *(bench.do(session, "stream", n=params["chunks"], polite=True) for session in ids)
    )
    await bench.all_handled(total)
    used = meter.read()
    assert all(bench.chunks_of[session] == params["chunks"] for session in ids)
    finished = [bench.last_chunk[session] - start for session in ids]
    return {**used, "per_s": total / used["s"], "fairness": min(finished) / max(finished)}


async def fanout(bench: Bench, params: Params, argv: list[str]) -> Result:
    """Start `n` agents at once."""
    start = time.perf_counter()
    benches = [type(bench)() for _ in range(params["n"])]
    ready: list[float] = []

    async def begin(one: Bench) -> None:
        await one.start(argv)
        ready.append(time.perf_counter() - start)

    await asyncio.gather(*(begin(one) for one in benches))
    agents = children()
    assert len(agents) == params["n"], len(agents)
    result = {
        "s": max(ready),
        "half_s": percentile(ready, 50),
        "agents_mb": sum(share_mb(pid) for pid in agents),
        "client_peak_mb": peak_mb(),
    }
    await asyncio.gather(*(one.stop() for one in benches))
    return result


async def clients(bench: Bench, params: Params, argv: list[str]) -> Result:
    """Connect `n` clients with one session each, and stream `chunks` to all of them at once."""
    benches = [type(bench)() for _ in range(params["n"])]
    ids: list[str] = []
    for at in range(0, len(benches), CONNECTING):
        batch = benches[at : at + CONNECTING]
        await asyncio.gather(*(one.start(argv) for one in batch))
        ids += await asyncio.gather(*(one.new_session() for one in batch))
    for one in benches:
        one.last_chunk = {}
    chunks = params["chunks"]
    start = time.perf_counter()
    meter = Meter(agent_pid(argv))
    pairs = list(zip(benches, ids, strict=True))
    await asyncio.gather(
        *(one.do(id_, "stream", n=chunks, polite=True, together=params["n"]) for one, id_ in pairs)
    )
    for one in benches:
        await one.all_handled(chunks)
    used = meter.read()
    assert all(one.chunks == chunks for one in benches)
    finished = [max((one.last_chunk or {}).values()) - start for one in benches]
    per_s = len(benches) * chunks / used["s"]
    return {**used, "per_s": per_s, "fairness": min(finished) / max(finished)}


EXPERIMENTS = {
    run.__name__: run for run in (stream, roundtrip, turn, large, sessions, fanout, clients)
}


def main(make: type[Bench]) -> None:
    """Run the experiment that the command line names; print its result as JSON."""
    name, params, argv = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]

    async def run() -> None:
        bench = make()
        result = await EXPERIMENTS[name](bench, params, argv)
        print("RESULT " + json.dumps(result), flush=True)
        if name not in ("fanout", "clients"):
            try:
                await asyncio.wait_for(bench.stop(), 5)
            except TimeoutError:
                print("did not stop in time", file=sys.stderr, flush=True)
        os._exit(0)

    asyncio.run(run())
