"""`AcpAgent` in Harbor, with the script agent in bubblewrap; run by test_frameworks.py."""

import asyncio
import json
import sys
from pathlib import Path

from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.result import TrialResult
from harbor.trial.trial import Trial

SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]
sys.path.insert(0, str(Path(__file__).parent))


def run(
    folder: Path, prompt: str, *, timeout_s: float = 60, **arguments: object
) -> tuple[TrialResult, list[str]]:
    """Run a trial; return its result, and its trajectory in short."""
    task = folder / "task"
    (task / "tests").mkdir(parents=True)
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (task / "instruction.md").write_text(prompt)
    (task / "task.toml").write_text(f'version = "1.0"\n[agent]\ntimeout_sec = {timeout_s}\n')
    (task / "tests" / "test.sh").write_text(
        "if [ -e /app/done.txt ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
    )
    agent = AgentConfig(
        import_path="accord_bridges.harbor:AcpAgent", kwargs={"command": SCRIPT, **arguments}
    )
    environment = EnvironmentConfig(import_path="in_harbor_environment:BoxEnvironment")
    config = TrialConfig(
        task=TaskConfig(path=task), trial_name="one", trials_dir=folder / "trials",
        agent=agent, environment=environment,
    )  # fmt: skip

    async def trial() -> TrialResult:
        return await (await Trial.create(config)).run()

    result = asyncio.run(trial())
    said: list[str] = []
    path = folder / "trials" / "one" / "agent" / "trajectory.json"
    if path.exists():
        for step in Trajectory.model_validate(json.loads(path.read_text())).steps:
            said += [str(step.message)] if step.message else []
            said += [f"{call.function_name}({call.arguments})" for call in step.tool_calls or []]
            said += (
                [f"= {one.content}" for one in step.observation.results] if step.observation else []
            )
    return result, said


def test_turn_is_a_trajectory_and_its_tokens_are_in_the_result(tmp_path: Path):
    result, said = run(tmp_path / "a", "permission 1", install="echo yes >/app/done.txt")
    assert said == [
        "permission 1", "script_thing({'thing': 1})", "= Thing 1 is done.", "1 of 1 allowed.",
    ]  # fmt: skip
    assert result.verifier_result.rewards == {"reward": 1.0}
    assert result.agent_result.metadata == {"stop_reason": "end_turn"}
    result, _ = run(tmp_path / "b", "tokens")
    used = result.agent_result
    assert (used.n_input_tokens, used.n_output_tokens, used.n_cache_tokens) == (20, 10, 4)


def test_rules_decide_permission_requests(tmp_path: Path):
    _, said = run(tmp_path, "permission 1", allow=["read"])
    assert said[-1] == "0 of 1 allowed."


def test_time_out_keeps_what_the_agent_did(tmp_path: Path):
    result, said = run(tmp_path, "wait forever", timeout_s=12)
    assert result.exception_info.exception_type == "AgentTimeoutError"
    assert said == ["wait forever", "Wait_forever({'seconds': None})"]


def test_agent_that_fails_is_the_exception_of_the_trial(tmp_path: Path):
    result, _ = run(tmp_path / "a", "exit 3")
    assert "ended with status 3" in result.exception_info.exception_message
    result, _ = run(tmp_path / "b", "x", command="no-such-agent --acp")
    assert "not found" in result.exception_info.exception_message
    result, _ = run(tmp_path / "c", "x", install="echo broken >&2; exit 4")
    assert "status 4: broken" in result.exception_info.exception_message
