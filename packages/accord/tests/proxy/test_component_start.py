"""Components that cannot be started, or do not respond: who is named, to whom, and how it ends."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from accord import chain, component, connect
from accord.errors import RequestError, StartError
from accord.proxy import chain as explain
from accord.proxy import conductor
from accord.proxy.conductor import Component, conduct, serve_stages
from accord.proxy.stage import Port, RawRequest, Stage
from accord.script_agent.agent import ScriptAgent
from accord.testing import Recorder
from accord.transports.memory import ServedTransport, pair
from requirement import requirement

AGENT = ScriptAgent
_HANDSHAKE = conductor._Handshake
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


async def _refused(parts: Any) -> tuple[dict[str, Any], Exception | None]:
    """Return the error that the client gets, and how the chain ended."""
    here, there = pair()
    received = Recorder()
    await here.start(received)
    conducting = asyncio.ensure_future(conduct(parts.components, there))
    async with asyncio.timeout(30):
        here.write([json.dumps(INITIALIZE).encode()])
        await received.until(lambda: received.ended)
        ended = await conducting
    await here.aclose()
    return json.loads(received.frames[0])["error"], ended


@requirement("R-PROXY-22")
async def test_component_that_cannot_be_started_ends_the_chain() -> None:
    error, ended = await _refused(chain("does-not-exist-12", AGENT))
    assert error["data"] == {"component": "does-not-exist-12"}
    assert isinstance(ended, StartError)
    assert "component 'does-not-exist-12' cannot be started: Cannot start" in str(ended)


async def test_value_of_path_is_for_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/a/private/folder")
    error, ended = await _refused(chain("does-not-exist-12", AGENT))
    assert error["message"].endswith("not found in PATH")
    assert str(ended).endswith("not found in PATH (/a/private/folder)")


async def test_value_of_path_is_in_the_errors_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/a/private/folder")
    parts = chain("does-not-exist-12", AGENT)
    why = r"component 'does-not-exist-12' .* not found in PATH \(/a/private/folder\)"
    with pytest.raises(StartError, match=why):
        await explain.explain(parts.components)
    with pytest.raises(RequestError) as refused:
        async with connect(parts):
            pass
    assert "/a/private" not in str(refused.value)
    assert isinstance(refused.value.__cause__, StartError)
    assert str(refused.value.__cause__).endswith("(/a/private/folder)")


class _Warnings(logging.Handler):
    """Waits for a warning of chains."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def emit(self, record: logging.LogRecord) -> None:
        if not self.first.done():
            self.first.set_result(record.getMessage())


class _Hangs(Stage):
    name = "hangs"

    def __init__(self, asked: asyncio.Event) -> None:
        self._asked = asked

    def request_from_client(self, request: RawRequest) -> None:
        self._asked.set()


@pytest.mark.parametrize("is_before", [False, True], ids=["after-a-program", "before-a-program"])
async def test_proxy_of_this_process_that_does_not_respond_to_initialize_is_named(
    monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    slow: list[Callable[[], None]] = []
    monkeypatch.setattr(conductor, "_Handshake", partial(_handshake, slow))
    warnings = _Warnings()
    logging.getLogger("accord.proxy").addHandler(warnings)
    asked = asyncio.Event()
    here, client = pair()
    await here.start(Recorder())
    passes = component(lambda: ServedTransport(lambda there: serve_stages([Stage()], there)))
    hangs = Component("hangs", make_stage=lambda: _Hangs(asked))
    parts = [hangs, passes] if is_before else [passes, hangs]
    conducting = asyncio.ensure_future(conduct(chain(*parts, AGENT).components, client))
    try:
        async with asyncio.timeout(30):
            here.write([json.dumps(INITIALIZE).encode()])
            await asked.wait()
            slow[0]()
            assert (await warnings.first).startswith("! component 'hangs': no response to init")
    finally:
        logging.getLogger("accord.proxy").removeHandler(warnings)
        await here.aclose()
        await asyncio.wait_for(conducting, 30)


def _handshake(
    kept: list[Callable[[], None]], settled: Callable[[int], None], slow: Callable[[], None]
) -> Stage:
    kept.append(slow)
    return _HANDSHAKE(settled, slow)


async def test_component_that_does_not_respond_to_initialize_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conductor, "SLOW_S", 0.0)
    warnings = _Warnings()
    logging.getLogger("accord.proxy").addHandler(warnings)
    there, silent = pair()
    await silent.start(Recorder())
    here, client = pair()
    await here.start(Recorder())
    parts = chain(component(lambda: there, name="silent"), AGENT).components
    conducting = asyncio.ensure_future(conduct(parts, client))
    try:
        async with asyncio.timeout(30):
            here.write([json.dumps(INITIALIZE).encode()])
            assert (await warnings.first).startswith("! component 'silent': no response to init")
    finally:
        logging.getLogger("accord.proxy").removeHandler(warnings)
        await here.aclose()
        await asyncio.wait_for(conducting, 30)
        await silent.aclose()


def test_component_that_did_not_respond_is_the_last_one_that_was_asked() -> None:
    parts = chain(component("one"), component("two"), component("agent")).components
    taps = [explain._Tap() for _ in parts]
    passed: list[RawRequest] = []
    port = Port(_unexpected, passed.append, _unexpected, _unexpected)
    taps[0].agent = taps[1].agent = port
    taps[0].request_from_client(RawRequest("initialize", Raw(b"{}"), lambda _response: None))
    assert explain._silent(taps, parts) == "one"
    taps[1].request_from_client(passed[0])
    assert explain._silent(taps, parts) == "two"
    taps[2].is_waiting = True
    assert explain._silent(taps, parts) == "agent"


def _unexpected(*_args: object) -> Any:
    raise AssertionError("nothing else passes")


async def test_line_on_stdout_that_is_not_a_message_is_shown(tmp_path: Path) -> None:
    noisy = tmp_path / "noisy.py"
    noisy.write_text("import accord\nprint('Loading…', flush=True)\naccord.Proxy().run()\n")
    lines: list[str] = []
    parts = chain(component(noisy, on_stderr=lines.append), AGENT)
    async with asyncio.timeout(30), connect(parts):
        pass
    assert lines == ["not a message, on stdout: Loading…"]
