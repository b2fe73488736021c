"""An error in the conformance kit never counts as passed: it has an outcome and an exit status."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accord.script_agent.agent import ScriptAgent
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenario_client import ScenarioClient
from accord_conformance.agent.settings import Settings
from accord_conformance.harness import Scenario, scenario
from accord_conformance.judges.base import Judge
from accord_conformance.judges.observer import Observer
from accord_conformance.reports.formats import html, junit, markdown
from accord_conformance.reports.report import EXIT_KIT_ERROR, RunResult, verdict
from accord_conformance.traffic.message import Request
from conformance.agent.filtered_agent import FilteredTransport, MessageFilter


@scenario("kit/mistaken")
async def mistaken(stage: AgentContext) -> None:
    """Fails with an error of the kit."""
    await stage.client.new_session()
    raise AttributeError("'list' object has no attribute 'get'")


@scenario("kit/own-mistaken", isolated=True)
async def own_mistaken(stage: AgentContext) -> None:
    """Fails with an error of the kit, on a separate connection."""
    await stage.connect_initialized()
    raise TimeoutError("not that of the budget")


@scenario("kit/whole")
async def whole(stage: AgentContext) -> None:
    """Passes."""
    await stage.client.new_session()


async def run(*scenarios: Scenario[AgentContext]) -> RunResult:
    def connect(noise: Callable[[str], None]) -> FilteredTransport:
        return FilteredTransport(MessageFilter, ScriptAgent())

    settings = Settings(timeout=5.0, answer=5.0)
    return await AgentRun(connect, scenarios, settings).run((1,))


async def test_scenario_that_raises_is_a_kit_error() -> None:
    result = await run(mistaken, own_mistaken, whole)
    played = {one.scenario: one for one in result.scenario_results}
    for name, error in (("kit/mistaken", "AttributeError"), ("kit/own-mistaken", "TimeoutError")):
        assert played[name].outcome == "error in the kit"
        assert error in played[name].reason
        assert "test_kit_errors.py" in played[name].traceback
    assert played["kit/whole"].outcome == "finished"
    assert verdict(result).status == EXIT_KIT_ERROR == 70
    assert verdict(result).text == "No verdict: 2 errors in the kit."


async def test_kit_error_is_in_every_report_with_its_traceback() -> None:
    result = await run(mistaken)
    said = result.as_json()
    assert said["exitStatus"] == EXIT_KIT_ERROR
    (traceback,) = said["errorsInTheKit"]
    assert said["scenarios"][0]["traceback"] == traceback
    for report in (html, junit, markdown):
        text = report(result)
        assert "rror in the kit" in text
        assert "test_kit_errors.py" in text


class Mistaken(Judge):
    """A judge that raises at every request."""

    rules = ()

    def on_request(self, call: Request) -> None:
        raise KeyError(call.method)


async def test_judge_that_raises_is_a_kit_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Observer.__init__, "__defaults__", ((Mistaken,),))
    result = await run(whole)
    assert "KeyError: 'initialize'" in "".join(result.kit_errors)
    assert verdict(result).status == EXIT_KIT_ERROR


async def test_error_in_the_services_for_the_agent_is_a_kit_error() -> None:
    def fail(_: Request) -> None:
        raise ZeroDivisionError("division by zero")

    codes: list[object] = []

    @scenario("kit/serving")
    async def serving(stage: AgentContext) -> None:
        """The kit cannot answer a permission request."""
        editor: ScenarioClient = stage.client
        editor.permission_policy = fail
        prompted = editor.prompt(await editor.new_session(), "permission")
        await prompted.wait_for_end()
        codes.extend(call.code for call in editor.connection.requests)

    result = await run(serving)
    assert -32603 in codes
    assert -32602 not in codes
    assert "ZeroDivisionError" in "".join(result.run_errors)
    assert verdict(result).status == EXIT_KIT_ERROR
