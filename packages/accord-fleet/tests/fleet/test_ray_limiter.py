"""The driver of a run on a cluster learns which keys wait, also after it could not ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from accord_fleet.engines import ray_actors as ray_limiter
from accord_fleet.engines.ray_actors import RayLimiter
from accord_fleet.gateway.limiter import KeyWait
from accord_fleet.types import ClusterLost

WAIT = KeyWait(1, 60.0, False)


class ErrorOfRay(Exception):
    """What Ray raises if an actor cannot be asked."""


class BrokenCluster:
    """A cluster and its actor: each question gets the next of the answers, or raises it."""

    ray = SimpleNamespace(exceptions=SimpleNamespace(RayError=ErrorOfRay))

    def __init__(self, *answers: dict[str, KeyWait] | Exception) -> None:
        self.waits = SimpleNamespace(remote=self.ask)
        self.seen: list[object] = []
        self._answers = list(answers)

    def ask(self, seen: object) -> None:
        self.seen.append(seen)

    async def submit(self, function: Callable[[], Any]) -> Any:
        return function()

    async def wait_for(self, _: object) -> Any:
        if not self._answers:
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ("actor", len(self.seen)), answer


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_limiter, "_AGAIN_S", 0.0)


@pytest.mark.parametrize("error", [ErrorOfRay, ConnectionError, TimeoutError])
async def test_no_key_is_said_to_wait_while_the_actor_cannot_be_asked(
    error: type[Exception],
) -> None:
    answers = {"a": WAIT}, error("first"), error("second"), {"b": WAIT}, ClusterLost("gone")
    cluster: Any = BrokenCluster(*answers)
    said: list[tuple[str, KeyWait | None]] = []
    with pytest.raises(ClusterLost):
        await RayLimiter(cluster).follow(cluster, lambda *one: said.append(one))
    assert said == [("a", WAIT), ("a", None), ("b", WAIT), ("b", None)]
    # After an error, the state of the actor is not known.
    assert cluster.seen == [None, ("actor", 1), None, None, ("actor", 4)]


async def test_no_key_is_said_to_wait_after_the_end_of_the_run() -> None:
    cluster: Any = BrokenCluster({"a": WAIT, "b": WAIT}, {"b": WAIT})
    said: list[tuple[str, KeyWait | None]] = []
    following = asyncio.ensure_future(
        RayLimiter(cluster).follow(cluster, lambda *one: said.append(one))
    )
    async with asyncio.timeout(40):
        while len(cluster.seen) < 3:
            await asyncio.sleep(0)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert said == [("a", WAIT), ("b", WAIT), ("a", None), ("b", None)]
