"""A run against a client: the report is written, whatever the client does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from accord.transports.base import Frame, Receiver
from accord.transports.memory import pair
from accord_conformance.client import run as run_module
from accord_conformance.client.context import ClientContext
from accord_conformance.client.run import ClientRun
from accord_conformance.harness import Scenario, scenario
from accord_conformance.reports.report import RunResult
from conformance.client.driven_client import converse

Json = dict[str, Any]
INITIALIZE = {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


@scenario("some/broken")
async def broken(scene: ClientContext) -> None:
    """The client's response cannot be used by the scenario."""
    raise AttributeError("'list' object has no attribute 'get'")


@scenario("some/whole")
async def whole(scene: ClientContext) -> None:
    """The client passes."""
    scene.say("Hello")


class RawClient(Receiver):
    """Sends raw messages and records the received ones."""

    def __init__(self) -> None:
        self.heard: list[Json] = []
        self._news = asyncio.Event()

    async def answer(self, ident: Any) -> Json:
        """Return the response with this id."""
        while not (found := [one for one in self.heard if one.get("id") == ident]):
            self._news.clear()
            await self._news.wait()
        return found[0]

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self.heard += [json.decode(frame) for frame in frames]
        self._news.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError(limit)

    def eof_received(self, error: Exception | None) -> None:
        self._news.set()

    def writable(self) -> None:
        return


async def test_report_is_written_before_the_first_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_KEEP_S", 0.01)
    here, there = pair()
    seen = asyncio.Event()

    def written(result: RunResult) -> None:
        if result.reports[0].version == 1:
            seen.set()

    run = ClientRun(here, (), pause_s=0.0, on_result=written)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(run.run())
        await there.start(RawClient())
        there.write([json.encode({"jsonrpc": "2.0", **INITIALIZE})])
        await seen.wait()
        await there.aclose()


async def test_report_is_written_when_the_run_is_interrupted() -> None:
    here, there = pair()
    results: list[RunResult] = []
    run = ClientRun(here, (), pause_s=0.0, on_result=results.append)
    client = RawClient()
    async with asyncio.timeout(10):
        running = asyncio.create_task(run.run())
        await there.start(client)
        there.write([b"no JSON", json.encode({"jsonrpc": "2.0", **INITIALIZE})])
        await client.answer(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await there.aclose()
    assert running.cancelled()
    assert list(results[-1].reports[0].failures())


async def test_scenario_that_raises_does_not_end_the_run(tmp_path: Path) -> None:
    here, there = pair()
    chosen: tuple[Scenario[ClientContext], ...] = (broken, whole)
    run = ClientRun(here, chosen, versions=(1,), pause_s=0.0)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = group.create_task(run.run())
        await converse(there, (1,), tmp_path, ["check: some"])
        await there.aclose()
    played = {one.scenario: one for one in running.result().scenario_results}
    assert played["some/broken"].outcome == "error in the kit"
    assert "AttributeError" in played["some/broken"].reason
    assert played["some/whole"].outcome == "finished"


def unanswered(number: int) -> Scenario[ClientContext]:
    """Sends a request that is never answered."""

    async def play(scene: ClientContext) -> None:
        await scene.call("_accord/unanswered")

    return Scenario(name=f"some/unanswered{number}", about="", run=play)


async def test_client_that_does_not_respond_does_not_pass(tmp_path: Path) -> None:
    here, there = pair()
    chosen = (*map(unanswered, range(2)), whole, *map(unanswered, range(2, 6)))
    run = ClientRun(here, chosen, versions=(1,), pause_s=0.0, answer_s=0.05)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = group.create_task(run.run())
        client = RawClient()
        await there.start(client)
        new = {"cwd": str(tmp_path), "mcpServers": []}
        text = [{"type": "text", "text": "check: some"}]
        there.write([json.encode({"jsonrpc": "2.0", **INITIALIZE})])
        await client.answer(0)
        there.write(
            [json.encode({"jsonrpc": "2.0", "id": "new", "method": "session/new", "params": new})]
        )
        session = (await client.answer("new"))["result"]["sessionId"]
        params = {"sessionId": session, "prompt": text}
        prompt = {"jsonrpc": "2.0", "id": "prompt", "method": "session/prompt", "params": params}
        there.write([json.encode(prompt)])
        await client.answer("prompt")
        await there.aclose()
    played = running.result().scenario_results
    assert [one.outcome for one in played] == [
        "wrong",
        "wrong",
        "finished",
        "wrong",
        "unfinished",
        "unfinished",
        "unfinished",
    ]
    assert played[0].reason == "no response to _accord/unanswered"
    assert played[-1].reason == "not run: the client does not respond"
    assert len(running.result().failed_scenarios) == 3


ODD: tuple[Any, ...] = (None, [], 5, "x", {}, [[]])
KEYS = ("sessionId", "cwd", "prompt", "cursor", "modeId", "methodId", "additionalDirectories")


@pytest.mark.parametrize(
    "method",
    [
        "session/new",
        "session/load",
        "session/resume",
        "session/prompt",
        "session/list",
        "session/close",
        "session/set_mode",
        "session/set_config_option",
        "authenticate",
        "session/cancel",
    ],
)
async def test_params_of_any_shape_are_answered(method: str) -> None:
    here, there = pair()
    run = ClientRun(here, (whole,), versions=(1,), pause_s=0.0, answer_s=0.01)
    client = RawClient()
    odd = [*ODD, *({key: value} for key in KEYS for value in ODD)]
    asks: list[Json] = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, params in enumerate(odd, 1)
    ]
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(run.run())
        await there.start(client)
        there.write([json.encode({"jsonrpc": "2.0", **INITIALIZE})])
        await client.answer(0)
        there.write([json.encode(ask) for ask in asks])
        for ask in asks:
            assert await client.answer(ask["id"])
        await there.aclose()
    assert run.connection.kit_errors == []
