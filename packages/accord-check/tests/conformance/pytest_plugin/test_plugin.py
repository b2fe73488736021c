"""The pytest plugin: its fixtures and `--accord-check`, in separate runs of pytest.

The runs are in this process, which has imported most of what they need; one of them is a process
that finds the plugin by itself.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from accord_conformance.agent.scenarios import agent_scenarios

pytest_plugins = ["pytester"]

# An agent that starts fast and conforms in both versions.
INDEPENDENT = (sys.executable, str(Path(__file__).parents[1] / "independent" / "agent.py"))
GREETER = """
from accord import Agent, Turn

class Greeter(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Hello! You wrote: {turn.text}")

if __name__ == "__main__":
    Greeter().run()
"""
# Answers `initialize` with a number as name, and nothing else.
BAD = """
import json, sys

for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    if call["method"] == "initialize":
        end = {"result": {"protocolVersion": 1, "agentInfo": {"name": 5, "version": "1"}}}
    else:
        end = {"error": {"code": -32601, "message": "No"}}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], **end}), flush=True)
"""


class Imported:
    """A plugin for the runs in this process: pytester forgets the modules that they import.

    The types of a module that is imported twice are not the same.
    """

    def __init__(self) -> None:
        self._found: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        """Remember the packages; a test has modules of its own."""
        mine = {path.stem for path in Path().iterdir()}
        self._found = {
            name: module
            for name, module in sys.modules.items()
            if name.partition(".")[0] not in mine
        }

    def restore(self) -> None:
        """Keep what the last run has imported."""
        sys.modules.update(self._found)


IMPORTED = Imported()


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    """Keep imported modules when `pytester` has ended, too."""
    yield
    IMPORTED.restore()


# Other scenarios are not needed here, and start a process each.
RUN_SCENARIOS = ("handshake/unknown", "handshake/no-capabilities")


SCENARIOS = [one.name for one in agent_scenarios()]


def quick_settings(*scenarios: str) -> str:
    """Return settings that skip all scenarios except these."""
    skipped = (name for name in SCENARIOS if name not in scenarios)
    lines = "".join(f'"{name}" = "not here"\n' for name in skipped)
    return f"timeout = 10.0\nanswer = 3.0\n\n[skip]\n{lines}"


@pytest.fixture(autouse=True)
def quick(modules: None, pytester: pytest.Pytester, request: pytest.FixtureRequest) -> None:
    """Skip most scenarios; load only the plugins that are needed, unless `all_plugins` is used."""
    (pytester.path / "accord-check.toml").write_text(quick_settings(*RUN_SCENARIOS))
    if "all_plugins" not in request.fixturenames:
        monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.setenv(
            "PYTEST_PLUGINS", "accord_conformance.pytest_entry,pytest_asyncio.plugin"
        )


@pytest.fixture
def all_plugins() -> None:
    """Let pytest find all plugins that are installed, Accord's among them."""


@pytest.fixture
def greeter(pytester: pytest.Pytester) -> str:
    """Return the command of a small agent."""
    return shlex.join([sys.executable, str(pytester.makepyfile(greeter=GREETER))])


@pytest.fixture
def bad(pytester: pytest.Pytester) -> str:
    """Return the command of an agent that violates rules."""
    return shlex.join([sys.executable, str(pytester.makepyfile(bad=BAD))])


def run(pytester: pytest.Pytester, *words: str | Path) -> pytest.RunResult:
    pytester.plugins = [IMPORTED]
    scope = "asyncio_default_fixture_loop_scope=function"
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-o", scope, *words)
    IMPORTED.restore()
    return done


def run_program(pytester: pytest.Pytester, *words: str | Path) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *words, timeout=150)


def test_plugin_imports_nothing_until_it_is_used() -> None:
    code = (
        "import sys, accord_conformance.pytest_entry\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] in ('accord', 'msgspec')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# accord_agent


@pytest.mark.usefixtures("all_plugins")
def test_agent_fixture_works_without_an_event_loop(pytester: pytest.Pytester, greeter: str) -> None:
    pytester.makepyfile(
        """
        def test_greets(accord_agent):
            assert accord_agent.ask("hi").text == "Hello! You wrote: hi"
            [report] = accord_agent.reports
            assert report.frames
        """
    )
    run_program(pytester, "--accord-agent", greeter).assert_outcomes(passed=1)


def test_agent_fixture_runs_turns_without_an_event_loop(
    pytester: pytest.Pytester, greeter: str
) -> None:
    pytester.makeini(f"[pytest]\naccord_agent = {greeter}")
    pytester.makepyfile(
        """
        async def two_turns(agent):
            session = await agent.new_session(".")
            async with session.prompt("one") as turn:
                await turn.wait()
            async with session.prompt("two") as turn:
                await turn.wait()
            return agent.version, len(session.transcript.messages)

        def test_greets_twice(accord_agent):
            assert accord_agent.run(two_turns) == (2, 4)
            assert accord_agent.run(two_turns, versions=[1]) == (1, 4)
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_agent_fixture_connects_in_an_async_test(pytester: pytest.Pytester, greeter: str) -> None:
    pytester.makepyfile(
        """
        async def test_greets(accord_agent):
            frames = []
            async with accord_agent.connect(observers=[lambda *seen: frames.append(seen)]) as agent:
                session = await agent.new_session(accord_agent.folder)
                async with session.prompt("hi") as turn:
                    await turn.wait()
            assert turn.text == "Hello! You wrote: hi"
            assert frames
        """
    )
    done = run(pytester, "--accord-agent", greeter, "-o", "asyncio_mode=auto")
    done.assert_outcomes(passed=1)


def test_marker_names_the_command_of_the_agent(pytester: pytest.Pytester, greeter: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.accord_agent(*{shlex.split(greeter)!r})
        def test_words(accord_agent):
            assert accord_agent.ask("hi").text == "Hello! You wrote: hi"

        @pytest.mark.accord_agent({greeter!r})
        def test_line(accord_agent):
            assert accord_agent.ask("hi").text == "Hello! You wrote: hi"
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_test_fails_if_its_agent_violates_a_rule(pytester: pytest.Pytester, bad: str) -> None:
    pytester.makepyfile(
        """
        import accord, pytest

        def test_is_refused(accord_agent):
            with pytest.raises((accord.RequestError, accord.ProtocolError)):
                accord_agent.ask("hi", versions=[1])

        @pytest.mark.accord_agent(judge=False)
        def test_is_not_judged(accord_agent):
            with pytest.raises((accord.RequestError, accord.ProtocolError)):
                accord_agent.ask("hi", versions=[1])
        """
    )
    done = run(pytester, "--accord-agent", bad)
    done.assert_outcomes(passed=2, errors=1)
    done.stdout.fnmatch_lines(["*The agent failed rules of the protocol:", "*expected *", "*< {*"])


def test_missing_agent_command_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(accord_agent): pass")
    done = run(pytester)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*Missing the agent's command: --accord-agent COMMAND*"])


# --accord-check


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("all_plugins")
def test_each_rule_is_a_test(pytester: pytest.Pytester) -> None:
    words = ("--accord-check", shlex.join(INDEPENDENT), "-k", "INIT or speaks")
    done = run(pytester, *words, "--junitxml", "report.xml", "-rs")
    outcomes = done.parseoutcomes()
    assert outcomes.keys() == {"passed", "skipped", "deselected"}
    assert outcomes["passed"] > 10
    done.stdout.fnmatch_lines(["*= accord check =*", "version 2: *passed*", "*not exercised*"])
    cases = ET.parse(pytester.path / "report.xml").getroot().iter("testcase")
    names = {(case.get("classname"), case.get("name")) for case in cases}
    assert ("accord-check.v2.INIT", "R-INIT-21") in names


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_failed_rule_shows_its_frames(pytester: pytest.Pytester, bad: str) -> None:
    done = run(pytester, "--accord-check", bad, "-m", "accord_check", "-k", "speaks or INIT")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(
        ["R-INIT-23 MUST: *", "  failed by the agent*", "    expected  *", "*< {*"]
    )
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.fnmatch_lines(["version 2 was not tested: *"])


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_baseline_accepts_known_failures(pytester: pytest.Pytester, bad: str) -> None:
    words = ("--accord-check", bad, "-k", "GEN or INIT")
    first = run(pytester, *words, "-rf", "--tb=no")
    broken = {
        word.rpartition("::")[2]
        for line in first.outlines
        if line.startswith("FAILED")
        for word in line.split()
        if word.startswith("accord-check::")
    }
    assert broken
    lines = [f"{rule} v1" for rule in sorted(broken)]
    baseline = pytester.path / "known.txt"
    baseline.write_text("\n".join([*lines, "R-GEN-03 v1"]))
    second = run(pytester, *words, "--accord-check-baseline", baseline)
    assert second.ret == 0
    assert second.parseoutcomes()["xfailed"] == len(broken)
    second.stdout.fnmatch_lines(["in the baseline, but no longer failing: R-GEN-03 (v1)"])


def test_agent_that_does_not_start_fails_once(pytester: pytest.Pytester) -> None:
    done = run(pytester, "--accord-check", "no-such-agent-anywhere", "--accord-check-version", "2")
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes.keys() == {"failed", "skipped"}
    done.stdout.fnmatch_lines(["*The agent cannot be started: *"])


def test_agent_that_does_not_start_fails_with_selected_rules(pytester: pytest.Pytester) -> None:
    done = run(pytester, "--accord-check", "no-such-agent-anywhere", "-k", "CANCEL")
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes["skipped"] > 1
    done.stdout.fnmatch_lines(["*The agent cannot be started: *"])


# Exits at its first turn.
GONE = """
import os
from accord import Agent, Turn

class Gone(Agent):
    async def prompt(self, turn: Turn) -> None:
        os._exit(3)

if __name__ == "__main__":
    Gone().run()
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_agent_that_exits_in_its_turns_fails(pytester: pytest.Pytester) -> None:
    (pytester.path / "accord-check.toml").write_text(quick_settings("prompts/text"))
    agent = shlex.join([sys.executable, str(pytester.makepyfile(gone=GONE))])
    baseline = pytester.path / "known.txt"
    baseline.write_text("R-PLAN-02 v1\n")  # is not exercised
    words = ("--accord-check", agent, "--accord-check-version", "1", "-k", "speaks")
    done = run(pytester, *words, "--accord-check-baseline", baseline)
    assert done.parseoutcomes()["failed"] == 1
    done.stdout.fnmatch_lines(["*The agent disconnected in prompts/text*"])
    done.stdout.no_fnmatch_line("*no longer failing*")


SHY = """
from accord import Agent, AuthRequired

class Shy(Agent):
    def check_auth(self) -> None:
        raise AuthRequired

if __name__ == "__main__":
    Shy().run()
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_agent_that_requires_login_fails_once(pytester: pytest.Pytester) -> None:
    agent = shlex.join([sys.executable, str(pytester.makepyfile(shy=SHY))])
    words = ("--accord-check", agent, "--accord-check-version", "1", "-k", "speaks or PROMPT")
    done = run(pytester, *words)
    assert done.parseoutcomes()["failed"] == 1
    done.stdout.fnmatch_lines(["*the agent requires a login:*no turn was tested at all*"])


def test_silent_agent_fails_once_and_is_started_once(pytester: pytest.Pytester) -> None:
    (pytester.path / "accord-check.toml").write_text("timeout = 0.5\nanswer = 0.5\n")
    mute = "import sys; open('starts', 'a').write('x'); sys.stdin.read()"
    done = run(pytester, "--accord-check", shlex.join([sys.executable, "-c", mute]), "-rs")
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes.keys() == {"failed", "skipped"}
    done.stdout.fnmatch_lines(
        ["*1: initialize failed: no response to initialize*", "*2: the agent sent no response*"]
    )
    assert (pytester.path / "starts").read_text() == "x"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "--accord-check needs the command that starts the agent"),
        (("--accord-check-config", "absent.toml"), "Cannot read absent.toml*"),
        (("--accord-check-config", "skip.toml"), "[[]skip[]]: unknown scenario 'nothing'*"),
        (("--accord-check-baseline", "absent.txt"), "Cannot read the baseline absent.txt: *"),
    ],
)
def test_wrong_use_is_an_error_with_the_reason(
    pytester: pytest.Pytester, words: tuple[str, ...], why: str
) -> None:
    (pytester.path / "skip.toml").write_text('[skip]\nnothing = "why"\n')
    command = "some-agent" if "--accord-check-baseline" in words else ""
    done = run(pytester, "--accord-check", command, *words)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {why}"])


# accord_client

CLIENT = """
import asyncio, sys
import accord
from accord.client.permissions import allow

async def main(words):
    async with accord.connect(words, files="rw", terminals=True, permissions=allow("*")) as agent:
        session = await agent.new_session(".")
        async with session.prompt(PROMPT) as turn:
            await turn.wait()

asyncio.run(main(sys.argv[1:]))
"""


def test_client_fixture_checks_the_client_that_starts_the_agent(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(client=CLIENT.replace("PROMPT", repr("check: updates/content")))
    pytester.makepyfile(
        """
        import subprocess, sys

        def test_keeps_the_rules(accord_client):
            assert accord_client.prompt == "check: all"
            subprocess.run([sys.executable, "client.py", *accord_client.command], check=True)
            accord_client.check()
            assert "passed" in accord_client.outcomes().values()
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_failed_rule_of_a_client_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        client="""
        import json, subprocess, sys

        agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        asks = {"id": 1, "method": "initialize", "params": {"protocolVersion": "1"}}
        say = {"jsonrpc": "2.0", **asks}
        agent.stdin.write(json.dumps(say).encode() + b"\\n")
        agent.stdin.flush()
        agent.stdout.readline()
        agent.stdin.close()
        agent.stdout.read()
        sys.exit(0 if agent.wait() == 1 else f"the agent ended with {agent.returncode}")
        """
    )
    pytester.makepyfile(
        """
        import subprocess, sys

        def test_keeps_the_rules(accord_client):
            subprocess.run([sys.executable, "client.py", *accord_client.command], check=True)
            accord_client.check()
        """
    )
    done = run(pytester, "--tb=short")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*The client failed rules of the protocol:", "*R-INIT-10 *"])


def test_client_that_sends_nothing_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(client=CLIENT.replace("PROMPT", repr("hello")))
    pytester.makepyfile(
        """
        import subprocess, sys

        def test_keeps_the_rules(accord_client):
            subprocess.run([sys.executable, "client.py", *accord_client.command], check=True)
            accord_client.check()
        """
    )
    done = run(pytester)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*No scenario ran: the client sent no prompt such as*"])


def test_client_that_does_not_start_the_agent_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(accord_client):\n    accord_client.check()\n")
    done = run(pytester)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*No report: the client did not start the agent*"])
