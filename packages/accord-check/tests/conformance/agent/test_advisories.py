"""Advisories: behaviour that no rule forbids is reported, and the worst of it fails the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import Settings
from accord_conformance.reports.report import RunResult, ScenarioResult, verdict
from conformance.agent.filtered_agent import (
    PROMPTS,
    FilteredTransport,
    Json,
    MessageFilter,
    StableProvidersAgent,
    broken,
)
from conformance.agent.turn_doubles import allowing

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


async def play(
    make: type[MessageFilter], name: str, version: int
) -> tuple[ScenarioResult, RunResult]:
    chosen = [one for one in agent_scenarios() if one.name == name]

    def connect(noise: Callable[[str], None]) -> FilteredTransport:
        return FilteredTransport(make, StableProvidersAgent())

    settings = Settings(timeout=5.0, answer=5.0, prompts=dict(PROMPTS))
    result = await AgentRun(connect, chosen, settings).run((version,))
    (played,) = result.scenario_results
    return played, result


class Asking(MessageFilter):
    """Names the file in its permission request, and does something when it is rejected."""

    cwd = ""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/new":
            self.cwd = message["params"]["cwd"]
        asked = self.asked.get(repr(message.get("id")), {})
        if "result" in message and asked.get("method") == "session/request_permission":
            return self.on_rejection(asked["params"]["sessionId"], message)
        return message

    def down(self, message: Json) -> Json | None:
        text: Any = message.get("params")
        if isinstance(text, dict) and ("toolCall" in text or "subject" in text):
            tool = (text.get("subject") or text)["toolCall"]
            tool["rawInput"] = {"command": "touch made.txt", "file": "made.txt"}
        return message

    def on_rejection(self, session: str, answer: Json) -> Json | None:
        """Do something; return the response to forward."""
        return answer


@BOTH
async def test_agent_that_asks_and_obeys_has_no_advisory(version: int) -> None:
    played, result = await play(Asking, "permissions/reject", version)
    assert (played.outcome, played.reason) == ("finished", "")
    assert result.failed_scenarios == []


class MakesTheFile(Asking):
    """Creates the rejected file."""

    def on_rejection(self, session: str, answer: Json) -> Json | None:
        Path(self.cwd, "made.txt").touch()
        return answer


@BOTH
async def test_creating_a_rejected_file_is_an_error(version: int) -> None:
    played, result = await play(MakesTheFile, "permissions/reject", version)
    assert played.outcome == "wrong"
    assert "a new file made.txt" in played.reason
    assert "allows it" in played.advice
    assert played.frames
    assert result.failed_scenarios == [played]
    assert broken(result) == {}


class MakesOthers(Asking):
    """Creates files that it did not ask about."""

    def on_rejection(self, session: str, answer: Json) -> Json | None:
        for name in ("notes.log", "made", "made.txt.bak", "unmade.txt", "t"):
            Path(self.cwd, name).touch()
        return answer


@BOTH
async def test_files_without_a_permission_request_are_not_evidence(version: int) -> None:
    played, _ = await play(MakesOthers, "permissions/reject", version)
    assert (played.outcome, played.reason) == ("finished", "")


class UsesTheClient(Asking):
    """Uses the client for the rejected action."""

    method = ""
    params: Json = {}

    def on_rejection(self, session: str, answer: Json) -> Json | None:
        params = {"sessionId": session, **self.params}
        if "path" in params:
            params["path"] = f"{self.cwd}/{params['path']}"
        self.tell({"id": "own", "method": self.method, "params": params})
        # The turn continues when the client has responded.
        self.held = answer
        return None

    def up(self, message: Json) -> Json | None:
        if message.get("id") == "own":
            return self.held
        return super().up(message)


class WritesByTheClient(UsesTheClient):
    method = "fs/write_text_file"
    params = {"path": "made.txt", "content": ""}


class RunsByTheClient(UsesTheClient):
    method = "terminal/create"
    params = {"command": "touch", "args": ["made.txt"]}


class LooksByTheClient(UsesTheClient):
    method = "terminal/create"
    params = {"command": "true", "args": ["made.txt"]}


@pytest.mark.parametrize("make", [WritesByTheClient, RunsByTheClient])
async def test_using_the_client_for_a_rejected_action_is_an_error(
    make: type[MessageFilter],
) -> None:
    played, result = await play(make, "permissions/reject", 1)
    assert played.outcome == "wrong"
    assert played.reason.count(make.method) == 1  # type: ignore[attr-defined]  # both have it
    assert any(b'"own"' in frame.text for frame in played.frames)
    assert result.failed_scenarios == [played]


async def test_read_only_command_is_not_evidence() -> None:
    played, _ = await play(LooksByTheClient, "permissions/reject", 1)
    assert played.outcome == "finished"


class SaysItIsDone(Asking):
    """Reports a rejected call as completed."""

    def on_rejection(self, session: str, answer: Json) -> Json | None:
        return allowing(self, answer) or answer


@BOTH
async def test_status_alone_is_an_advisory(version: int) -> None:
    played, result = await play(SaysItIsDone, "permissions/reject", version)
    assert played.outcome == "advised"
    assert "completed" in played.reason
    assert "`failed`" in played.advice
    assert played.frames
    assert result.failed_scenarios == []


class SaysThatItBegins(Asking):
    """Reports a call as in progress when the rejection is about to arrive."""

    def on_rejection(self, session: str, answer: Json) -> Json | None:
        params = self.asked[repr(answer["id"])]["params"]
        tool = (params.get("subject") or params)["toolCall"]["toolCallId"]
        told = {"toolCallId": tool, "status": "in_progress"}
        self.update(session, sessionUpdate="tool_call_update", **told)
        return answer


@BOTH
async def test_rejected_call_that_fails_in_the_end_is_not_reported(version: int) -> None:
    played, _ = await play(SaysThatItBegins, "permissions/reject", version)
    assert (played.outcome, played.reason) == ("finished", "")


class SaysItIsDoneAlways(SaysItIsDone):
    """Reports all calls as completed, and runs those that are not clearly rejected."""

    takes_unknown = True

    def on_rejection(self, session: str, answer: Json) -> Json | None:
        chosen = answer["result"]["outcome"]
        option = chosen.get("optionId") if chosen["outcome"] == "selected" else "unknown"
        known = option in ("reject_once", "allow_once")
        if option == "allow_once" or (self.takes_unknown and not known):
            Path(self.cwd, "made.txt").touch()
        return super().on_rejection(session, answer)


class KnowsWhatItDoes(SaysItIsDoneAlways):
    """Reports all calls as completed, and runs those that are allowed."""

    takes_unknown = False


@BOTH
async def test_file_is_evidence_where_the_status_is_not(version: int) -> None:
    _, result = await play(SaysItIsDoneAlways, "permissions/invalid-response", version)
    assert set(broken(result)) == {"R-PERM-05"} | ({"R-PERM-14"} if version == 2 else set())
    (told,) = broken(result)["R-PERM-05"]
    assert "a new file made.txt" in told


@BOTH
async def test_status_that_is_always_the_same_is_not_a_finding(version: int) -> None:
    played, result = await play(KnowsWhatItDoes, "permissions/invalid-response", version)
    assert played.outcome == "finished"
    assert broken(result) == {}
    assert "R-PERM-05" in result.reports[0].rules


class Dead(MessageFilter):
    """Fails in every turn."""

    code = -32603

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/prompt":
            self.refuse(message, self.code)
            return None
        return message


class Shut(Dead):
    """Requires a login."""

    code = -32000


@BOTH
async def test_agent_that_fails_in_every_turn_does_not_pass(version: int) -> None:
    played, result = await play(Dead, "prompts/text", version)
    assert played.outcome == "not exercised"
    assert "-32603" in played.reason
    (problem,) = result.model_problems
    assert "-32603" in problem
    assert "[env]" in problem
    assert verdict(result).status == 3
    assert broken(result) == {}


@BOTH
async def test_agent_that_requires_login_for_a_turn_is_not_wrong(version: int) -> None:
    played, _ = await play(Shut, "prompts/text", version)
    assert played.outcome == "not exercised"
