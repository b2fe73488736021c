"""Agents that grade: real processes with the sandbox, the gateway and the limits of an attempt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accord_fleet import AgentGrader, AgentSpec, Limits
from accord_fleet.agents import AgentPool
from accord_fleet.gateway.providers import KNOWN_PROVIDERS, Provider
from accord_fleet.machine import Guards, ask_agent
from accord_fleet.sandbox.settings import SandboxSettings
from accord_fleet.types import GradedAttempt, Result, Times, Verdict
from coder.models.provider import Says, serve_provider
from fleet.running import RAW, results, task
from fleet.sandboxes import NEEDS_SANDBOX

AGENTS = str(Path(__file__).parent / "agents")
KEY = "sk-real-key-of-the-fleet"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the agents use signals of POSIX")


def judge(*words: str, **fields: object) -> AgentSpec:
    return AgentSpec(name="judge", command=(*RAW, *words), **fields)  # type: ignore[arg-type]


async def judged(
    *prompts: str,
    by: AgentSpec | None = None,
    timeout_s: float = 30,
    limits: Limits | None = None,
    **settings: object,
) -> list[Verdict]:
    """Let the judge grade an attempt with each of the prompts."""
    graded = AgentSpec(name="raw", command=RAW)
    tasks = [
        task(
            "write given text",
            name=f"t{number}",
            limits=limits,
            grader=AgentGrader(agent="judge", prompt=prompt, timeout_s=timeout_s),
        )
        for number, prompt in enumerate(prompts)
    ]
    done = await results(tasks, graded, others=[by or judge()], **settings)
    assert [each.status for each in done] == ["finished"] * len(tasks)
    return [each.verdict for each in done if each.verdict is not None]


@pytest.mark.parametrize(
    "mode", ["off", pytest.param("models", marks=NEEDS_SANDBOX)], ids=["outside", "sandbox"]
)
async def test_agent_that_grades_is_guarded_like_every_agent(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees the workspace only, and its requests go through the gateway, which counts them."""
    secret = tmp_path / "secret"
    secret.write_text("of the driver")
    monkeypatch.setenv("FLEET_KEY", KEY)
    env = KNOWN_PROVIDERS["anthropic"].env
    async with serve_provider(*(Says("A", tokens=(10, 1)) for _ in range(2))) as fake:
        provider = Provider(name="p", api="anthropic", base_url=fake.root, key="FLEET_KEY", env=env)
        first, second = await judged(
            f"judge model env=FLEET_KEY given {secret}",
            "judge model",
            by=judge(provider="p"),
            providers=(provider,),
            sandbox=SandboxSettings(mode=mode, read=(AGENTS,)),  # type: ignore[arg-type]
        )
        assert [each.headers["x-api-key"] for each in fake.requests] == [KEY] * 2
    assert first.error is None
    assert first.passed
    assert "message_stop" in first.details["model"]
    assert first.details["env=FLEET_KEY"] == "(unset)"
    if mode == "models":  # outside, an agent works in the folder of its process
        assert first.details["given"] == "text"
    expected = "FileNotFoundError" if mode == "models" else "of the driver"
    assert first.details[str(secret)] == expected
    # What it uses is neither that of the attempt nor that of the judge before it.
    assert [each.usage.total_tokens for each in (first, second)] == [11, 11]


async def test_model_calls_of_a_grader_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_KEY", KEY)
    env = KNOWN_PROVIDERS["anthropic"].env
    async with serve_provider(Says("A", tokens=(100, 20))) as fake:
        provider = Provider(name="p", api="anthropic", base_url=fake.root, key="FLEET_KEY", env=env)
        [verdict] = await judged(
            "judge model model model",
            by=judge(provider="p"),
            providers=(provider,),
            limits=Limits(tokens=110),
        )
        assert len(fake.requests) == 1
    assert verdict.passed is None
    assert verdict.error is not None
    assert "judge reached the limit tokens: The attempt has used 120 of 110" in verdict.error
    assert verdict.usage.total_tokens == 120


async def test_grader_that_dies_floods_or_eats_memory_is_an_error() -> None:
    """And the others grade."""
    limits = Limits(memory_bytes=80 * 2**20, output_bytes=2**20)
    died, flooded, ate, graded = await judged("die", "flood", "eat 160", "judge", limits=limits)
    assert graded == Verdict(passed=True)
    assert [each.passed for each in (died, flooded, ate)] == [None] * 3
    assert "out of luck" in str(died.error)
    assert "judge reached the limit output_bytes" in str(flooded.error)
    assert "judge reached the limit memory_bytes" in str(ate.error)


async def test_grader_that_hangs_is_ended() -> None:
    [hung] = await judged("hang", timeout_s=0.8)
    assert hung == Verdict(error="judge took more than 0.8 s")


async def test_grader_that_does_not_start_is_an_error() -> None:
    [verdict] = await judged("judge", by=AgentSpec(name="judge", command=("no-such-agent",)))
    assert "judge: Cannot start no-such-agent: not found in PATH" in str(verdict.error)


async def test_agent_that_grades_stays_warm_and_is_replaced_when_it_has_ended(
    tmp_path: Path,
) -> None:
    given = GradedAttempt(
        task=task("say"),
        workspace=tmp_path,
        result=Result(task="t1", agent="raw", status="finished", times=Times(started=0)),
    )
    pool = AgentPool(1)
    try:

        async def ask(prompt: str) -> str:
            answer = await ask_agent(pool, Guards(), spec, prompt, given, 20)
            assert answer.error is None
            return answer.text.partition(" ")[0]

        spec = judge()
        first = await ask("pid")
        assert await ask("pid") == first
        assert await ask("die-at session/new") == ""
        assert await ask("pid") not in (first, "")
        assert pool.started == 2
    finally:
        await pool.aclose()
