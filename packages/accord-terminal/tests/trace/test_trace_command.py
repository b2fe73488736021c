"""`accord trace show`, `stats`, `export` and `diff`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

import accord
from accord.program import COMMANDS, load_command
from accord_terminal.click_group import main
from accord_trace import Recording, open_trace
from accord_trace.importing import import_records
from needs import needs
from on_a_terminal import on_a_terminal
from project import ROOT
from requirement import requirement
from sample_recordings import ESCAPES, one_turn

pytest_plugins = ["pytester"]


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(one_turn().save(tmp_path / "r.acp.jsonl"))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["trace", *words], COMMANDS, load_command)
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    status, out, err = run(capsys, "show", *words)
    assert (status, err) == (0, "")
    return [" ".join(line.split()) for line in out.splitlines()]


def test_show_has_a_line_per_message_with_latencies(
    capsys: pytest.CaptureFixture[str], recording: str
) -> None:
    found = rows(capsys, recording)
    assert len(found) == 15
    assert found[0] == '1 0.000 Client → Agent initialize id 0 77 B {"protocolVersion":1}'
    assert found[1].startswith("2 0.100 Agent → Client initialize id 0 ✓ 100 ms")
    assert found[4].endswith('"Fix it"')
    assert any("npm warn" in row and "not a message" in row for row in found)


def test_show_says_an_end_in_plain_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        recording.hop().end("to_client", "The peer stopped reading")
    [row] = rows(capsys, str(path))
    assert row.startswith("1 ")
    assert row.endswith("the other side closed its input")


@requirement("R-SEC-12")
def test_show_escapes_what_agents_write(capsys: pytest.CaptureFixture[str], recording: str) -> None:
    _, out, _ = run(capsys, "show", "--full", recording)
    assert "\x1b" not in out
    assert ESCAPES not in out
    assert "\\x1b[2J" in out


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--method", "session/update"], 5),
        (["--method", "session/[np]*"], 4),
        (["--session", "lost"], 2),
        (["--from", "client"], 4),
        (["--errors"], 2),
        (["--text", "FIX"], 1),
        (["--errors", "--from", "client"], 0),
    ],
)
def test_show_filters(
    capsys: pytest.CaptureFixture[str], recording: str, words: list[str], count: int
) -> None:
    everything = [line.split()[0] for line in run(capsys, "show", recording)[1].splitlines()]
    assert everything == list(map(str, range(1, 16)))
    status, out, err = run(capsys, "show", *words, recording)
    assert len(out.splitlines()) == count
    assert status == 0
    assert err == ("" if count else "accord trace: no message matches --from client --errors\n")


def test_show_reads_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in "ab":
        one_turn().save(tmp_path / f"{name}.acp.jsonl")
    found = rows(capsys, str(tmp_path))
    assert [found[0], found[16]] == ["a.acp.jsonl", "b.acp.jsonl"]


def test_show_continues_after_a_broken_recording_of_a_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.acp.jsonl").write_bytes(b"")
    one_turn().save(tmp_path / "b.acp.jsonl")
    status, out, err = run(capsys, "show", str(tmp_path))
    assert status == 2
    assert len(out.splitlines()) == 17
    assert f"accord trace: Expected a recording in {tmp_path / 'a.acp.jsonl'}: it is empty" in err


def test_lines_that_are_skipped_are_reported(
    capsys: pytest.CaptureFixture[str], recording: str
) -> None:
    with Path(recording).open("ab") as file:
        file.write(b'{"type":"notif')
    status, out, err = run(capsys, "show", recording)
    assert status == 0
    assert len(out.splitlines()) == 15
    assert "skipped: the last line is incomplete: {" in err


def test_file_that_is_not_a_recording_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "r.acp.jsonl"
    for data, why in (
        (b"hello", "neither a record nor a JSON-RPC message: hello"),
        (b"\xff\x00{\xfe", "neither a record nor a complete JSON-RPC message: \\xff\\x00{\\xfe"),
    ):
        path.write_bytes(data)
        for words in ("show", "stats", "export --format md", "replay", f"diff {path}"):
            status, _, err = run(capsys, *words.split(), str(path))
            assert status == 2  # of diff, 1 says that something is different
            assert err == f"Error: Expected a recording in {path}: line 1: {why}\n"


def test_stats_as_table_json_and_page(
    capsys: pytest.CaptureFixture[str], recording: str, tmp_path: Path
) -> None:
    _, out, _ = run(capsys, "stats", recording)
    assert "Cost: 0.25 USD" in out
    assert "Tokens: 10 input, 20 output, 30 total" in out
    assert "Context: 500 of 1000 tokens (50 %)" in out
    _, out, _ = run(capsys, "stats", "--json", recording)
    assert json.loads(out)["turns"][0]["stop_reason"] == "end_turn"
    page = tmp_path / "stats.html"
    assert run(capsys, "stats", "--html", str(page), recording) == (0, "", "")
    assert "<svg" in page.read_text("utf-8")
    if sys.platform != "win32":
        assert stat.S_IMODE(page.stat().st_mode) == 0o600


@requirement("R-TRACE-02")
def test_export_as_jsons_can_be_imported(
    capsys: pytest.CaptureFixture[str], recording: str, tmp_path: Path
) -> None:
    exported = tmp_path / "r.jsons"
    status, _, _ = run(capsys, "export", "--format", "jsons", "-o", str(exported), recording)
    assert status == 0
    messages = [item for item in open_trace(recording) if item.type != "invalid"]
    again = list(import_records(exported.read_bytes().splitlines()))
    assert [item.frame for item in again] == [item.frame for item in messages]  # type: ignore[union-attr]  # no header


def test_export_as_har_has_an_entry_for_each_request(
    capsys: pytest.CaptureFixture[str], recording: str, tmp_path: Path
) -> None:
    exported = tmp_path / "r.har"
    run(capsys, "export", "--format", "har", "-o", str(exported), recording)
    log = json.loads(exported.read_bytes())["log"]
    assert log["version"] == "1.2"
    found = [(entry["request"]["url"], entry["response"]["status"]) for entry in log["entries"]]
    assert found[0] == ("acp://agent/initialize", 200)
    assert ("acp://agent/session/load", 500) in found
    assert ("acp://client/fs/read_text_file", 0) in found
    assert log["entries"][0]["startedDateTime"] == "2026-05-01T10:00:00.000+00:00"


def test_export_as_markdown_is_a_transcript(
    capsys: pytest.CaptureFixture[str], recording: str, tmp_path: Path
) -> None:
    exported = tmp_path / "r.md"
    run(capsys, "export", "--format", "md", "-o", str(exported), recording)
    text = exported.read_text("utf-8")
    assert "> Fix it" in text
    assert "**Agent:** Hello world \\x1b[2J\\u202eevil" in text
    assert "(completed)" in text
    assert "session/load: -32002 not found" in text


async def record_turns(path: Path) -> None:
    argv = [sys.executable, "-m", "accord", "agent", "script"]
    with Recording(path, argv=argv) as recording:
        observers = [recording.hop().observer("client")]
        async with accord.connect(argv, observers=observers) as agent:
            session = await agent.new_session(cwd=path.parent)
            for prompt in ('echo \'Hello\'\n"""', "refuse"):
                async with session.prompt(prompt) as turn:
                    assert [event async for event in turn]


@requirement("R-TRACE-04")
@needs("accord_conformance")
def test_export_as_pytest_passes_with_the_recording_and_the_same_agent(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = pytester.path / "r.acp.jsonl"
    asyncio.run(record_turns(path))
    (pytester.path / "tests").mkdir()
    test = pytester.path / "tests" / "test_recorded.py"
    assert run(capsys, "export", "--format", "pytest", "-o", str(test), str(path))[0] == 0
    assert "RECORDING = '../r.acp.jsonl'" in test.read_text()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "-p", "accord_conformance.pytest_entry", str(test)
    )
    result.assert_outcomes(passed=2)


def test_diff_has_exit_status_1_for_differences(
    capsys: pytest.CaptureFixture[str], recording: str, tmp_path: Path
) -> None:
    assert run(capsys, "diff", recording, recording)[:2] == (0, "")
    same = json.loads(run(capsys, "diff", "--json", recording, recording)[1])
    assert same == {"same": True, "differences": [], "strict": False}
    other = str(one_turn(2).save(tmp_path / "other.acp.jsonl"))
    status, out, _ = run(capsys, "diff", recording, other)
    assert status == 1
    assert "- Agent → Client result of session/prompt" in out or "+ Agent" in out


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_show_follows_a_recording_until_it_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        hop = recording.hop()
        hop.frames("to_agent", [b'{"jsonrpc":"2.0","id":1,"method":"one"}'])
        argv = [sys.executable, "-m", "accord", "trace", "show", "--follow", str(path)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert b"one" in running.stdout.readline()
            hop.frames("to_client", [b'{"jsonrpc":"2.0","id":1,"result":{"x":"two"}}'])
            assert b'"two"' in running.stdout.readline()
            running.send_signal(signal.SIGINT)
            assert running.stdout.read() == b""
            assert running.wait(20) == 0
            assert running.stderr is not None
            assert running.stderr.read() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_show_follows_the_recording_that_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        recording.hop().frames("to_agent", [b'{"jsonrpc":"2.0","id":1,"method":"one"}'])
    argv = [sys.executable, "-m", "accord", "trace", "show", "--follow", str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert b"one" in running.stdout.readline()
        with Recording(path) as recording:  # renames the earlier one
            recording.hop().frames("to_agent", [b'{"jsonrpc":"2.0","id":1,"method":"two"}'])
            assert b"   1 " in (line := running.stdout.readline())
            assert b"two" in line
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
        assert running.stderr is not None
        assert b"r.acp.jsonl was replaced while it was read" in running.stderr.read()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_lines_fit_the_terminal(tmp_path: Path, columns: int) -> None:
    writer = one_turn()
    text = {"type": "text", "text": "宽" * 99}
    writer.update(9.0, sessionUpdate="agent_message_chunk", content=text)
    path = str(writer.save(tmp_path / "r.acp.jsonl"))
    shown = click.unstyle(on_a_terminal(columns, "show", path)).split("\r\n")[:-1]
    assert len(shown) == 16
    assert max(map(cell_len, shown)) <= columns
    assert "session/prompt" in shown[4]
    full = click.unstyle(on_a_terminal(columns, "show", "--full", path)).split("\r\n")
    assert max(map(cell_len, full)) > 200


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_colours_are_for_terminals_without_no_color(recording: str) -> None:
    assert "\x1b[" in on_a_terminal(80, "show", recording)
    assert "\x1b[" not in on_a_terminal(80, "show", recording, NO_COLOR="1")


def test_commands_write_over_neither_the_recording_nor_a_file_if_they_fail(
    capsys: pytest.CaptureFixture[str], recording: str, tmp_path: Path
) -> None:
    before = Path(recording).read_bytes()
    status, _, err = run(capsys, "export", "--format", "md", "-o", recording, recording)
    assert status == 2
    assert "--output is the recording itself" in err
    assert Path(recording).read_bytes() == before
    status, _, err = run(capsys, "stats", "--html", recording, recording)
    assert status == 2
    assert "--html is the recording itself" in err
    assert Path(recording).read_bytes() == before
    part = Path(recording).with_name("r.2.acp.jsonl")
    part.write_bytes(before)
    assert run(capsys, "stats", "--html", str(part), recording)[0] == 2
    assert part.read_bytes() == before
    good, bad = tmp_path / "good.md", tmp_path / "bad.txt"
    good.write_text("precious")
    bad.write_text("hello")
    status, _, err = run(capsys, "export", "--format", "md", "-o", str(good), str(bad))
    assert status == 2
    assert "Expected a recording in" in err
    assert run(capsys, "export", "--format", "md", str(bad))[:2] == (2, "")
    assert good.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    "words",
    [
        ["replay", "r.acp.jsonl"],
        ["record", "-o", "new.acp.jsonl", "--", sys.executable, "-m", "accord", "agent", "script"],
        ["tap", "-o", "new.acp.jsonl"],
    ],
    ids=["replay", "record", "tap"],
)
def test_command_that_a_client_starts_says_at_a_terminal_that_it_waits(
    recording: str, words: list[str]
) -> None:
    terminal, given = os.openpty()
    argv = [sys.executable, "-m", "accord", "trace", *words]
    folder = Path(recording).parent
    with subprocess.Popen(argv, stdin=given, stderr=subprocess.PIPE, cwd=folder) as running:
        os.close(given)
        assert running.stderr is not None
        text = f"accord trace {words[0]}: waiting for JSON lines from a client; end with Ctrl-D"
        assert running.stderr.readline().decode().strip() == text
        os.write(terminal, b"\x04")
        assert running.wait(30) == 0
    os.close(terminal)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("columns", [40, 80])
def test_differences_break_between_words(columns: int) -> None:
    recordings = ROOT / "tests/recordings"
    pair = [str(recordings / f"{name}.acp.jsonl") for name in ("gemini-cli", "qwen-code")]
    shown = click.unstyle(on_a_terminal(columns, "diff", *pair, status=1)).split("\r\n")[:-1]
    assert max(map(len, shown)) <= columns
    assert all(line.startswith(("~ ", "- ", "+ ", "    ")) for line in shown)
    printed = subprocess.run(
        [sys.executable, "-m", "accord", "trace", "diff", *pair],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    ).stdout
    assert "expected nothing, got" in printed
    if columns == 80:  # with fewer, values are longer than a line
        assert " ".join(" ".join(shown).split()) == " ".join(printed.split())
