"""Simulated programs: those that failed once, a fixed list of seeds, and the tool."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from accord.connection.lanes import Backlog, Backlogs
from accord.errors import ConnectionLost
from accord.testing import TransportContract
from accord.transports.base import FRAME_BYTES, Frame, Transport
from project import PYTHONPATH
from simulation import program as p
from simulation.cases import cases
from simulation.generate import program_of
from simulation.loop import SimulatedLoop, Stuck
from simulation.minimize import minimize
from simulation.network import Network, SimulatedTransport, link
from simulation.program import Program
from simulation.run import play

# Run by `make test`.
SEEDS = [int(line) for line in (Path(__file__).parent / "seeds.txt").read_text().split()]
GROUPS = 4
CASES = dict(cases())


def failures(program: Program) -> list[str]:
    return [f"{failure.kind}\n{failure.detail}" for failure in play(program).failures]


@pytest.mark.parametrize("name", CASES)
def test_earlier_failure_does_not_return(name: str) -> None:
    assert failures(CASES[name].program) == []


@pytest.mark.parametrize("group", range(GROUPS))
def test_fixed_seeds_do_not_fail(group: int) -> None:
    found = {seed: play(program_of(seed)).failures for seed in SEEDS[group::GROUPS]}
    assert {seed: each for seed, each in found.items() if each} == {}


# The tool itself.


def test_same_seed_is_the_same_run() -> None:
    for seed in (3, 7, 133):
        first, second = play(program_of(seed)), play(program_of(seed))
        assert first.trace_hash == second.trace_hash
        assert first.rounds == second.rounds


def test_search_runs_in_several_processes() -> None:
    words = ["--seconds", "0.1", "--first", "0", "--workers", "2", "--batch", "3"]
    run = [sys.executable, "-m", "simulation", *words]
    source = os.pathsep.join(path for path in sys.path if path)
    env = {**os.environ, "PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{source}"}
    done = subprocess.run(run, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed; seeds 0 to " in done.stdout


def test_run_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from simulation.generate import program_of; from simulation.run import play\n"
        "print([play(program_of(seed)).trace_hash for seed in range(3)])"
    )
    printed = set()
    for hash_seed in ("1", "2"):
        source = os.pathsep.join(path for path in sys.path if path)
        env = {**os.environ, "PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{source}"}
        env["PYTHONHASHSEED"] = hash_seed
        run = [sys.executable, "-c", code]
        printed.add(subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 1


def test_program_survives_a_json_round_trip() -> None:
    for seed in range(50):
        program = program_of(seed)
        assert msgspec.json.decode(msgspec.json.encode(program), type=Program) == program


def _say(pieces: int, *more: p.Act) -> Program:
    prompt = p.Prompt(acts=[p.Say(pieces=pieces, pause_s=0.1), *more])
    return Program(seed=1, clients=[p.Client(actors=[p.Actor([prompt])])])


def _spoil(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[list[Frame]], list[Frame]]) -> None:
    """Replace the frames that the client reads by the result of `spoil`."""
    read = SimulatedTransport.spoil

    def spoiled(self: SimulatedTransport, frames: list[Frame]) -> list[Frame]:
        return spoil(read(self, frames))

    monkeypatch.setattr(SimulatedTransport, "spoil", spoiled)


def _kinds(program: Program) -> set[str]:
    return {failure.kind.partition(" in accord")[0] for failure in play(program).failures}


def test_oracles_find_a_lost_update(monkeypatch: pytest.MonkeyPatch) -> None:
    _spoil(monkeypatch, lambda frames: [frame for frame in frames if b".2]" not in frame])
    assert _kinds(_say(5)) == {"events: out of order or lost", "transcript: lost"}


def test_oracles_find_a_duplicate_update(monkeypatch: pytest.MonkeyPatch) -> None:
    _spoil(
        monkeypatch,
        lambda frames: [f for frame in frames for f in [frame] * (1 + (b".2]" in frame))],
    )
    assert _kinds(_say(5)) >= {"events: out of order or twice", "transcript: twice"}


def test_oracles_find_updates_in_the_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Frame] = []

    def swap(frames: list[Frame]) -> list[Frame]:
        passed: list[Frame] = []
        for frame in frames:
            if b".2]" in frame:
                held.append(frame)
            else:
                passed += [frame, *held]
                held.clear()
        return passed

    _spoil(monkeypatch, swap)
    assert "events: out of order or lost" in _kinds(_say(5))


def test_oracles_find_a_missing_response(monkeypatch: pytest.MonkeyPatch) -> None:
    _spoil(monkeypatch, lambda frames: [frame for frame in frames if b"stopReason" not in frame])
    found = play(_say(5))
    assert found.kind is not None
    assert found.kind.startswith("stuck in accord.client.")


def test_oracles_find_a_wrong_stop_reason_after_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    _spoil(monkeypatch, lambda frames: [f.replace(b'"cancelled"', b'"end_turn"') for f in frames])
    program = _say(5)
    program.clients[0].actors[0].steps[0].cancel_at = 3  # type: ignore[union-attr]
    assert _kinds(program) == {"a cancelled turn ends in another reason"}


def test_oracles_find_a_leaked_task(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[asyncio.Task[None]] = []

    def leave(frames: list[Frame]) -> list[Frame]:
        left.append(asyncio.get_running_loop().create_task(asyncio.sleep(9999)))
        return frames

    _spoil(monkeypatch, leave)
    assert _kinds(_say(1)) == {"tasks are left after the end"}


def test_oracles_find_a_backlog_counter_that_never_falls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Backlog, "remove", lambda self, size: None)
    monkeypatch.setattr(Backlog, "clear", lambda self: None)
    assert "messages are counted as waiting though none waits" in _kinds(_say(5))


def test_oracles_find_a_backlog_over_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backlogs, "_fail", lambda self, backlog, what, limit: None)
    program = _say(50)
    program.clients[0].waiting = program.clients[0].max_waiting = 5
    step = program.clients[0].actors[0].steps[0]
    step.pace_s, step.paced = 1.0, 50  # type: ignore[union-attr]
    assert "a backlog exceeds its bound" in _kinds(program)


def test_failing_program_is_minimized(monkeypatch: pytest.MonkeyPatch) -> None:
    _spoil(monkeypatch, lambda frames: [frame for frame in frames if b".2]" not in frame])
    program = _say(40, p.Tool([p.Stream(3)]), p.Plan())
    program.clients[0].actors.append(p.Actor([p.New(), p.Wait(3.0)]))
    smaller = minimize(program, "transcript: lost")
    assert len(msgspec.json.encode(smaller)) < 150
    assert len(smaller.clients[0].actors) == 1


def test_loop_reports_a_deadlock() -> None:
    loop = SimulatedLoop(random.Random(1))
    waiting = loop.create_task(asyncio.Event().wait())
    with pytest.raises(Stuck):
        loop.run_until_complete(waiting)
    loop.abandon()


def test_virtual_time_passes_without_waiting() -> None:
    loop = SimulatedLoop(random.Random(1))
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == 1000.0 + 3600
    loop.close()


@pytest.fixture
def closing_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for a peer that does not read: the contract runs by the real clock."""
    monkeypatch.setattr("simulation.network._FLUSH_S", 0.2)


@pytest.mark.usefixtures("closing_is_quick")
class TestSimulatedTransport(TransportContract):
    async def pair(self, frame_bytes: int = FRAME_BYTES) -> tuple[Transport, Transport]:
        return link(Network(frame_bytes=frame_bytes), random.Random(1))


@pytest.mark.usefixtures("closing_is_quick")
class TestSimulatedTransportInSmallPieces(TransportContract):
    async def pair(self, frame_bytes: int = FRAME_BYTES) -> tuple[Transport, Transport]:
        return link(Network(frame_bytes=frame_bytes, piece_bytes=7000), random.Random(2))


async def test_disconnect_ends_both_sides() -> None:
    from accord.testing import Recorder
    from simulation.network import Cut

    cut = Network(cut=Cut(kind="reset", side="agent", after_bytes=10))
    ends = link(cut, random.Random(1))
    heard = Recorder(), Recorder()
    for end, recorder in zip(ends, heard, strict=True):
        await end.start(recorder)
    ends[1].write([b"x" * 100])
    for recorder in heard:
        await recorder.until(lambda recorder=recorder: recorder.ended)
        assert isinstance(recorder.ends[0], ConnectionLost)
    for end in ends:
        await end.aclose()
