"""`accord trace replay`: as the agent and as the client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import click
import pytest

import accord
from accord.version import ProtocolVersion
from accord_trace import Recording
from accord_trace.replay.comparison import AgentMessage
from on_a_terminal import on_a_terminal
from project import ROOT
from requirement import requirement
from sample_recordings import one_turn

SCRIPT = [sys.executable, "-m", "accord", "agent", "script"]

REPLAY = [sys.executable, "-m", "accord", "trace", "replay"]

PROMPTS = ("echo Hello", "plan", "permission 2", "tools")


async def record_script(path: Path, version: ProtocolVersion = 1) -> None:
    """Record some turns, cancelled ones, and two sessions at the same time."""

    async def decide(_: accord.PermissionRequest) -> Literal["allow"] | None:
        if asked is None:
            return "allow"
        await asked.cancel()
        return None

    asked: accord.ClientTurn | None = None
    with Recording(path) as recording:
        async with accord.connect(
            SCRIPT,
            permissions=decide,
            versions=[version],
            observers=[recording.hop().observer("client")],
        ) as agent:
            session = await agent.new_session(path.parent)
            for prompt in PROMPTS:
                async with session.prompt(prompt) as turn:
                    await turn.wait()
            async with session.prompt("wait forever") as turn:
                async for event in turn:
                    if isinstance(event, accord.ToolCall):
                        await turn.cancel()
            async with session.prompt("permission") as asked:
                await asked.wait()
            await asyncio.gather(*(one_session(agent, path.parent) for _ in range(2)))


async def one_session(agent: accord.ConnectedAgent, cwd: Path) -> None:
    session = await agent.new_session(cwd)
    async with session.prompt("stream 20") as turn:
        await turn.wait()


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*REPLAY, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=40)


@requirement("R-TRACE-04")
@pytest.mark.parametrize("version", [1, 2])
async def test_the_recorded_agent_still_answers_the_same(
    tmp_path: Path, version: ProtocolVersion
) -> None:
    path = tmp_path / "r.acp.jsonl"
    await record_script(path, version)
    done = run(path, "--as", "client", "--strict", "--cwd", tmp_path, "--", *SCRIPT)
    assert done.stdout.startswith("same: "), done.stdout + done.stderr
    assert done.returncode == 0


@requirement("R-TRACE-04")
def test_differences_are_shown_with_message_path_and_values(tmp_path: Path) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    other = tmp_path / "other.acp.jsonl"
    text = path.read_text().replace('"stopReason":"end_turn"', '"stopReason":"refusal"')
    other.write_text(text.replace('"sessionUpdate":"tool_call"', '"sessionUpdate":"plan"'))
    done = run(path, "--as", "client", "--", *REPLAY, str(other))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "- session/update tool_call (message 8): did not come",
        "+ session/update plan: is not recorded: "
        '{"title":"Read \\u001b[2J\\u202eevil","status":"pending"}',
        '~ response to session/prompt (message 12): stopReason: expected "end_turn", got "refusal"',
        "3 differences: 10 messages of the agent compared",
    ]
    done = run(path, "--as", "client", "--json", "--", *REPLAY, str(other))
    found = json.loads(done.stdout)
    assert found["same"] is False
    assert [one["kind"] for one in found["differences"]] == ["missing", "extra", "changed"]
    assert found["differences"][2]["path"] == "stopReason"


@requirement("R-TRACE-04")
@pytest.mark.parametrize(
    ("program", "status", "text"),
    [
        ("import sys; sys.exit('broken')", 2, "exited with status 1: broken"),
        ("import sys; sys.stdin.read()", 1, "got nothing within 0.5 s"),
        (None, 2, "Cannot start"),
    ],
)
def test_agent_that_does_not_answer(
    tmp_path: Path, program: str | None, status: int, text: str
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    agent = ["./missing"] if program is None else [sys.executable, "-c", program]
    done = run(path, "--as", "client", "--timeout", "0.5", "--", *agent)
    assert done.returncode == status
    assert text in done.stdout + done.stderr
    if status == 1:
        assert "1 difference: 0 messages of the agent compared" in done.stdout
    else:
        assert not done.stdout


@requirement("R-TRACE-04")
@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        ('"result": {"protocolVersion": 1}', 0, "same: 2 messages"),
        ('"error": {"code": -32000, "message": "no disk"}', 1, '"message":"no disk"'),
    ],
    ids=["result", "error"],
)
def test_message_right_after_the_first_response(
    tmp_path: Path, answer: str, status: int, text: str
) -> None:
    """The agent sends both in one write."""
    first = '{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}'
    response = '{"jsonrpc": "2.0", "id": 0, %s}'
    notification = '{"jsonrpc": "2.0", "method": "_x/ready", "params": {}}'
    with Recording(tmp_path / "r.acp.jsonl") as recording:
        hop = recording.hop()
        hop.frames("to_agent", [first.encode()])
        result = '"result": {"protocolVersion": 1}'
        hop.frames("to_client", [(response % result).encode(), notification.encode()])
    both = f"{response % answer}\n{notification}\n"
    program = f"import sys; sys.stdin.readline(); sys.stdout.write({both!r}); sys.stdout.flush(); "
    agent = [sys.executable, "-c", f"{program}sys.stdin.read()"]
    done = run(tmp_path / "r.acp.jsonl", "--as", "client", "--", *agent)
    assert text in done.stdout, done.stdout + done.stderr
    assert done.returncode == status


@requirement("R-TRACE-04")
def test_command_replays_on_stdio_and_reports_departures(tmp_path: Path) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    lines = [
        {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
        {"id": 1, "method": "session/new", "params": {"cwd": "/y"}},
        {"id": 2, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}},
    ]
    report = tmp_path / "report.json"
    done = subprocess.run(
        [*REPLAY, str(path), "--report", str(report)],
        input="".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
    )
    assert "npm warn\n" in done.stdout  # as the agent wrote it
    assert '"stopReason":"end_turn"' in done.stdout
    assert done.stderr.splitlines() == [
        "accord trace replay: departure 1: session/prompt (message 5, client message 3): "
        'prompt: expected [{"type":"text","text":"Fix it"}], got nothing',
        "accord trace replay: not used: session/load (message 13)",
    ]
    assert [one["message"] for one in json.loads(report.read_bytes())["departures"]] == [5]


def test_command_says_what_was_redacted(tmp_path: Path) -> None:
    with Recording(tmp_path / "r.acp.jsonl") as recording:
        call = {"id": 1, "method": "authenticate", "params": {"methodId": "m", "key": "x"}}
        frame = json.dumps({"jsonrpc": "2.0", **call}).encode()
        recording.hop().frames("to_agent", [frame])
    done = subprocess.run(
        [*REPLAY, str(tmp_path / "r.acp.jsonl")], input="", capture_output=True, text=True
    )
    assert "secrets were replaced in 1 message: `[redacted]` is sent instead" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--as", "client"], "Missing the agent"),
        (["--", "my-agent"], "add `--as client`"),
        (["--json"], "--json is for `--as client`"),
        (["--timeout", "5"], "--timeout is for `--as client`"),
        (["--as", "client", "--report", "x", "--", "a"], "--report is for `--as agent`"),
        (["--report", "r.acp.jsonl"], "--report is the recording itself"),
        (["--report", "no/report.json"], "Cannot write"),
    ],
    ids=["no-agent", "agent", "json", "timeout", "report", "overwrite", "no-folder"],
)
def test_wrong_use_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    before = path.read_bytes()
    done = run(path, *words)
    assert done.returncode == 2
    assert text in done.stderr
    assert path.read_bytes() == before


def test_recording_without_a_client_cannot_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"jsonrpc":"2.0","method":"session/update","params":{}}\n')
    done = run(path)
    assert done.returncode == 2
    assert "Expected a recording with requests of a client" in done.stderr


def response(request: int, number: int, value: Any, *, is_error: bool = False) -> AgentMessage:
    label = f"{'error' if is_error else 'response'} to session/new"
    return AgentMessage(number=number, session=None, label=label, value=value, request=request)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_differences_are_grouped_and_fit_a_terminal() -> None:
    recording = str(ROOT / "tests/recordings/gemini-cli.acp.jsonl")
    agent = (sys.executable, "-m", "accord", "agent", "script")
    words = ("replay", recording, "--as", "client", "--", *agent)
    lines = click.unstyle(on_a_terminal(80, *words, status=1)).split("\r\n")
    assert max(map(len, lines)) <= 80
    at = lines.index("~ response to initialize (message 2)")
    assert lines[at + 1].startswith("    agentCapabilities.mcpCapabilities.http: expected true")
    assert lines.count("~ response to initialize (message 2)") == 1
