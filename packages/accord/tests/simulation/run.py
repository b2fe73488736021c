"""Runs one program: the same program is the same run, down to each byte."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import warnings
from collections import Counter
from functools import cache
from typing import Any

from msgspec import Struct

import accord
import accord.agent.files_and_terminals
import accord.agent.store.stored_sessions
import accord.client.files
import accord.client.v1
import accord.client.v2  # patched modules must be imported before
from accord.connection.limits import Limits
from accord.errors import TransportError
from simulation.agent import SimulatedAgent
from simulation.client import SimulatedClient
from simulation.environment import environment
from simulation.loop import Endless, SimulatedLoop, Stuck, stacks, waiting_in
from simulation.network import SimulatedTransport, link
from simulation.program import Program
from simulation.world import Failure, LogOracle, World

__all__ = ("Result", "play")

SETTLE_S = 40_000.0  # for the agent to end its work when no client waits
CLOSE_S = 60.0  # for the agent's side to end after its client has left
_UNSENT_BYTES = 2 * 1024 * 1024  # waiting in a transport, in addition to one frame


class Result(Struct):
    """The result of a run."""

    failures: list[Failure]
    trace_hash: str
    virtual_s: float
    rounds: int
    counts: Counter[str]

    @property
    def kind(self) -> str | None:
        """The first failure."""
        return self.failures[0].kind if self.failures else None


@cache
def _freeze_once() -> None:
    """Leave out of garbage collection what exists before the first run."""
    gc.collect()
    gc.freeze()


def play(program: Program) -> Result:
    """Run a program; the failures are those of the oracles."""
    loop = SimulatedLoop(random.Random(f"loop {program.seed}"))
    world = World(program, loop)
    oracle = LogOracle(world)
    log = logging.getLogger("accord")
    collecting = gc.isenabled()
    gc.disable()  # its time depends on earlier runs
    _freeze_once()
    log.addHandler(oracle)
    propagate, log.propagate = log.propagate, False
    asyncio.set_event_loop(loop)
    try:
        with environment(loop, program.seed), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            _play(world, loop)
            gc.collect()  # report coroutines that were never awaited now
            _after(world, loop, warned)
    finally:
        asyncio.set_event_loop(None)
        log.propagate = propagate
        log.removeHandler(oracle)
        if collecting:
            gc.enable()
    return Result(world.failures, world.trace_hash, loop.now - 1000.0, loop.rounds, world.counts)


def _play(world: World, loop: SimulatedLoop) -> None:
    run = _Run(world)
    task = loop.create_task(run.run(), name="simulated run")
    try:
        loop.run_until_complete(task)
    except Stuck:
        world.fail(f"stuck in {waiting_in(loop)}", stacks(loop))
    except Endless:
        world.fail("the run does not end", stacks(loop))
    except Exception as error:
        world.fail(f"the run fails: {type(error).__name__}", repr(error))
        raise
    if not world.failures:
        left = [task.get_name() for task in loop.pending()]
        if left:
            world.fail("tasks are left after the end", f"{left}\n{stacks(loop)}")
        elif timers := loop.timers():
            world.fail("timers are left after the end", "\n".join(timers))
    world.trace("end", loop.now, loop.rounds)
    log = logging.getLogger("accord")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)  # the teardown is not judged
    try:
        loop.abandon()
    finally:
        log.setLevel(level)


def _after(world: World, loop: SimulatedLoop, warned: list[Any]) -> None:
    if world.failures:
        return
    for warning in warned:
        if issubclass(warning.category, RuntimeWarning | ResourceWarning):
            world.fail(f"warning: {warning.category.__name__}", str(warning.message))
    for context in loop.unhandled:
        world.fail(f"asyncio: {context['message']}", repr(context.get("exception")))


class _Run:
    """The agent, its clients, and the connections between them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.agent = SimulatedAgent(world)
        self.transports: list[SimulatedTransport] = []
        self.serving: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        world, program = self.world, self.world.program
        world.clients = [SimulatedClient(world, *each) for each in enumerate(program.clients)]
        running = [
            asyncio.create_task(
                client.run(lambda client=client: self._connect(client), self._settle),
                name=f"simulated client {client.number}",
            )
            for client in world.clients
        ]
        for task in running:
            await task
        left_s = world.loop.time()
        if self.serving:
            await asyncio.wait(self.serving)
        if world.loop.time() - left_s > CLOSE_S:
            world.fail("serving goes on when the client has left")
        await self.agent.aclose()
        for transport in self.transports:
            if transport.most_unsent_bytes > _UNSENT_BYTES + 4 * self._largest():
                world.fail("a transport holds too much", str(transport.most_unsent_bytes))

    def _largest(self) -> int:
        return max(client.spec.network.frame_bytes for client in self.world.clients)

    def _connect(self, client: SimulatedClient) -> SimulatedTransport:
        """Serve a new connection; return the client's end."""
        world, spec, number = self.world, client.spec, len(self.serving)
        serving: list[asyncio.Task[None]] = []

        def died(side: str) -> None:
            if side == "agent":
                serving[0].cancel()
            else:
                client.leaving.set()

        here, there = link(spec.network, random.Random(f"{world.program.seed} {number}"), died=died)
        here.heard = lambda data: world.trace("client", number, data)

        def heard(data: bytes) -> None:
            world.trace("agent", number, data)

        def cut() -> None:
            world.cut.add(client.number)

        there.heard = heard
        here.on_cut = there.on_cut = cut
        serving.append(asyncio.create_task(self._serve(client, there), name=f"simulated {number}"))
        self.serving += serving
        self.transports += [here, there]
        return here

    async def _serve(self, client: SimulatedClient, transport: SimulatedTransport) -> None:
        limits = Limits(backlog_messages=self.world.program.waiting)
        try:
            await accord.serve(self.agent, transport, limits=limits)
        except TransportError as error:
            if client.number not in self.world.cut:
                self.world.fail(f"serve: {type(error).__name__}", repr(error))
        except asyncio.CancelledError:
            if client.number not in self.world.cut:
                raise

    async def _settle(self) -> None:
        """Wait until the agent is idle, and nothing is in transit."""
        loop = self.world.loop
        over_s = loop.time() + SETTLE_S
        calm = 0
        while calm < 3 and loop.time() < over_s:
            await asyncio.sleep(0.5)
            still = self.world.busy or not all(each.is_idle for each in self.transports)
            calm = 0 if still else calm + 1
        if calm < 3:
            self.world.fail("the agent does not settle", stacks(loop))
