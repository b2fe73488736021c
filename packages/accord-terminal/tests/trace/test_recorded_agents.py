"""The recordings of real agents in `tests/recordings`: all tools read and replay them."""

from __future__ import annotations

from pathlib import Path

import pytest

import accord
from accord.client.permissions import allow
from accord.program import COMMANDS, load_command
from accord.text.lenient_json import is_object
from accord_terminal.click_group import main
from accord_trace import Record, open_trace
from accord_trace.exports import jsons_lines, pytest_module
from accord_trace.importing import import_records
from accord_trace.replay import ReplayedAgent
from accord_trace.replay.client import ClientReplay
from accord_trace.replay.script import read_scripts
from accord_trace.stats import stats_of
from needs import needs
from project import ROOT
from requirement import requirement

pytest_plugins = ["pytester"]

FOLDER = ROOT / "tests/recordings"
MAX_BYTES = 60_000
RECORDINGS = sorted(FOLDER.glob("*.acp.jsonl"))
REAL = {path.name.partition(".")[0].removesuffix("-v2") for path in RECORDINGS}

every_recording = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)


def test_agents_of_others_have_small_recordings() -> None:
    assert len({name for name in REAL if not name.startswith("accord")}) >= 13
    assert max(path.stat().st_size for path in RECORDINGS) <= MAX_BYTES


@requirement("R-TRACE-02", "R-TRACE-04")
@every_recording
async def test_recording_is_read_and_replayed(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is small, redacted, without problems; export and import are the identity."""
    trace = open_trace(path)
    records = list(trace)
    assert trace.problems == []
    assert trace.header.redacted
    assert trace.header.argv == [path.name.removesuffix(".acp.jsonl")]
    assert {record.method for record in records} >= {"initialize", "session/new", "session/prompt"}

    turns = stats_of(open_trace(path)).turns
    assert len(turns) >= 2
    assert all(turn.stop_reason for turn in turns)
    assert main(["trace", "show", str(path)], COMMANDS, load_command) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(records)

    exported = [one for one in records if one.type not in ("end", "invalid")]
    lines = list(jsons_lines(exported))
    imported = [one for one in import_records(lines) if isinstance(one, Record)]
    assert list(jsons_lines(imported)) == lines
    assert [one.session for one in imported] == [one.session for one in exported]

    agent = ReplayedAgent(path, strict=True)
    script = read_scripts(open_trace(path))[0]
    client = ClientReplay(script, agent(), cwd=str(tmp_path), timeout_s=10)
    assert await client.run(strict=True) == []
    agent.assert_matched(completely=True)


@requirement("R-TRACE-04")
@every_recording
async def test_client_runs_the_recorded_turns(path: Path, tmp_path: Path) -> None:
    """Accord's client gets through every conversation, with the recorded stop reasons."""
    expected = [(turn.stop_reason, turn.updates > 0) for turn in stats_of(open_trace(path)).turns]
    agent = ReplayedAgent(path)
    capabilities = next(one for one in open_trace(path) if one.method == "initialize").value()
    offered = capabilities.get("clientCapabilities") or {}
    is_on = bool(offered.get("terminal"))
    found: list[tuple[str | None, bool]] = []
    cancels = cancelled_at(path)
    async with accord.connect(
        agent, permissions=allow("*"), files="rw" if is_on else None, terminals=is_on
    ) as connected:
        session = await connected.new_session(tmp_path)
        for prompt in prompts(path):
            async with session.prompt(prompt) as turn:
                events = 0
                updates = cancels[len(found)]
                is_cancelled = updates is None
                if updates == 0:
                    is_cancelled = True
                    await turn.cancel()
                async for event in turn:
                    events += 1
                    if not is_cancelled and isinstance(event, accord.Text | accord.ToolCall):
                        is_cancelled = True
                        await turn.cancel()
            found.append((turn.stop_reason, events > 0))
    assert found == expected


def cancelled_at(path: Path) -> list[int | None]:
    """Return for each turn how many updates with text or tool calls came before its cancel."""
    turns: list[int | None] = []
    updates = 0
    for record in open_trace(path):
        params = record.value()
        if record.method == "session/prompt":
            turns.append(None)
            updates = 0
        elif record.method == "session/cancel":
            turns[-1] = updates
        elif record.method == "session/update" and is_object(params):
            kind = str(params["update"].get("sessionUpdate"))
            updates += kind.startswith(("agent_message", "tool_call"))
    return turns


def prompts(path: Path) -> list[str]:
    found: list[str] = []
    for record in open_trace(path):
        params = record.value()
        if record.method == "session/prompt" and is_object(params):
            found.append(params["prompt"][0]["text"])
    return found


@needs("accord_conformance")
def test_exported_tests_pass_without_the_agents(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    names = ("claude-agent-acp-v2", "gemini-cli", "opencode")
    for number, path in enumerate(FOLDER / f"{name}.acp.jsonl" for name in names):
        module = "".join(pytest_module(open_trace(path), str(path)))
        pytester.makepyfile(**{f"test_{number}": module})
    result = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "-p", "accord_conformance.pytest_entry", "-k", "recording"
    )
    result.assert_outcomes(passed=len(names), deselected=len(names))
