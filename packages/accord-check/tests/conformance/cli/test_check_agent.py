"""`accord check agent`: starts agents and reports; the exit status has the result."""

from __future__ import annotations

import io
import json
import os
import select
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from accord.program import COMMANDS, load_command
from accord_conformance.agent.settings import template
from accord_terminal.click_group import main
from needs import needs
from project import ROOT

SCRIPT = (sys.executable, "-m", "accord", "agent", "script")
EXAMPLES = ROOT / "examples/check"
AGENTS = str(ROOT / "packages/accord-terminal/tests/cli/agents.py")
# An agent of version 1 that answers everything else with both a result and an error.
WRONG = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if "id" in call:
        answer = {"jsonrpc": "2.0", "id": call["id"]}
        if call["method"] == "initialize":
            answer["result"] = {"protocolVersion": 1, "agentCapabilities": {}}
        else:
            answer |= {"result": {}, "error": {"code": 1, "message": "?"}}
        print(json.dumps(answer), flush=True)
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["check", *words], COMMANDS, load_command)
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_init_writes_settings_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(capsys, "init")
    assert status == 0
    assert "accord-check.toml" in out
    assert Path("accord-check.toml").read_text("utf-8") == template()
    status, _, err = run(capsys, "init")
    assert status == 2
    assert "already exists" in err


def test_unknown_scenario_in_skip_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "check.toml"
    config.write_text('[skip]\n"prompt/text" = "why"\n')
    status, _, err = run(capsys, "agent", "--config", str(config), "--", *SCRIPT)
    assert status == 2
    assert "[skip]: unknown scenario 'prompt/text'" in err
    assert "prompts/text" in err


def test_conforming_agent_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = {name: tmp_path / f"report.{name}" for name in ("json", "junit", "markdown", "html")}
    options = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    trace = ("--trace", str(tmp_path / "trace"))
    words = ("agent", "--only", "sessions/new", *options, *trace, "--", *SCRIPT)
    status, out, err = run(capsys, *words)
    reported = [line for line in err.splitlines() if "scenarios done" not in line]
    assert (status, reported) == (0, [])
    assert "version 1: 0 rules failed, 0 warnings, 0 advised." in out
    assert "version 2: 0 rules failed, 0 warnings, 0 advised." in out
    assert out.splitlines()[-1].startswith("Passed: ")
    assert all(file.read_text("utf-8") for file in files.values())
    assert [report["version"] for report in json.loads(files["json"].read_text())["reports"]] == [
        1,
        2,
    ]
    traces = sorted((tmp_path / "trace").iterdir())
    assert len(traces) == 4
    if sys.platform != "win32":
        assert {stat.S_IMODE(file.stat().st_mode) for file in traces} == {0o600}
    status, out, _ = run(capsys, "trace", str(traces[0]))
    assert status == 0


def test_failed_rules_fail_unless_they_are_in_the_baseline(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    known = tmp_path / "known.txt"
    words = ("--timeout", "5", "--only", "login/unknown", "--only", "options/set")
    command = ("--", sys.executable, "-c", WRONG)
    status, out, _ = run(capsys, "agent", *words, *command)
    assert status == 1
    assert "R-GEN-04" in out
    assert "Version 2 was not tested: the agent answered with version 1" in out
    update = ("--baseline", str(known), "--update-baseline")
    assert run(capsys, "agent", *words, *update, *command)[0] == 0
    assert "R-GEN-04 v1" in known.read_text()
    status, out, _ = run(capsys, "agent", *words, "--baseline", str(known), *command)
    assert status == 0
    assert "Known from the baseline" in out
    known.write_text(known.read_text() + "R-GEN-03 v1\n")
    _, out, _ = run(capsys, "agent", *words, "--baseline", str(known), *command)
    assert "no longer failing: R-GEN-03 (v1)" in out


def test_impossible_run_exits_with_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, reported in (
        (("--", "accord-no-such-program"), "cannot be started"),
        ((), "Missing the agent's command"),
        (("--only", "dancing", "--", *SCRIPT), "dancing"),
        (("--area", "R-CANCEL-99", "--", *SCRIPT), "Unknown rule R-CANCEL-99"),
        (("--only", "R-GEN-03", "--", *SCRIPT), "No scenario is about R-GEN-03"),
        (("--baseline", "none.txt", "--", *SCRIPT), "Cannot read the baseline none.txt"),
        (("--json", "none/report.json", "--", *SCRIPT), "--json: cannot write none/report.json"),
        (("--html", "a", "--junit", "a", "--", *SCRIPT), "name the same file"),
        (("--trace", "/dev/null/frames", "--", *SCRIPT), "--trace: cannot write into"),
        (("--update-baseline", "--", *SCRIPT), "--baseline"),
        (("--config", "none.toml", "--", *SCRIPT), "none.toml"),
        (("--timeout", "nan", "--", *SCRIPT), "--timeout"),
    ):
        status, _, err = run(capsys, "agent", *words)
        assert status == 2, words
        assert reported in err, words


def test_unwritable_report_is_an_error_before_the_agent_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    code = f"open({str(started)!r}, 'w')"
    words = ("agent", "--json", str(tmp_path / "none" / "a"), "--", sys.executable, "-c", code)
    assert run(capsys, *words)[0] == 2
    assert not started.exists()


def test_scenarios_are_selected_by_a_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    words = ("agent", "--version", "1", "--only", "R-CANCEL-12", "--json", str(report))
    assert run(capsys, *words, "--", *SCRIPT)[0] == 0
    played = [one["scenario"] for one in json.loads(report.read_text())["scenarios"]]
    assert played
    assert all(name.startswith("cancel") for name in played)


def test_run_without_a_connection_does_not_change_the_baseline(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    known = tmp_path / "baseline.txt"
    known.write_text("R-GEN-04 v1\n", "utf-8")
    gone = (sys.executable, "-c", "")
    words = ("agent", "--baseline", str(known), "--update-baseline", "--", *gone)
    status, out, _ = run(capsys, *words)
    assert status == 1
    assert "no longer failing" not in out
    assert known.read_text("utf-8") == "R-GEN-04 v1\n"


def test_rule_of_the_baseline_without_a_scenario_run_is_not_reported_as_fixed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    known = tmp_path / "baseline.txt"
    known.write_text("R-LIST-06 v1\n", "utf-8")
    words = ("agent", "--version", "1", "--only", "sessions/new", "--baseline", str(known))
    status, out, _ = run(capsys, *words, "--", *SCRIPT)
    assert status == 0
    assert "no longer failing" not in out


def test_baseline_update_keeps_rules_that_were_not_exercised(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    known = tmp_path / "baseline.txt"
    known.write_text("R-LIST-06 v1\nR-LIST-06 v2\nR-SESS-02 v1\n", "utf-8")
    words = ("agent", "--version", "1", "--only", "sessions/new", "--baseline", str(known))
    status, _, _ = run(capsys, *words, "--update-baseline", "--", *SCRIPT)
    assert status == 0
    assert known.read_text("utf-8").splitlines()[1:] == ["R-LIST-06 v1", "R-LIST-06 v2"]


@pytest.mark.skipif(os.name != "posix", reason="takes a shell")
def test_report_is_written_if_the_traces_cannot_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report, frames = tmp_path / "report.json", tmp_path / "frames"
    words = ("agent", "--version", "1", "--only", "sessions/new", "--json", str(report))
    spoils = f"rm -rf {frames}; touch {frames}; exec {shlex.join(SCRIPT)}"
    status, out, err = run(capsys, *words, "--trace", str(frames), "--", "sh", "-c", spoils)
    assert status == 2
    assert "scenarios were completed" in out
    assert f"Cannot write into {frames}" in " ".join(err.split())
    assert json.loads(report.read_text("utf-8"))["reports"]


def test_output_uses_only_characters_of_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    words = ["check", "agent", "--only", "sessions/new", "--version", "1", "--", *SCRIPT]
    assert main(words, COMMANDS, load_command) == 0
    assert b"scenarios were completed" in written.getvalue()


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize("words", [("check", "agent", "--"), ("ask", "hello", "--agent")])
def test_terminated_run_leaves_no_agent_and_no_files(
    number: signal.Signals, words: tuple[str, ...], tmp_path: Path
) -> None:
    own = tmp_path / "temporary"
    own.mkdir()
    stays = tmp_path / "stays.sh"
    # The pipe shows when the process starts and when it has ended.
    os.mkfifo(tmp_path / "alive")
    stays.write_text(f"#!/bin/sh\nexec sleep 600 > {tmp_path / 'alive'}\n")
    stays.chmod(0o755)
    checking = subprocess.Popen(
        [sys.executable, "-m", "accord", *words, str(stays)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(own)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    with (tmp_path / "alive").open("rb") as alive:
        checking.send_signal(number)
        assert checking.wait(20) == -number
        assert select.select([alive], [], [], 10)[0], "the agent is still there"
    assert list(own.iterdir()) == []


def test_agent_that_never_responds_fails(capsys: pytest.CaptureFixture[str]) -> None:
    mute = (sys.executable, "-c", "import sys; sys.stdin.read()")
    status, out, _ = run(capsys, "agent", "--timeout", "0.2", "--", *mute)
    assert status == 1
    assert "initialize failed" in out


def test_agent_that_requires_login_has_its_own_exit_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shy = (sys.executable, AGENTS, "shy", "1")
    words = ("agent", "--version", "1", "--only", "prompts/text", "--only", "sessions/new")
    status, out, _ = run(capsys, *words, "--", *shy)
    assert status == 3
    assert "the agent requires a login: 2 scenarios were not exercised (prompts, sessions)" in out


# Asks for permission, and acts whatever the answer is.
HEADSTRONG = """
from pathlib import Path

import accord

class Headstrong(accord.Agent):
    async def prompt(self, turn):
        async with turn.tool("Make made.txt", kind="edit") as call:
            await call.permission()
            Path(turn.session.cwd, "made.txt").touch()

Headstrong().run()
"""


def test_agent_that_does_what_was_rejected_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    junit = tmp_path / "junit.xml"
    program = tmp_path / "headstrong.py"
    program.write_text(HEADSTRONG)
    words = ("agent", "--only", "permissions/reject", "--junit", str(junit))
    status, out, _ = run(capsys, *words, "--", sys.executable, str(program))
    assert status == 1
    assert (
        "failed, no rule describes it permissions/reject: the agent did what the user rejected: "
        "a new file made.txt"
    ) in out
    assert "reject_once" in out
    assert junit.read_text().count("<failure") == 2


# What depends on the process; all others run in conformance/agent/test_clean.py.
OF_PROCESSES = ("prompts/text", "terminals", "malformed/lines", "shutdown")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["script", pytest.param("coder", marks=needs("accord_coder"))])
def test_bundled_agents_conform_as_processes(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path))
    config = ("--config", str(EXAMPLES / f"{name}.toml"))
    only = [word for area in OF_PROCESSES for word in ("--only", area)]
    options = ("--model", "demo") if name == "coder" else ()
    command = (*SCRIPT[:-1], name, *options)
    status, out, _ = run(capsys, "agent", "--strict", *only, *config, "--", *command)
    assert status == 0, out
    assert "unfinished" not in out
