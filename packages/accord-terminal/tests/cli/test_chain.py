"""`accord chain` as the command of an agent."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord import Text, connect
from accord.errors import RequestError
from accord.program import main
from accord.proxy.chain import ChainFileError, read_chain_file
from forked import forked_programs
from project import ROOT

PROGRAMS = ROOT / "packages/accord/tests/proxy/programs"
CHAIN = [sys.executable, "-m", "accord", "chain"]
AGENT = f"{sys.executable} -m accord agent script"


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    """Start the command by a fork, and its components as it does."""
    with forked_programs(more=False):
        yield


async def _streams(*command: str, lines: list[str] | None = None) -> list[str]:
    on_stderr = None if lines is None else lines.append
    async with asyncio.timeout(30), connect([*CHAIN, *command], on_stderr=on_stderr) as agent:
        session = await agent.new_session(".")
        async with session.prompt("stream 2") as turn:
            return [event.text async for event in turn if isinstance(event, Text)]


async def test_chain_is_an_agent_on_stdin_and_stdout() -> None:
    by_hand = f"{sys.executable} {PROGRAMS / 'hand_proxy.py'} rust"
    assert await _streams(str(PROGRAMS / "pass_proxy.py"), by_hand, AGENT) == ["1 ", "2 "]


async def test_chain_reads_its_components_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "pass_proxy.py").write_text((PROGRAMS / "pass_proxy.py").read_text("utf-8"))
    file = tmp_path / "chain.toml"
    file.write_text(
        f"""
        [[component]]
        command = "pass_proxy.py"

        [[component]]
        name = "by hand"
        command = ['{sys.executable}', '{PROGRAMS / "hand_proxy.py"}', "thinkwell"]
        dialect = "thinkwell"
        env = {{ X = "1" }}

        [[component]]
        command = '{AGENT}'
        """
    )
    assert await _streams("--config", str(file)) == ["1 ", "2 "]


async def test_component_that_dies_is_reported_on_stderr_and_to_the_client() -> None:
    lines: list[str] = []
    dying = f"{sys.executable} {PROGRAMS / 'hand_proxy.py'} acp die-at session/prompt"
    with pytest.raises(RequestError, match="exited with status 7: these are my last words"):
        await _streams(dying, AGENT, lines=lines)
    assert f"[{dying}] these are my last words" in lines
    assert any(line.startswith("accord chain: component ") for line in lines)


def test_requests_before_the_end_of_input_are_answered(tmp_path: Path) -> None:
    params = '{"protocolVersion":1,"clientCapabilities":{}}'
    line = '{"jsonrpc":"2.0","id":7,"method":"initialize","params":' + params + "}\n"
    # The pipe has ended before the chain starts: no component can answer before the end of input,
    # and none before the first time limit. The second is long enough for a busy machine.
    program = tmp_path / "program.py"
    program.write_text(
        "from accord.program import main\n"
        "from accord.proxy import conductor, hop\n"
        "hop.ANSWER_S, conductor._LAST_ANSWER_S = 0.0, 30.0\n"
        f"main(['chain', {str(PROGRAMS / 'pass_proxy.py')!r}, {AGENT!r}])\n"
    )
    reading, writing = os.pipe()
    os.write(writing, line.encode())
    os.close(writing)
    try:
        ended = subprocess.run(
            [sys.executable, str(program)],
            stdin=reading,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    finally:
        os.close(reading)
    assert json.loads(ended.stdout)["result"]["protocolVersion"] == 1


def test_wrong_use_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chain"]) == 2
    assert "Expected components, or --config FILE" in capsys.readouterr().err
    assert main(["chain", "--bogus", "a", "b"]) == 2
    assert "--bogus" in capsys.readouterr().err
    assert main(["chain", "nonsense://host", "x"]) == 2
    assert "Unknown URL scheme" in capsys.readouterr().err
    file = tmp_path / "chain.toml"
    file.write_text("[[component]]\ncommand = 'x'\nunknown = 1\n")
    assert main(["chain", "--config", str(file)]) == 2
    assert "unknown" in capsys.readouterr().err
    assert main(["serve", "--chain", str(file), "agent"]) == 2
    assert "got both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("component = []", "expected a table"),
        ("nonsense", "is invalid"),
        ("[[component]]\ncommand = ''", r"component\[0\]: The command must not be empty"),
        ("[[component]]\ncommand = 'x'\ndialect = 'y'", "dialect: expected one of acp, "),
        ("[[components]]\ncommand = 'x'", r"write \[\[component\]\]"),
        ("[[component]]\ncommand = 'x'\ninsecure = true", "for an address"),
        ("[[component]]\ncommand = 'ws://h'\ncwd = '.'", "only for a command"),
        ("[[component]]\ncommand = 'ws://h'\ntoken_file = 'none'", "token_file: .* No such file"),
    ],
)
def test_errors_in_a_chain_file_name_the_place(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "chain.toml"
    file.write_text(text)
    with pytest.raises(ChainFileError, match=error):
        read_chain_file(file)
    with pytest.raises(ChainFileError, match="Cannot read"):
        read_chain_file(tmp_path / "missing.toml")


def test_options_of_a_recording_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--no-redact"], ["--max-size", "1"]):
        assert main(["chain", *option, AGENT]) == 2
        assert "are for --trace FILE" in capsys.readouterr().err


def test_command_imports_what_records_only_with_the_option() -> None:
    program = "import sys, accord_terminal.chain; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True
    )
    assert not [name for name in done.stdout.split() if name.startswith("accord_trace")]


def test_explain_shows_what_each_component_changes(capfd: pytest.CaptureFixture[str]) -> None:
    adding = PROGRAMS / "adding_proxy.py"
    by_hand = f"{sys.executable} {PROGRAMS / 'hand_proxy.py'} acp"
    assert main(["chain", "--explain", str(adding), by_hand, AGENT]) == 0
    shown = capfd.readouterr().out
    assert "adding_proxy.py    a proxy, a program\n" in shown
    assert "changes to the agent:\n  │      + _meta.team = 1.0\n" in shown
    assert 'changes to the client:\n  │      ~ info.title = "Team\'s agent", was ' in shown
    assert "changes nothing in the handshake" in shown
    assert 'the agent: "accord-script"' in shown
    assert "  session.prompt.image\n" in shown
    dying = f"{sys.executable} {PROGRAMS / 'hand_proxy.py'} acp die-at proxy/initialize"
    assert main(["chain", "--explain", dying, AGENT]) == 1
    assert "these are my last words" in capfd.readouterr().err


async def test_chain_keeps_an_agent_within_limits(tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("[session]\ncost = 0.1\n")
    async with asyncio.timeout(30), connect([*CHAIN, "--budget", str(limits), AGENT]) as agent:
        session = await agent.new_session(".")
        async with session.prompt("usage") as turn:
            await turn.wait()
        assert "Limit of the session reached: 0.25 USD of 0.10 USD" in turn.text
        async with session.prompt("echo more") as turn:
            assert await turn.wait() == "max_turn_requests"
        assert "the prompt was not sent" in turn.text


async def test_a_chain_of_a_server_counts_the_days_of_each_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_STATE", str(tmp_path))
    # As `accord serve` starts it for the connections of two users.
    for user, left in (("ada", True), ("ada", False), ("bob", True)):
        monkeypatch.setenv("ACCORD_PRINCIPAL", user)
        limited = [*CHAIN, "--budget", "cost=0.1/day", AGENT]
        async with asyncio.timeout(30), connect(limited) as agent:
            session = await agent.new_session(".")
            async with session.prompt("usage") as turn:
                await turn.wait()
            assert ("the prompt was not sent" not in turn.text) is left, user
