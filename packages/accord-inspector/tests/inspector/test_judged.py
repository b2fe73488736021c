"""The judges of the kit on recordings that the page shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord_conformance.judges.observer import Observer
from accord_inspector.judged import BrokenRule, Judged, JudgedConnections, Repeats
from accord_trace import Recording, open_trace
from inspector.recordings import Direction, chunk, message, opening, save, turn
from project import ROOT

BOUND_S = 30.0


def judge(frames: list[tuple[Direction, bytes]], tmp_path: Path) -> list[BrokenRule]:
    return list(_judge(save(tmp_path / "r.acp.jsonl", frames)))


def _judge(path: Path) -> Iterator[BrokenRule]:
    connections = JudgedConnections()
    for n, record in enumerate(open_trace(path)):
        yield from connections.add(n, record)
    yield from connections.finish()


def test_conversation_without_mistakes_breaks_no_rule(tmp_path: Path) -> None:
    assert judge([*opening(), *turn(2, chunk("hello"))], tmp_path) == []


def test_broken_rule_is_at_the_message_of_the_side_that_broke_it(tmp_path: Path) -> None:
    frames = [*opening(), *turn(2, chunk("hello")), chunk("x", session="other")]
    (found,) = judge(frames, tmp_path)
    assert (found.n, found.rule, found.by) == (7, "R-SESS-02", "agent")
    assert found.severity in ("error", "warning", "advice")


def test_unknown_session_is_reported_at_the_end_of_the_turn(tmp_path: Path) -> None:
    frames = [*opening(), *turn(2, chunk("x", session="other"))]
    path = save(tmp_path / "r.acp.jsonl", frames)
    connections = JudgedConnections()
    found = [one for n, record in enumerate(open_trace(path)) for one in connections.add(n, record)]
    assert [(one.n, one.rule) for one in found] == [(5, "R-SESS-02")]
    assert connections.finish() == []


def test_broken_rule_names_the_other_messages(tmp_path: Path) -> None:
    again = message("to_client", id=2, result={"stopReason": "end_turn"})
    found = judge([*opening(), *turn(2), again], tmp_path)
    assert [(one.n, one.rule) for one in found] == [(6, "R-GEN-06")]
    assert set(found[0].others) == {4, 5}


def test_second_response_is_named_as_one(tmp_path: Path) -> None:
    again = message("to_client", id=2, result={"stopReason": "end_turn"})
    (found,) = judge([*opening(), *turn(2), again], tmp_path)
    assert found.expected == "exactly one response to request 2"
    assert found.got == "a second one: no request with this id is pending"


def test_connections_to_proxies_are_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    params = {"protocolVersion": 2, "info": {"name": "test", "version": "1"}, "capabilities": {}}
    with Recording(path) as recording:
        asked = message("to_agent", id=0, method="proxy/initialize", params=params)
        wrong: tuple[Direction, bytes] = ("to_client", b"not a message")
        recording.add(recording.hop("Client", "Proxy(0)"), [asked, wrong])
        recording.add(recording.hop("Proxy(0)", "Proxy(1)"), [wrong])
        recording.add(recording.hop("Proxy(1)", "Agent"), [*opening(), wrong])
    assert [(one.n, one.rule) for one in _judge(path)] == [(7, "R-STDIO-04")]


def test_connections_are_judged_apart(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        for _ in range(2):
            recording.add(recording.hop(), [*opening(), *turn(2, chunk("hello"))])
    assert list(_judge(path)) == []


async def test_growing_recording_is_judged_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    judged, grown, written = Judged(), asyncio.Event(), [0]
    changed = asyncio.Event()
    judged.observe(changed.set)

    async def until(count: int) -> None:
        async with asyncio.timeout(BOUND_S):
            while judged.judged < count:
                changed.clear()
                await changed.wait()

    with Recording(path) as recording:
        hop = recording.hop()
        running = asyncio.ensure_future(judged.run(path, lambda: written[0], lambda: False, grown))
        try:
            recording.add(hop, [*opening(), *turn(2)])
            written[0] = 6
            grown.set()
            await until(6)
            assert judged.counts.total() == 0
            recording.add(hop, [message("to_client", id=2, result={"stopReason": "end_turn"})])
            written[0] = 7
            grown.set()
            await until(7)
        finally:
            running.cancel()
            await asyncio.wait([running])
    assert [one.rule for one in judged.broken(6)] == ["R-GEN-06"]
    assert judged.numbers("any") == judged.numbers("R-GEN-06") == {6}
    assert judged.numbers("R-GEN-05") == frozenset()
    assert judged.severity(6) == "error"
    assert judged.severity(5) == ""


async def test_recording_that_disappears_is_a_problem(tmp_path: Path) -> None:
    judged = Judged()
    async with asyncio.timeout(BOUND_S):
        await judged.run(tmp_path / "no.acp.jsonl", lambda: 1, lambda: True, asyncio.Event())
    assert judged.problem


RECORDINGS = sorted((ROOT / "tests/recordings").rglob("*.acp.jsonl*"))


@pytest.mark.parametrize("every", [1, 5])
def test_chunks_of_one_form_are_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """What is skipped breaks no rule: judging every message finds the same."""
    text = ["plain", "über \U0001f600", "a\nb", "", '"', "\x1b[31m", "x" * 3000]
    stream = [chunk(text[n % 7] if n % every == 0 else f"w {n}") for n in range(60)]
    lost = [chunk(f"w {n}", session="other" if n == 9 else "s1") for n in range(20)]
    late = [chunk(f"late {n}") for n in range(6)]
    path = save(tmp_path / "r.acp.jsonl", [*opening(), *turn(2, *stream, *lost), *late, *turn(3)])
    received: list[bytes] = []
    receive = Observer.receive
    monkeypatch.setattr(
        Observer,
        "receive",
        lambda self, sender, frame, time: (
            received.append(frame) or receive(self, sender, frame, time)
        ),
    )
    found = list(_judge(path))
    judged = len(received)
    monkeypatch.setattr(Repeats, "is_repeated", lambda *_: False)
    every_one = list(_judge(path))
    assert [(one.n, one.rule) for one in found] == [(one.n, one.rule) for one in every_one]
    assert found
    assert judged < len(received) - judged


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_recordings_of_agents_are_judged_as_if_every_message_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(_judge(path))
    monkeypatch.setattr(Repeats, "is_repeated", lambda *_: False)
    assert found == list(_judge(path))
