"""A run continues if the agent does not respond, exits, or requires a login."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from accord.errors import StartError
from accord.script_agent.agent import ScriptAgent
from accord.transports.base import Transport
from accord.transports.process import process
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import Settings
from accord_conformance.reports.report import RunResult
from conformance.agent.filtered_agent import PROMPTS, FilteredTransport, Json, MessageFilter
from conformance.agent.session_doubles import AnswersAnswers
from quirk import quirk
from requirement import requirement


async def run(
    make: type[MessageFilter],
    *names: str,
    versions: tuple[int, ...] = (1,),
    seconds: float = 20.0,
    settings: Settings | None = None,
) -> RunResult:
    """Run scenarios with an agent behind a filter."""
    settings = settings or Settings(timeout=seconds, answer=seconds, prompts=dict(PROMPTS))
    chosen = [one for one in agent_scenarios() if one.name in names]

    def connect(noise: Callable[[str], None]) -> FilteredTransport:
        return FilteredTransport(make, ScriptAgent())

    return await AgentRun(connect, chosen, settings).run(versions)


class Mute(MessageFilter):
    """Responds to nothing."""

    def down(self, message: Json) -> Json | None:
        return None


async def test_agent_that_never_responds_is_not_checked() -> None:
    result = await run(Mute, "sessions/new", versions=(1, 2), seconds=0.3)
    assert result.reports == []
    assert "no response to initialize" in result.unsupported[1]
    assert "sent no response in the previous version" in result.unsupported[2]


async def test_output_that_is_not_a_message_is_reported() -> None:
    chatty = [sys.executable, "-c", "import sys; print('Welcome!', flush=True); sys.stdin.read()"]

    def connect(noise: Callable[[str], None]) -> Transport:
        return process(*chatty, on_stdout_noise=noise)()

    result = await AgentRun(connect, (), Settings(timeout=1.0, answer=1.0)).run((1,))
    assert (
        result.unsupported[1] == "initialize failed: no response to initialize; it wrote 'Welcome!'"
    )


async def test_prompts_of_the_settings_exercise_more_rules() -> None:
    name, settings = "prompts/additional", Settings(timeout=5.0, more=["plan", "notice warning"])
    result = await run(MessageFilter, name, versions=(1, 2), settings=settings)
    kept = [{rule for rule, one in report.rules.items() if one.passed} for report in result.reports]
    assert {"R-NOTICE-02", "R-PLAN-08"} < kept[0]
    assert {"R-NOTICE-02", "R-PLAN-07"} < kept[1]
    without = await run(MessageFilter, name, settings=Settings())
    assert [one.reason for one in without.scenario_results] == [
        "the settings have no additional prompts (`more`)"
    ]


CRASHING = """
import os, sys
print("Welcome!", flush=True)
print("Traceback: no such model", os.environ["MY_KEY"], file=sys.stderr)
raise SystemExit(3)
"""


def written(code: str, folder: str) -> str:
    program = Path(folder, "program.py")
    program.write_text(code)
    return str(program)


async def start(
    code: str,
    *names: str,
    settings: Settings | None = None,
    stop_times_s: tuple[float, float, float] = (2.0, 0.5, 2.0),
) -> RunResult:
    """Run the scenarios with a program of a few lines, in version 1."""
    settings = settings or Settings(timeout=5.0, answer=5.0, prompts=dict(PROMPTS))
    chosen = [one for one in agent_scenarios() if one.name in names]

    with TemporaryDirectory() as folder:
        program = written(code, folder)

        def connect(noise: Callable[[str], None]) -> Transport:
            return process(
                *(sys.executable, program),
                env=settings.env,
                on_stdout_noise=noise,
                stop_times_s=stop_times_s,
            )()

        return await AgentRun(connect, chosen, settings).run((1,))


async def test_exit_and_last_stderr_lines_of_a_crashed_agent_are_reported() -> None:
    settings = Settings(timeout=5.0, answer=5.0, env={"MY_KEY": "sk-123456"})
    result = await start(CRASHING, settings=settings)
    why = result.unsupported[1]
    assert "the peer disconnected; it exited with status 3; it wrote 'Welcome!'" in why
    assert why.endswith("the last lines of its stderr:\n    Traceback: no such model $MY_KEY")
    # What it wrote before is judged, too.
    assert result.failed_rules() == [("R-STDIO-04", 1)]
    assert result.supported == []
    assert [one.version for one in result.reports] == [1]


SHAPELESS = """
import json, sys
call = json.loads(sys.stdin.readline())
print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": {"name": "x"}}), flush=True)
sys.stdin.read()
"""


async def test_initialize_response_without_a_version_is_reported_and_judged() -> None:
    result = await start(SHAPELESS)
    assert 'no version was agreed: the agent answered {"name":"x"}' in result.unsupported[1]
    assert result.failed_rules()
    assert result.supported == []


LEAVING = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if call["method"] != "initialize":
        sys.exit("cannot log in")
    logins = [{"id": "key", "name": "Key"}]
    result = {"protocolVersion": 1, "authMethods": logins}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"""


async def test_agent_that_exits_at_the_login_is_reported() -> None:
    result = await start(LEAVING, settings=Settings(timeout=5.0, answer=5.0, login="key"))
    why = result.unsupported[1]
    assert "no response to authenticate: the peer disconnected; it exited with status 1" in why
    assert why.endswith("    cannot log in")


STAYING = """
import asyncio, signal, sys, time
from accord import roles
from accord.agent.agent import AgentConnection
from accord.agent.v1_role import AgentRoleV1
from accord.script_agent.agent import ScriptAgent
from accord.transports.stdio import stdio

signal.signal(signal.SIGTERM, signal.{how})
role = AgentRoleV1(AgentConnection(ScriptAgent(), max_sessions=9))
asyncio.run(roles.serve(stdio(restore=False), role))
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("how", "reported"),
    [("SIG_DFL", "it exited on SIGTERM"), ("SIG_IGN", "and was killed")],
    ids=["terminated", "killed"],
)
@quirk("stays-after-stdin")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")
async def test_agent_that_runs_on_without_stdin_has_an_advisory(how: str, reported: str) -> None:
    code = STAYING.format(how=how)
    result = await start(code, "shutdown/stdin-closed", stop_times_s=(0.5, 0.5, 2.0))
    (played,) = result.scenario_results
    assert played.outcome == "advised"
    assert "after its stdin was closed" in played.reason
    assert reported in played.reason
    assert "R-STDIO-07" in played.advice
    assert result.failed_scenarios == []


class MakesNoSession(MessageFilter):
    """Does not answer requests for a session."""

    def up(self, message: Json) -> Json | None:
        return None if message.get("method") == "session/new" else message


async def test_agent_that_opens_no_session_is_asked_only_a_few_times() -> None:
    names = [one.name for one in agent_scenarios() if one.area == "permissions"]
    result = await run(MakesNoSession, *names, seconds=0.3)
    endings = [one.outcome for one in result.scenario_results]
    assert endings == ["unfinished", "unfinished", "wrong", *["unfinished"] * (len(endings) - 3)]
    assert [one.reason for one in result.failed_scenarios] == [
        "3 requests for a session got no response"
    ]
    assert result.scenario_results[-1].reason == "not run: the agent does not respond"


class Silent(MessageFilter):
    """Does not answer prompts."""

    def up(self, message: Json) -> Json | None:
        return None if message.get("method") == "session/prompt" else message


async def test_silent_agent_leaves_a_scenario_unfinished_and_the_next_one_runs() -> None:
    result = await run(Silent, "prompts/text", "session-list/delete", seconds=2.0)
    first, second = result.scenario_results
    assert (first.outcome, second.outcome) == ("unfinished", "finished")
    assert "no end of the turn" in first.reason
    assert result.disconnects == []  # it might be slow
    assert result.failed_rules(strict=True) == []


class Mortal(MessageFilter):
    """Disconnects when it is prompted."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/prompt":
            self.way.eof_received(None)
            return None
        return message


async def test_agent_that_exits_is_reported_and_restarted() -> None:
    result = await run(Mortal, "prompts/text", "session-list/delete")
    first, second = result.scenario_results
    assert (first.outcome, second.outcome) == ("unfinished", "finished")
    assert "disconnected" in first.reason
    assert [one.scenario for one in result.disconnects] == ["prompts/text"]


class MortalAfterwards(MessageFilter):
    """Answers a prompt and exits a moment later."""

    def down(self, message: Json) -> Json | None:
        call = self.calls.get(repr(message.get("id")), {})
        if call.get("method") == "session/prompt":
            self.way.deliver(message)
            asyncio.get_running_loop().call_later(0.01, self.way.eof_received, None)
            return None
        return message

    def up(self, message: Json) -> Json | None:
        return None if message.get("method") == "_accord/settle" else message


async def test_exit_after_the_last_response_counts_for_the_scenario() -> None:
    result = await run(MortalAfterwards, "prompts/text", "session-list/delete", seconds=2.0)
    first, second = result.scenario_results
    assert (first.outcome, second.outcome) == ("unfinished", "finished")
    assert [one.scenario for one in result.disconnects] == ["prompts/text"]
    assert any(b"_accord/settle" in frame.text for frame in first.frames)
    assert result.failed_rules() == []


class ClosesBeforeTheTurnEnds(MessageFilter):
    """Answers `session/close`, and then the prompt of the closed session."""

    held: Json | None = None

    def down(self, message: Json) -> Json | None:
        call = self.calls.get(repr(message.get("id")), {})
        if (message.get("result") or {}).get("stopReason") == "cancelled" and self._closing():
            self.held = message
            return None
        if call.get("method") == "session/close" and self.held is not None:
            self.way.deliver(message)
            asyncio.get_running_loop().call_later(0.05, self.way.deliver, self.held)
            return None
        return message

    def _closing(self) -> bool:
        return any(one.get("method") == "session/close" for one in self.sent)


@requirement("R-SESS-21")
async def test_order_of_the_responses_to_close_and_its_prompt_is_free_in_version_1() -> None:
    result = await run(ClosesBeforeTheTurnEnds, "cancellation/turn", seconds=5.0)
    assert result.failed_rules(strict=True) == []
    assert result.reports[0].rules["R-SESS-21"].passed


# Exits at its first prompt, with a line on stderr.
CRASHES = """
import os, sys
from accord import Agent, Turn

class Crashes(Agent):
    async def prompt(self, turn: Turn) -> None:
        print("no such model", "at line 7", sep="\\n", file=sys.stderr, flush=True)
        os._exit(4)

Crashes().run()
"""


async def test_agent_that_exits_is_reported_with_its_last_stderr_lines() -> None:
    result = await start(CRASHES, "prompts/text", settings=Settings(timeout=20.0))
    (played,) = result.disconnects
    assert played.reason.endswith(
        "it exited with status 4; the last lines of its stderr: no such model | at line 7"
    )


class Odd(MessageFilter):
    """Forks sessions, and returns something without an id."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/fork":
            self.answer(message, {"sessionId": ["a"]})
            return None
        return message


async def test_malformed_response_does_not_end_the_run() -> None:
    result = await run(Odd, "reopening/fork", "session-list/delete")
    assert [one.outcome for one in result.scenario_results][1] == "finished"
    assert "R-SESS-25" in result.reports[0].rules


class WantsLogin(MessageFilter):
    """Requires a login."""

    def up(self, message: Json) -> Json | None:
        if message.get("method") == "session/new":
            self.refuse(message, -32000)
            return None
        return message


async def test_rules_that_need_a_login_are_not_exercised() -> None:
    names = [one.name for one in agent_scenarios() if not one.isolated]
    result = await run(WantsLogin, *names, versions=(1, 2))
    assert result.failed_rules(strict=True) == []
    asked = [one for one in result.scenario_results if one.scenario == "prompts/text"]
    assert {one.outcome for one in asked} == {"not exercised"}
    assert {one.reason for one in asked} == {
        "the agent requires a login before it creates a session"
    }
    assert [login.version for login in result.locked_out] == [1, 2]
    assert "prompts/text" in result.login_problems[0].scenarios
    for report in result.reports:
        assert "R-PROMPT-03" not in report.rules
        assert "R-MSG-03" not in report.rules


async def test_advertised_auth_methods_are_named() -> None:
    result = await run(WantsLogin, "sessions/new")
    (login,) = result.login_problems
    assert login.offered == ["script", "refused"]
    assert '`login = "script" or "refused"`' in login.message
    assert "no turn was tested at all" in login.message


async def test_failed_login_of_the_settings_is_named() -> None:
    settings = Settings(timeout=5.0, answer=5.0, login="refused", prompts=dict(PROMPTS))
    (login,) = (await run(WantsLogin, "sessions/new", settings=settings)).login_problems
    assert "The login 'refused' of the settings failed" in login.message


async def test_agent_without_login_has_no_auth_report() -> None:
    result = await run(MessageFilter, "prompts/text")
    assert result.login_problems == []
    assert result.locked_out == []


async def test_response_to_a_response_is_shown_with_it() -> None:
    result = await run(AnswersAnswers, "malformed/responses")
    reported = result.reports[0].rules["R-ERR-04"].failures
    senders = [frame.sender for one in reported for frame in one.frames if b"4711" in frame.text]
    assert senders == ["client", "agent"]


async def test_skipped_scenario_does_not_run() -> None:
    settings = Settings(skip={"sessions": "not now"})
    (played,) = (await run(MessageFilter, "sessions/new", settings=settings)).scenario_results
    assert (played.outcome, played.reason) == ("skipped", "not now")


async def test_agent_that_cannot_be_started_ends_the_run() -> None:
    def connect(noise: Callable[[str], None]) -> object:
        return process("accord-no-such-program", on_stdout_noise=noise)()

    with pytest.raises(StartError):
        await AgentRun(connect, (), Settings()).run((1,))  # type: ignore[arg-type]  # enough
