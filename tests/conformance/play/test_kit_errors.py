"""A mistake in the kit is never the agent's success: it has an ending and an exit status."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accord.script_agent.agent import ScriptAgent
from accord_conformance.agent.client import Editor
from accord_conformance.agent.context import Stage
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.settings import Settings
from accord_conformance.harness.scenario import Scenario, scenario
from accord_conformance.judges.base import Judge
from accord_conformance.judges.observer import Observer
from accord_conformance.reports.html import html
from accord_conformance.reports.junit import junit
from accord_conformance.reports.markdown import markdown
from accord_conformance.reports.run_result import KIT_ERROR, Result, verdict
from accord_conformance.traffic.message import Call
from conformance.play.bent import Bend, Bent


@scenario("kit/mistaken")
async def mistaken(stage: Stage) -> None:
    """Something in the kit is wrong."""
    await stage.editor.new_session()
    raise AttributeError("'list' object has no attribute 'get'")


@scenario("kit/own-mistaken", own=True)
async def own_mistaken(stage: Stage) -> None:
    """Something in the kit is wrong, on a connection of its own."""
    await stage.initialized()
    raise TimeoutError("not that of the budget")


@scenario("kit/whole")
async def whole(stage: Stage) -> None:
    """Nothing is wrong."""
    await stage.editor.new_session()


async def run(*scenarios: Scenario[Stage]) -> Result:
    def connect(noise: Callable[[str], None]) -> Bent:
        return Bent(Bend, ScriptAgent())

    settings = Settings(timeout=5.0, answer=5.0)
    return await AgentRun(connect, scenarios, settings).run((1,))


async def test_scenario_that_fails_is_an_error_in_the_kit() -> None:
    result = await run(mistaken, own_mistaken, whole)
    played = {one.scenario: one for one in result.played}
    for name, error in (
        ("kit/mistaken", "AttributeError"),
        ("kit/own-mistaken", "TimeoutError"),
    ):
        assert played[name].ending == "error in the kit"
        assert error in played[name].reason
        assert "test_kit_errors.py" in played[name].traceback
    assert played["kit/whole"].ending == "finished"
    assert verdict(result).status == KIT_ERROR == 70
    assert verdict(result).words == "No verdict: 2 errors in the kit."


async def test_error_in_the_kit_is_in_every_report_with_its_traceback() -> None:
    result = await run(mistaken)
    said = result.as_json()
    assert said["exitStatus"] == KIT_ERROR
    (traceback,) = said["errorsInTheKit"]
    assert said["scenarios"][0]["traceback"] == traceback
    for report in (html, junit, markdown):
        text = report(result)
        assert "rror in the kit" in text
        assert "test_kit_errors.py" in text


class Mistaken(Judge):
    """A judge that fails at every request."""

    rules = ()

    def called(self, call: Call) -> None:
        raise KeyError(call.method)


async def test_judge_that_fails_is_an_error_in_the_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Observer.__init__, "__defaults__", ((Mistaken,),))
    result = await run(whole)
    assert "KeyError: 'initialize'" in "".join(result.errors)
    assert verdict(result).status == KIT_ERROR


async def test_mistake_of_what_serves_the_agent_is_an_error_in_the_kit() -> None:
    def fail(_: Call) -> None:
        raise ZeroDivisionError("division by zero")

    codes: list[object] = []

    @scenario("kit/serving")
    async def serving(stage: Stage) -> None:
        """The kit cannot answer a permission request."""
        editor: Editor = stage.editor
        editor.permission = fail
        prompted = editor.prompt(await editor.new_session(), "permission")
        await prompted.end()
        codes.extend(call.code for call in editor.line.calls)

    result = await run(serving)
    assert -32603 in codes
    assert -32602 not in codes
    assert "ZeroDivisionError" in "".join(result.faults)
    assert verdict(result).status == KIT_ERROR
