"""Almost valid frames for an agent and for a client, in memory and over real pipes."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import accord
from accord import connect
from accord.client.permissions import allow
from accord.errors import AccordError
from accord.script_agent.agent import ScriptAgent
from accord.transports.base import Frame, Transport
from accord.transports.memory import pair
from accord.transports.process import process
from attack.corpus import Corpus, corpus, session_id_of
from attack.mutate import Mutator
from attack.watch import watched
from raw_peer import QUICK
from versions import only

__all__ = ("FRAMES", "attack")

FRAMES = 200  # in one attack
_PROBE = "probe"


def attack(seed: int, *, over_pipes: bool = False) -> int:
    """Attack an agent or a client in one version; return the number of frames sent."""
    rng = random.Random(seed)
    version = rng.choice((1, 2))
    material = corpus(version)
    if over_pipes or rng.random() < 0.5:
        return asyncio.run(_agent(rng, version, material, over_pipes=over_pipes))
    return asyncio.run(_client(rng, version, material))


class _Side:
    """The attacker: answers requests, mostly wrongly, and counts the responses it receives."""

    def __init__(
        self, transport: Transport, mutator: Mutator, results: dict[str, list[Any]]
    ) -> None:
        self.transport = transport
        self.answers: Counter[Any] = Counter()
        self.last: dict[Any, Any] = {}
        self.ended = asyncio.Event()
        self.changed = asyncio.Event()
        self._mutator = mutator
        self._results = results
        self.right = 0.0  # the share of correct responses
        self.rng = random.Random(0)

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            message = json.loads(frame)  # all frames that are sent back are JSON
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                key = json.dumps(message["id"])
                self.answers[key] += 1
                self.last[key] = message
            elif "id" in message:
                self.answer(message)
        self.changed.set()

    def answer(self, request: Any) -> None:
        options = self._results.get(request["method"])
        if not options:
            error = {"code": -32601, "message": "Method not found"}
            self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            return
        reply = {**self.rng.choice(options), "id": request["id"]}
        if self.rng.random() < self.right:
            self.send(reply)
        else:
            self.transport.write([self._mutator.frame(reply)])

    def send(self, message: Any) -> None:
        self.transport.write([json.dumps(message).encode()])

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError("a frame over the limit was sent")

    def eof_received(self, error: Exception | None) -> None:
        self.ended.set()
        self.changed.set()

    def writable(self) -> None:
        self.changed.set()

    async def until_answered(self, request_id: Any) -> Any:
        key = json.dumps(request_id)
        while not self.answers[key]:
            assert not self.ended.is_set(), "it hung up"
            self.changed.clear()
            await self.changed.wait()
        return self.last[key]


def _id(number: int) -> str:
    """Return an id that does not become another used id if one byte changes."""
    return f"{number}#{number}"


def _with_session(messages: list[Any], old: str, new: str) -> list[Any]:
    return json.loads(json.dumps(messages).replace(json.dumps(old), json.dumps(new)))


async def _agent(rng: random.Random, version: int, material: Corpus, *, over_pipes: bool) -> int:
    results = material.results(material.to_agent, material.to_client)
    requests = [m for m in material.to_agent if "method" in m]
    async with watched():
        if over_pipes:
            transport: Transport = process(sys.executable, "-m", "accord", "agent", "script")()
            serving = None
        else:
            here, transport = pair()
            serving = asyncio.ensure_future(accord.serve(ScriptAgent(), here, limits=QUICK))
        mutator = Mutator(rng, material.to_agent + material.to_client)
        side = _Side(transport, mutator, results)
        side.rng = rng
        await transport.start(side)
        try:
            initialize = next(m for m in requests if m["method"] == "initialize")
            if rng.random() < 0.9:
                side.send({**initialize, "id": "init"})
                await side.until_answered("init")
                new = next(m for m in requests if m["method"] == "session/new")
                side.send({**new, "id": "new"})
                session_id = (await side.until_answered("new"))["result"]["sessionId"]
                requests = _with_session(requests, session_id_of(material), session_id)
            for number in range(FRAMES):
                message = rng.choice(requests)
                if "id" in message:
                    message = {**message, "id": _id(number)}
                frame = mutator.frame(message)
                side.transport.write([frame])
                if rng.random() < 0.1:
                    await asyncio.sleep(0)
            side.right = 1.0
            # It continues: the next request is answered, and no request was answered twice.
            side.send({"jsonrpc": "2.0", "id": _PROBE, "method": "_attack/probe"})
            await side.until_answered(_PROBE)
            for number in range(FRAMES):
                assert side.answers[json.dumps(_id(number))] <= 1
        finally:
            await transport.aclose()
            if serving is not None:
                await serving
    return FRAMES


async def _client(rng: random.Random, version: int, material: Corpus) -> int:
    results = material.results(material.to_client, material.to_agent)
    updates = [m for m in material.to_client if "method" in m]
    count = 0
    async with watched():
        here, there = pair()
        mutator = Mutator(rng, material.to_agent + material.to_client)
        side = _Side(here, mutator, results)
        side.rng = rng
        side.right = 1.0
        await here.start(side)

        async def visit(_: Any) -> bool:
            return True

        async def fill(_: Any) -> dict[str, Any]:
            return {}

        async def flood() -> int:
            for number in range(FRAMES):
                message = rng.choice(updates)
                if "id" in message:
                    message = {**message, "id": _id(number)}
                here.write([mutator.frame(message)])
                if rng.random() < 0.2:
                    await asyncio.sleep(0)
            return FRAMES

        with suppress(AccordError):
            async with connect(
                there,
                versions=only(version),
                permissions=allow("*"),
                on_elicit_form=fill,
                on_elicit_url=visit,
                unstable=True,
                limits=QUICK,
            ) as client:
                session = await client.new_session("/")
                side.right = rng.choice((0.0, 0.5, 1.0))
                flooding = asyncio.ensure_future(flood())
                try:
                    for _ in range(3):
                        with suppress(AccordError):
                            async with (
                                asyncio.timeout(0.05),
                                session.prompt("echo hello", cancel_timeout_s=0.02) as turn,
                            ):
                                async for _event in turn:
                                    repr(_event)
                        with suppress(AccordError, TimeoutError, ValueError):
                            async with asyncio.timeout(0.05):
                                await rng.choice((session.status, session.cancel, session.close))()
                    repr(session.transcript)
                except TimeoutError:
                    pass
                finally:
                    count = await flooding
                    await here.aclose()
    return count
