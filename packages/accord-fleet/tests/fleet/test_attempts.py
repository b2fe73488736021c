"""Attempts of real agent processes: what they yield when all is well, and when agents misbehave."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec import structs

from accord import Agent, Turn
from accord.client.permissions import allow
from accord_fleet import AgentSpec, Fleet, FleetError, Limits, LocalEngine, attempt
from accord_fleet.plan import RunSettings
from accord_fleet.run import Control
from accord_fleet.types import FunctionGrader, Permissions, Verdict, WorkItem
from accord_trace import open_trace
from fleet.running import RAW, SCRIPT, outcomes, raw, recorded, result, results, task

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the agents use signals of POSIX")


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_turns_usage_and_times_are_in_the_result() -> None:
    done = await result(task("say one", "tokens 30", "spend 0.5", "say last", tags=("x",)))
    assert (done.status, done.failure) == ("finished", None)
    assert done.stop_reasons == ("end_turn",) * 4
    assert done.answer == "last"
    assert (done.usage.total_tokens, done.usage.input_tokens) == (30, 29)
    assert (done.usage.cost, done.usage.currency) == (0.5, "USD")
    assert len(done.times.turns_s) == 4
    assert 0 < sum(done.times.turns_s) + done.times.start_s < done.times.wall_s
    assert (done.key, done.tags) == (("t1", "raw", 1), ("x",))
    assert done.machine.endswith(f":{os.getpid()}")


async def test_script_agent_in_both_versions() -> None:
    for version in (1, 2):
        agent = AgentSpec(name="script", command=SCRIPT, versions=(version,))
        done = await result(task("echo hello", "tools"), agent)
        assert (done.status, done.stop_reasons) == ("finished", ("end_turn", "end_turn"))
        assert done.tool_calls > 0


async def test_stderr_diff_and_workspace() -> None:
    done = await result(
        task("stderr a warning", "write new.txt hello", files={"given.txt": "x"}), raw(warm=False)
    )
    assert done.stderr == "a warning\n"
    assert done.files_changed == ("new.txt",)
    assert "+hello" in done.diff


async def test_each_recording_has_its_own_messages_and_the_handshake(tmp_path: Path) -> None:
    found = await outcomes([task(f"say {n}", name=f"t{n}") for n in range(2)])
    for number, attempted in enumerate(found):
        text = recorded(attempted).decode()
        path = tmp_path / f"{number}.acp.jsonl"
        path.write_text(text)
        methods = [record.method for record in open_trace(path)]
        assert methods[0] == "initialize"
        assert "session/prompt" in methods
        assert f"say {number}" in text
        assert f"say {1 - number}" not in text


async def test_a_large_recording_is_not_in_memory(tmp_path: Path) -> None:
    text = random.Random(7).randbytes(100_000).hex()
    [attempted] = await outcomes([task(f"say {text}")], recordings=str(tmp_path))
    assert isinstance(attempted.trace, Path)
    assert attempted.trace.parent == tmp_path
    assert recorded(attempted).count(text.encode()) >= 2  # in the prompt and in the answer


async def test_a_grader_gets_the_whole_recording(tmp_path: Path) -> None:
    (tmp_path / "grader.py").write_text(
        "import gzip\n"
        "def graded(attempt):\n"
        "    return b'end_turn' in gzip.decompress(attempt.trace.read_bytes())\n"
    )
    grader = FunctionGrader(function=f"{tmp_path}/grader.py:graded")
    done = await result(task("say hello", grader=grader))
    assert done.verdict == Verdict(passed=True)


# Warm agents.


async def test_a_process_serves_several_attempts_in_new_sessions() -> None:
    done = await results([task("pid", name=f"t{n}") for n in range(3)])
    pids, prompts, sessions = zip(*(one.answer.split() for one in done), strict=True)
    assert len(set(pids)) == 1
    assert (prompts, sessions) == (("1", "2", "3"), ("1", "2", "3"))


@pytest.mark.parametrize(
    "bad",
    [
        "refuse",
        "error no",
        "die",
        "children",
        "children apart",
        "die-at session/close",
        "die-at session/new",
    ],
)
async def test_a_process_that_may_be_changed_is_not_used_again(bad: str) -> None:
    done = await results([task("pid", name="t1"), task(bad, name="t2"), task("pid", name="t3")])
    assert done[2].failure is None
    before, after = done[0].answer.split()[0], done[2].answer.split()[0]
    if bad == "refuse":
        assert before == after
    else:
        assert before != after
        assert not is_running(int(before))


async def test_another_environment_needs_another_process() -> None:
    done = await results(
        [task("env COLOR", name=f"t{n}", env={"COLOR": color}) for n, color in enumerate("ab")]
    )
    assert [one.answer for one in done] == ["a", "b"]


async def test_agents_that_are_not_warm_start_in_their_workspace() -> None:
    done = await results([task("cwd", name=f"t{n}") for n in range(2)], raw(warm=False))
    assert len({one.answer for one in done}) == 2
    warm = await results([task("cwd", name=f"t{n}") for n in range(2)])
    assert len({one.answer for one in warm}) == 1


async def test_agent_that_removes_its_folder_does_not_keep_others_from_starting() -> None:
    # What the first attempt leaves running makes the second one start another process.
    done = await results([task("children", "remove-cwd", name="t1"), task("cwd", name="t2")])
    assert [(one.status, one.failure) for one in done] == [("finished", None)] * 2
    first, second = (Path(one.answer) for one in done)
    assert first.parent == second.parent
    assert first != second
    assert not first.parent.exists()


# Agents that misbehave.


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("no-such-program-anywhere",), ["no-such-program-anywhere"]),
        ((*RAW, "exit"), ["status 7", "no license"]),
        ((sys.executable, "-c", "print('hello')"), ["exited with status 0"]),
    ],
)
async def test_an_agent_that_does_not_start(command: tuple[str, ...], words: list[str]) -> None:
    done = await result(task("say hi"), AgentSpec(name="bad", command=command))
    assert done.status == "failed"
    assert done.failure is not None
    assert done.failure.where == "start"
    assert "Expected bad to answer `initialize`" in done.failure.message
    assert all(word in done.failure.message for word in words)


async def test_an_agent_without_sessions() -> None:
    done = await result(task("say hi"), raw("no-session"))
    assert done.failure is not None
    assert done.failure.where == "session"
    assert "Log in first" in done.failure.message


async def test_a_mode_that_does_not_exist() -> None:
    done = await result(task("say hi", mode="turbo"))
    assert done.failure is not None
    assert (done.failure.where, "mode" in done.failure.message) == ("session", True)


async def test_an_agent_that_dies_in_a_turn() -> None:
    done = await result(task("die 5"))
    assert done.failure is not None
    assert (done.status, done.failure.where) == ("failed", "agent_exit")
    assert "status 5" in done.failure.message
    assert done.stderr == "out of luck\n"
    assert done.answer == "about to die"


async def test_an_agent_that_closes_its_output() -> None:
    done = await result(task("close-output"))
    assert done.failure is not None
    assert done.failure.where == "agent_exit"


async def test_an_error_of_a_turn() -> None:
    done = await result(task("error out of money", "say unreached"))
    assert done.failure is not None
    assert (done.failure.where, done.stop_reasons) == ("turn", ())
    assert "out of money" in done.failure.message


@pytest.mark.parametrize("words", [[], ["stubborn"]])
async def test_an_agent_that_hangs_is_ended(words: list[str]) -> None:
    done = await result(task("hang", limits=Limits(turn_s=1.5)), raw(*words))
    assert done.failure is not None
    assert (done.status, done.failure.limit) == ("limit", "turn_s")
    assert "1.5 s" in done.failure.message
    assert done.answer == "hanging"


async def test_a_turn_at_its_limit_is_cancelled_properly() -> None:
    [attempted] = await outcomes([task("wait", limits=Limits(turn_s=0.1))], cancel_s=40.0)
    assert attempted.result.status == "limit"
    assert attempted.result.stop_reasons == ("cancelled",)
    assert attempted.result.times.turns_s[0] < 40


async def test_the_wall_limit_includes_the_start() -> None:
    done = await result(task("say hi", limits=Limits(wall_s=0.2)), raw("silent"))
    assert done.failure is not None
    assert (done.status, done.failure.limit) == ("limit", "wall_s")


@pytest.mark.parametrize("command", ["flood", "flood-line", "flood-noise", "flood-stderr"])
async def test_an_agent_that_floods_is_ended(command: str) -> None:
    limits = Limits(output_bytes=1_000_000, wall_s=20)
    done = await result(task(command, limits=limits))
    assert done.failure is not None
    assert (done.status, done.failure.limit) == ("limit", "output_bytes"), done.failure
    assert "1000000 bytes" in done.failure.message


@pytest.mark.parametrize("how", ["children", "children apart"])
async def test_children_of_an_agent_are_ended(how: str) -> None:
    done = await result(task(how))
    assert done.status == "finished"
    assert not is_running(int(done.answer))


async def test_limits_of_tokens_and_cost() -> None:
    tokens, cost = await results(
        [
            task("tokens 60", "tokens 60", "say unreached", name="t1", limits=Limits(tokens=100)),
            task("spend 0.5", "spend 200", name="t2", limits=Limits(cost=1.0)),
        ],
        cancel_s=40.0,
    )
    assert tokens.failure is not None
    assert (tokens.failure.limit, len(tokens.stop_reasons)) == ("tokens", 2)
    assert "120 tokens of 100" in tokens.failure.message
    assert cost.failure is not None
    assert (cost.failure.limit, cost.stop_reasons) == ("cost", ("end_turn", "cancelled"))


async def test_limits_of_tool_calls_and_changed_files() -> None:
    calls, files, both = await results(
        [
            task("changes 9", name="t1", limits=Limits(tool_calls=2)),
            task("changes 2", "changes 9", name="t2", limits=Limits(changed_files=4)),
            task("changes 2", name="t3", limits=Limits(tool_calls=2, changed_files=2)),
        ],
        cancel_s=40.0,
    )
    assert calls.failure is not None
    assert (calls.status, calls.failure.limit) == ("limit", "tool_calls")
    assert "3 tool calls of 2 tool calls" in calls.failure.message
    assert files.failure is not None
    assert (files.failure.limit, files.stop_reasons) == ("changed_files", ("end_turn", "cancelled"))
    assert both.status == "finished"


async def test_an_agent_that_does_not_report_what_is_limited_is_refused() -> None:
    limited = task("tokens 60", limits=Limits(tokens=100, cost=1.0))
    spec = raw("unmetered")
    refused = await result(limited, spec)
    assert refused.failure is not None
    assert (refused.status, refused.failure.where) == ("failed", "start")
    assert f"The agent {spec.name!r} is not known to report its tokens and cost" in (
        refused.failure.message
    )
    allowed = await result(limited, structs.replace(spec, unmetered=True))
    assert allowed.status == "finished"


async def test_permissions_are_those_of_the_task_then_those_of_the_run() -> None:
    denied = Permissions(deny=("edit",))
    tasks = [task("edit", name="t1"), task("edit", name="t2", permissions=denied)]
    by_run, by_task = await results(tasks, policy=(allow("*"),))
    by_default = await result(task("edit"))
    assert [one.answer for one in (by_run, by_task, by_default)] == [
        "allow_once",
        "reject_once",
        "reject_once",
    ]


async def test_a_bug_in_one_attempt_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempt, "mcp_servers", lambda servers: 1 / len(tuple(servers)))
    server = {"name": "x", "command": "/bin/true", "args": [], "env": []}
    done = await results(
        [task("say hi", name="t1"), task("say hi", name="t2", mcp_servers=(server,))]
    )
    assert done[0].failure is not None
    assert done[0].failure.where == "engine"
    assert "ZeroDivisionError" in done[0].failure.message


async def test_cancelled_attempts_end_their_turns() -> None:
    control = Control()
    items = [
        WorkItem(task=task(words, name=f"t{n}"), agent="raw")
        for n, words in enumerate(["say first", "wait", "say never"])
    ]
    found = []
    async for attempted in LocalEngine(1).run(items, RunSettings(agents=(raw(),)), control):
        found.append(attempted.result)
        if len(found) == 1:
            asyncio.get_running_loop().call_later(0.2, control.cancel)
    assert [one.status for one in found] == ["finished", "cancelled"]


async def test_agents_of_python_run_in_this_process_with_the_limits_of_the_fleet() -> None:
    class Polite(Agent):
        async def prompt(self, turn: Turn) -> None:
            await turn.say(f"pid {os.getpid()}")

    fleet = Fleet([Polite, raw()], limits=Limits(turn_s=1.5), engine=LocalEngine(2))
    found = {one.agent: one async for one in fleet.run([task("wait", name="t1")])}
    assert found["Polite"].answer == f"pid {os.getpid()}"
    assert found["raw"].failure is not None
    assert found["raw"].failure.limit == "turn_s"


def test_agents_of_a_fleet_have_different_names() -> None:
    with pytest.raises(FleetError, match="different names, got raw, raw"):
        Fleet([raw(), raw()])


async def test_engine_ends_when_its_caller_takes_nothing_more() -> None:
    """Each agent has an outcome that nobody takes, and the engine is closed."""
    names = [f"t{number}" for number in range(8)]
    items = [WorkItem(task=task("say one", name=name), agent="raw") for name in names]
    all_started = asyncio.Event()

    def watched() -> Iterator[WorkItem]:
        for number, item in enumerate(items):
            if number == 5:
                all_started.set()
            yield item

    outcomes = LocalEngine(4).run(watched(), RunSettings(agents=(raw(),)), Control())
    async with asyncio.timeout(20):
        async with aclosing(outcomes):
            assert (await anext(outcomes)).result.status == "finished"
            await all_started.wait()
