"""A scenario whose turns do not do what their prompts ask for is not exercised."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from accord.program import main
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import PROMPTS as DEFAULTS
from accord_conformance.agent.settings import Settings
from accord_conformance.reports.formats import FORMATS, report_bytes
from accord_conformance.reports.report import RunResult, ScenarioResult, verdict
from accord_conformance.rules.manifest import requirements, select_scenarios
from conformance.agent.filtered_agent import (
    PROMPTS,
    FilteredTransport,
    Json,
    MessageFilter,
    StableProvidersAgent,
)
from needs import needs
from requirement import requirement

# Scenarios whose prompts have a purpose, and what is missing if the agent only ends its turns.
MISSED = {
    "prompts/text": "the agent sent no message",
    "prompts/tool": "the agent reported no tool call",
    "permissions/allow": "the agent did not request permission",
    "files/read": "the agent did not report the text of the file",
    "files/write": "no file was written: the turn ended with end_turn",
    "terminals/run": "no command was run: the turn ended with end_turn",
    "elicitation/accept": "the agent sent no elicitation",
    "background/subagent": "the agent reported no subagent",
}


class DoesNothing(MessageFilter):
    """Ends each turn at once."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") != "session/prompt":
            return message
        self.work(message, message["params"]["sessionId"])
        if self.calls_version == 1:
            self.answer(message, {"stopReason": "end_turn"})
            return None
        self.answer(message, {"messageId": f"m{message['id']}"})
        session = message["params"]["sessionId"]
        for state in ({"state": "running"}, {"state": "idle", "stopReason": "end_turn"}):
            self.update(session, sessionUpdate="state_update", **state)
        return None

    def work(self, message: Json, session: str) -> None:
        """Report something, or nothing."""

    @property
    def calls_version(self) -> int:
        first = next(call for call in self.calls.values() if call["method"] == "initialize")
        return first["params"]["protocolVersion"]


class FailsToWrite(DoesNothing):
    """Reports a write that failed, as an agent does that could not read the file before."""

    def work(self, message: Json, session: str) -> None:
        call: dict[str, Any] = {"toolCallId": "w1", "title": "Write written.txt", "kind": "edit"}
        kind = "tool_call" if self.calls_version == 1 else "tool_call_update"
        self.update(session, sessionUpdate=kind, status="pending", **call)
        self.update(session, sessionUpdate="tool_call_update", toolCallId="w1", status="failed")


async def outcomes(make: type[MessageFilter], version: int, *names: str) -> dict[str, Any]:
    """Run some scenarios; return their results by name."""
    settings = Settings(timeout=5.0, answer=5.0, login="script", prompts=dict(PROMPTS))
    run = AgentRun(
        lambda _: FilteredTransport(make, StableProvidersAgent()),
        select_scenarios(names, agent_scenarios()),
        settings,
    )
    result: RunResult = await run.run((version,))
    assert result.kit_errors == []
    return {one.scenario: one for one in result.scenario_results}


@pytest.mark.parametrize("version", [1, 2])
async def test_agent_that_does_nothing_exercises_no_purpose(version: int) -> None:
    found: dict[str, ScenarioResult] = await outcomes(DoesNothing, version, *MISSED)
    for name, missing in MISSED.items():
        assert found[name].outcome == "not exercised", found[name]
        assert missing in found[name].reason


@pytest.mark.parametrize("version", [1, 2])
async def test_agent_that_does_all_exercises_every_purpose(version: int) -> None:
    found = await outcomes(MessageFilter, version, *MISSED)
    assert {one.outcome for one in found.values()} == {"finished"}, found


@pytest.mark.parametrize("version", [1, 2])
async def test_failed_write_is_not_a_write(version: int) -> None:
    found = await outcomes(FailsToWrite, version, "files/write")
    assert found["files/write"].outcome == "not exercised"
    assert found["files/write"].reason == (
        'no file was written: the tool call "Write written.txt" failed'
    )


def test_default_prompts_have_the_absolute_path_of_their_directory() -> None:
    relative = {
        purpose
        for purpose, (_, words) in DEFAULTS.items()
        if any(name in words for name in ("directory", ".txt")) and "{folder}" not in words
    }
    assert relative == {"file_read"}  # the agent has to know the directory of the session


async def test_prompt_names_the_directory_of_its_session() -> None:
    seen: list[tuple[str, str]] = []

    class Reads(MessageFilter):
        cwd = ""

        def up(self, message: Json) -> Json | None:
            if message.get("method") == "session/new":
                self.cwd = message["params"]["cwd"]
            if message.get("method") == "session/prompt":
                seen.append((self.cwd, message["params"]["prompt"][0]["text"]))
            return message

    settings = Settings(
        login="script", prompts=dict(PROMPTS, file_write="echo {folder}/written.txt")
    )
    run = AgentRun(
        lambda _: FilteredTransport(Reads, StableProvidersAgent()),
        select_scenarios(["files/write"], agent_scenarios()),
        settings,
    )
    await run.run((1,))
    ((cwd, words),) = seen
    assert Path(cwd).is_absolute()
    assert words == f"echo {cwd}/written.txt"


class HasNoModel(MessageFilter):
    """Fails each prompt."""

    fails_in_its_turn = False

    def up(self, message: Json) -> Json | None:
        if message.get("method") != "session/prompt":
            return message
        session = message["params"]["sessionId"]
        if self.fails_in_its_turn:
            self.answer(message, {"messageId": f"m{message['id']}"})
            words = message["params"]["prompt"]
            ident = f"m{message['id']}"
            self.update(session, sessionUpdate="user_message", messageId=ident, content=words)
            self.update(session, sessionUpdate="state_update", state="running")
            error = {"code": -32603, "message": "no key"}
            end = {"state": "idle", "stopReason": "error", "error": error}
            self.update(session, sessionUpdate="state_update", **end)
        else:
            self.refuse(message, -32603)
        return None


class FailsInItsTurn(HasNoModel):
    fails_in_its_turn = True


class FailsWhileAPromptIsHeld(HasNoModel):
    """Holds the second prompt until the first turn has failed, just before the cancel arrives."""

    held: Json | None = None

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "$/cancel_request" and self.held is not None:
            held, self.held = self.held, None
            session = held["params"]["sessionId"]
            error = {"code": -32603, "message": "no key"}
            end = {"state": "idle", "stopReason": "error", "error": error}
            self.update(session, sessionUpdate="state_update", **end)
            self.answer(held, {"messageId": "second"})
            return None
        if message.get("method") != "session/prompt":
            return message
        if "held" in message["params"]["prompt"][0]["text"]:
            self.held = message
            return None
        self.answer(message, {"messageId": "first"})
        session = message["params"]["sessionId"]
        self.update(session, sessionUpdate="state_update", state="running")
        return None


async def test_prompt_whose_turn_failed_before_the_cancel_is_not_judged() -> None:
    settings = Settings(
        timeout=5.0, answer=5.0, login="script", prompts=dict(PROMPTS, text="held", long="long")
    )
    result = await AgentRun(
        lambda _: FilteredTransport(FailsWhileAPromptIsHeld, StableProvidersAgent()),
        select_scenarios(["prompts/held"], agent_scenarios()),
        settings,
    ).run((2,))
    (played,) = result.scenario_results
    assert (played.outcome, played.reason) == (
        "not exercised",
        "the turn failed before the held prompt could be cancelled",
    )
    assert "R-PROMPT-27" not in {rule for rule, _ in result.failed_rules(strict=True)}


class CancelsEachFailure(HasNoModel):
    """Fails each prompt, but a cancelled one ends as cancelled."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/prompt" and "folder" in str(message["params"]):
            self.answer(message, {"stopReason": "cancelled"})
            return None
        return super().up(message)


async def test_cancelled_turn_does_not_show_that_there_is_a_model() -> None:
    settings = Settings(
        timeout=5.0, answer=5.0, login="script", prompts=dict(PROMPTS, tool="folder")
    )
    result = await AgentRun(
        lambda _: FilteredTransport(CancelsEachFailure, StableProvidersAgent()),
        select_scenarios(["prompts/text", "prompts/tool"], agent_scenarios()),
        settings,
    ).run((1,))
    assert verdict(result).status == 3


class FailsOnlyPlainPrompts(HasNoModel):
    def up(self, message: Json) -> Json | None:
        prompt = message.get("params", {}).get("prompt")
        return super().up(message) if prompt and "hello" in prompt[0].get("text", "") else message


async def run_prompts(make: type[MessageFilter], version: int) -> RunResult:
    """Run the scenarios about prompts."""
    settings = Settings(timeout=5.0, answer=5.0, login="script", prompts=dict(PROMPTS))
    return await AgentRun(
        lambda _: FilteredTransport(make, StableProvidersAgent()),
        select_scenarios(["prompts/text", "prompts/tool"], agent_scenarios()),
        settings,
    ).run((version,))


@pytest.mark.parametrize(
    ("make", "version"), [(HasNoModel, 1), (HasNoModel, 2), (FailsInItsTurn, 2)]
)
async def test_agent_that_fails_every_prompt_has_no_model(
    make: type[MessageFilter], version: int
) -> None:
    result = await run_prompts(make, version)
    assert verdict(result).status == 3
    assert verdict(result).text.startswith("No model: no turn was tested")
    (problem,) = result.model_problems
    assert "every prompt failed" in problem
    for form in FORMATS:
        assert b"prompt" in report_bytes(form, result)


async def test_agent_that_fails_only_some_prompts_fails_the_run() -> None:
    result = await run_prompts(FailsOnlyPlainPrompts, 1)
    assert result.model_problems == []
    assert [one.scenario for one in result.failed_scenarios] == ["prompts/text"]
    assert verdict(result).status == 1


@needs("accord_coder")
def test_demonstration_agent_ends_the_check_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = [sys.executable, "-m", "accord", "agent", "coder", "--model", "demo"]
    names = ("prompts/text", "prompts/held", "files/write", "permissions/reject", "terminals/run")
    only = [word for name in names for word in ("--only", name)]
    status = main(["check", "agent", *only, "--", *agent])
    out = capsys.readouterr().out
    assert status == 3, out
    assert "No model: no turn was tested" in out


@requirement("R-PERM-20")
@pytest.mark.parametrize("version", [1, 2])
async def test_permission_request_for_a_command_shows_it(version: int) -> None:
    settings = Settings(login="script", prompts=dict(PROMPTS))
    result = await AgentRun(
        lambda _: FilteredTransport(MessageFilter, StableProvidersAgent()),
        select_scenarios(["permissions/allow"], agent_scenarios()),
        settings,
    ).run((version,))
    assert result.reports[0].outcome(requirements()["R-PERM-20"]) == "passed"
