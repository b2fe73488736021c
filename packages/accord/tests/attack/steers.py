"""Messages at any moment of turns: none is lost, run twice, in another session or out of order.

Several sessions at once, both protocol versions, agents that read messages in several ways or
cannot be steered, turns that are cancelled, fail or ask, callers that give up. In memory, with a
real process, and over a network that is cut at any moment, with a client that reconnects.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import accord
from accord import ClientSession, MemoryStore, Reconnect, connect
from accord.client import turn as turn_module
from accord.errors import (
    LocalProtocolError,
    RequestError,
    SteerTimeout,
    TransportError,
)
from accord.transports.memory import pair
from attack.steered_agent import KINDS, steered_agent
from attack.watch import watched
from raw_peer import QUICK
from versions import only

__all__ = ("PLACES", "attack")

PLACES = ("memory", "process", "network")
_WEIGHTS = (0.8, 0.08, 0.12)
_LABEL = re.compile(r"<(\d+)\.(\d+)>")
_MOST_STEPS = 60  # iterations of the event loop between two actions
_PROGRAM = Path(__file__).with_name("steered_agent.py")
_GIVES_UP = "gives up"


class _Left(Exception):
    """Raised to leave a turn."""


class _Said:
    """One text of the user: where it is in the order, and what was reported of it."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.outcome = ""  # of `steer`, or `prompt`
        self.is_done = True  # the turn has ended in order
        self.is_cut = False  # its prompt was cancelled for a later message
        self.unsent = False  # when its turn ended; it is sent again then
        self.unconfirmed = False


class _World:
    """One run: what was said and heard in each session."""

    def __init__(self, rng: random.Random, place: str | None) -> None:
        self.rng = rng
        self.place = place or rng.choices(PLACES, _WEIGHTS)[0]
        self.version: Any = rng.choice((1, 2))
        self.kind = rng.choice(tuple(KINDS))
        self.has_store = self.place == "network" or rng.random() < 0.7
        self.notes: list[tuple[str, str, str]] = []
        self.said: dict[int, dict[int, _Said]] = defaultdict(dict)  # by session and number
        self.asking: dict[str, object] = {}  # what is asked, by session
        self.breaks = 0  # of the network
        self.may_break = asyncio.Event()
        self.steers = 0

    async def later(self) -> None:
        for _ in range(self.rng.randrange(_MOST_STEPS)):
            await asyncio.sleep(0)
        if self.place != "memory" or self.rng.random() < 0.1:
            await asyncio.sleep(self.rng.random() * (0.004 if self.place == "memory" else 0.02))

    async def decide(self, request: Any) -> str:
        mark = self.asking[request.session_id] = object()
        try:
            await self.later()
        finally:
            if self.asking.get(request.session_id) is mark:
                del self.asking[request.session_id]
        return "allow"


def attack(seed: int, place: str | None = None) -> int:
    """Steer the turns of some sessions; return the number of messages."""
    world = _World(random.Random(seed), place)
    with (
        mock.patch.object(turn_module, "JOIN_S", 0.02),
        mock.patch.object(turn_module, "STEER_TIMEOUT_S", 5.0),
    ):
        try:
            asyncio.run(_attack(world))
        except BaseException as error:
            where = f"{world.place}, version {world.version}, {world.kind}"
            where += ", store" if world.has_store else ""
            error.add_note(f"seed {seed} in {where}")
            raise
    return world.steers


async def _attack(world: _World) -> None:
    async with watched(server_stays=world.place == "network"), AsyncExitStack() as stack:
        client, agent = await stack.enter_async_context(_connected(world))
        sessions = [await client.new_session("/") for _ in range(world.rng.randint(1, 3))]
        names = {session.id: number for number, session in enumerate(sessions)}
        world.may_break.set()
        async with asyncio.TaskGroup() as group:
            for number, session in enumerate(sessions):
                group.create_task(_use(world, session, number))
        stored = None
        if agent is not None and world.has_store:
            stored = await _stored(agent, world.version, list(names))
        await stack.aclose()
        _judge(world, names, stored)


# The agents.


@asynccontextmanager
async def _connected(world: _World) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield a client, and the agent if it is in this process."""
    options = {"versions": only(world.version), "permissions": world.decide, "limits": QUICK}
    if world.place == "process":
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "notes"
            file.touch()
            seed = str(world.rng.random())
            command = [sys.executable, str(_PROGRAM), world.kind, seed, str(file)]
            async with connect(command, **options) as client:
                yield client, None
            world.notes += [tuple(json.loads(line)) for line in file.read_text().splitlines()]
        return

    def note(*what: str) -> None:
        world.notes.append(what)  # type: ignore[arg-type]  # three

    agent = steered_agent(world.kind, random.Random(world.rng.random()), note)
    if world.has_store:
        agent.store = MemoryStore()
    if world.place == "network":
        async with _over_network(world, agent, options) as client:
            yield client, agent
        return
    here, there = pair(limit_bytes=world.rng.choice((1, 1000, 256 * 1024)))
    serving = asyncio.ensure_future(accord.serve(agent, here, limits=QUICK))
    async with connect(there, **options) as client:
        yield client, agent
    await serving


@asynccontextmanager
async def _over_network(
    world: _World, agent: Any, options: dict[str, Any]
) -> AsyncGenerator[accord.ConnectedAgent]:
    from remote.servers import hypercorn  # only where it is needed
    from remote.tcp_proxy import tcp_proxy

    rng, scheme = world.rng, world.rng.choice(("ws", "ws", "http"))
    settings = Reconnect(attempts=50, wait_s=0.005, max_wait_s=0.02)

    async def cut(proxy: Any) -> None:
        await world.may_break.wait()
        for _ in range(rng.randint(3, 10)):
            await asyncio.sleep(rng.random() * 0.06)
            proxy.refuses = rng.random() < 0.3
            proxy.piece_bytes = rng.choice((100, 64 * 1024))
            proxy.cut()
            world.breaks += 1
            await asyncio.sleep(rng.random() * 0.02)
            proxy.refuses = False

    with (
        mock.patch("accord.remote.asgi_socket.FLUSH_S", 1.0),
        mock.patch("accord.transports.websocket_base.CLOSE_S", 1.0),
    ):
        async with (
            hypercorn(accord.asgi(agent, insecure=True)) as address,
            tcp_proxy(address) as (proxy, url),
            connect(f"{scheme}://{url}", reconnect=settings, **options) as client,
        ):
            cutting = asyncio.ensure_future(cut(proxy))
            try:
                yield client
            finally:
                cutting.cancel()
                with suppress(asyncio.CancelledError):
                    await cutting


async def _stored(agent: Any, version: int, session_ids: list[str]) -> dict[str, str]:
    """Return what the user has said in each session, by the agent's store."""
    here, there = pair()
    serving = asyncio.ensure_future(accord.serve(agent, here, limits=QUICK))
    found: dict[str, str] = {}
    async with connect(there, versions=only(version), limits=QUICK) as client:
        for session_id in session_ids:
            session = await client.load_session(session_id, "/")
            found[session_id] = _of_user(session)
    await serving
    return found


def _of_user(session: ClientSession) -> str:
    items = session.transcript.items
    messages = (item for item in items if isinstance(item, accord.Message))
    return "\n".join(message.text for message in messages if message.role == "user")


# The user.


async def _use(world: _World, session: ClientSession, number: int) -> None:
    rng, said = world.rng, world.said[number]
    again: list[int] = []  # what a turn has left unsent
    order = 0

    def text() -> tuple[str, list[int]]:
        """Return a text to say: a new one, or what was left."""
        nonlocal order
        order += 1
        numbers = again.copy() or [len(said)]
        again.clear()
        for one in numbers:
            said.setdefault(one, _Said(order)).order = order
            said[one].is_done = True
            said[one].unsent = False
        return " ".join(f"<{number}.{one}>" for one in numbers), numbers

    async def steer(turn: Any) -> None:
        new, numbers = text()
        fallback = rng.choice(("queue", "cancel"))
        asked = world.asking.get(session.id)
        world.steers += 1
        say = rng.choice((turn, session)).steer
        outcome = ""
        try:
            saying = say(new, fallback=fallback)
            if rng.random() < 0.03:
                outcome = _GIVES_UP
                async with asyncio.timeout(rng.random() * 0.002):
                    steered = await saying
            else:
                steered = await saying
        except LocalProtocolError:
            outcome = "not sent"
        except RequestError:
            outcome = "refused"
        except (SteerTimeout, TransportError):
            outcome = "unknown"
        except TimeoutError:
            assert outcome == _GIVES_UP
        else:
            outcome = steered.outcome
            if outcome == "restarted" and asked is not None:
                still = world.asking.get(session.id)
                assert still is not asked, "a message has cut a turn that asks the user"
        if outcome in ("restarted", _GIVES_UP) and fallback == "cancel":
            for one in labels:
                said[one].is_cut = True
        for one in numbers:
            said[one].outcome = outcome
        labels.extend(numbers)

    for _ in range(rng.randint(2, 6)):
        new, labels = text()
        labels = list(labels)
        for one in labels:
            said[one].outcome = "prompt"
        is_done = False
        turn = session.prompt(new, cancel_timeout_s=10.0)
        broken = world.breaks
        try:
            async with turn:
                is_done = await _turn(world, turn, partial(steer, turn))
        except _Left:
            pass
        except (RequestError, LocalProtocolError):
            pass
        except TransportError:
            if not world.breaks:
                raise
            await asyncio.sleep(0.02)
        is_done = is_done and turn.stop_reason == "end_turn" and turn.error is None
        is_done = is_done and broken == world.breaks
        unsent, unconfirmed = (_numbers(each, number) for each in (turn.unsent, turn.unconfirmed))
        for one in labels:
            said[one].is_done = is_done
            said[one].unsent = one in unsent
            said[one].unconfirmed = one in unconfirmed
        assert not (set(unsent) & set(unconfirmed)), "both unsent and unconfirmed"
        assert not (is_done and unsent), f"unsent after the turn has ended in order: {unsent}"
        if rng.random() < 0.8:
            again += unsent


def _numbers(messages: list[tuple[Any, ...]], session: int) -> list[int]:
    found = _LABEL.findall(" ".join(str(part) for message in messages for part in message))
    assert all(int(one) == session for one, _ in found), "a message of another session"
    return [int(number) for _, number in found]


async def _turn(world: _World, turn: Any, steer: Any) -> bool:
    """Steer a turn; return whether it was left alone."""
    rng = world.rng
    count = rng.choice((0, 1, 1, 2, 3, 6))
    way = rng.choice(("beside", "burst", "inside"))
    cancels, leaves = rng.random() < 0.15, rng.random() < 0.05

    async def beside() -> None:
        if way == "burst":
            await world.later()
            async with asyncio.TaskGroup() as burst:
                for _ in range(count):
                    burst.create_task(steer())
            return
        for _ in range(count):
            await world.later()
            await steer()

    tasks = [asyncio.create_task(beside())] if way != "inside" else []
    if cancels:
        tasks.append(asyncio.create_task(_cancel(world, turn)))
    try:
        async for _ in turn:
            if way == "inside" and count and rng.random() < 0.2:
                count -= 1
                await steer()
    finally:
        await asyncio.gather(*tasks)
    if leaves:
        raise _Left
    return not cancels


async def _cancel(world: _World, turn: Any) -> None:
    for _ in range(3):
        await world.later()
    with suppress(TransportError):
        await turn.cancel()


# The judge.


def _judge(world: _World, names: dict[str, int], stored: dict[str, str] | None) -> None:
    heard: dict[int, list[int]] = defaultdict(list)
    for what, session_id, text in world.notes:
        assert what == "heard", f"{what} in {session_id}"
        labels = _LABEL.findall(text)
        assert labels, f"not said by the user: {text!r}"
        for number, label in labels:
            assert int(number) == names[session_id], f"{text!r} is heard in another session"
            heard[int(number)].append(int(label))
    for session_id, number in names.items():
        said = world.said[number]
        numbers = heard[number]
        about = f"session {number}: heard {numbers}, said {_shown(said)}"
        assert len(set(numbers)) == len(numbers), f"twice: {about}"
        orders = [said[one].order for one in numbers]
        assert orders == sorted(orders), f"out of order: {about}"
        kept = None
        if stored is not None:
            kept = [int(label) for _, label in _LABEL.findall(stored[session_id])]
            assert len(set(kept)) == len(kept), f"stored twice {kept}: {about}"
            assert set(numbers) <= set(kept), f"heard and not stored {kept}: {about}"
        for one, each in said.items():
            in_agent = one in numbers or (kept is not None and one in kept)
            why = f"{one} is {each.outcome}: {about}"
            if each.outcome in ("not sent", "refused") or each.unsent:
                assert one not in numbers, f"heard although it was not sent: {why}"
                assert each.outcome == "refused" or not in_agent, f"stored: {why}"
                continue
            if each.outcome in ("unknown", _GIVES_UP) or each.unconfirmed:
                continue
            if each.is_done and not each.is_cut:
                assert one in numbers, f"lost: {why}"
            elif kept is not None and each.is_done:
                assert in_agent, f"cut and not stored: {why}"
            elif kept is not None and each.outcome == "injected":
                assert in_agent, f"lost and not stored: {why}"
            elif kept is not None and each.outcome in ("queued", "restarted"):
                assert in_agent or world.breaks, f"neither stored nor unsent: {why}"


def _shown(said: dict[int, _Said]) -> str:
    return str({one: each.outcome + ("" if each.is_done else "?") for one, each in said.items()})
