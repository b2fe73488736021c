"""A message that is copied repeats it as a Python program or a shell command; text stays text."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import v1, v2
from accord_inspector.timeline import Origin, copies
from accord_trace.recording import Recording
from accord_trace.records import Record, decode_record
from forked import forked_programs

AGENT = [sys.executable, "-m", "accord", "agent", "script"]
HOSTILE = (
    "'; touch owned; echo '",
    '"""; import os; os.system("touch owned") #',
    "$(touch owned) `touch owned` ${HOME} !! \\' \\",
    "a\nb\r\n\t\x1b[201~touch owned\n\x07\x00\x7f",
    "\u202egnp.exe\u2066 \ufeff\u200b \U000e0041",
    "%s %n %% \\x41 \\u0041 \\n",
    "-",
    "--help",
    "ärger 日本 🙂 \ud800",
)
BASH = shutil.which("bash") or "bash"


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    """Start the copied programs by forks, and their agents, too."""
    with forked_programs():
        yield


def record_of(tmp_path: Path, frame: bytes, direction: Any = "to_agent") -> Record:
    """Return a frame as a recording has it."""
    path = tmp_path / "one.acp.jsonl"
    path.unlink(missing_ok=True)
    with Recording(path, redact=False) as recording:
        recording.add(recording.hop(), [(direction, frame)])
    found = decode_record(path.read_bytes().splitlines()[1])
    assert found is not None
    return found


def request(method: str, params: Any, **more: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}
    ).encode()


def run(command: list[str], tmp_path: Path) -> str:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert not (tmp_path / "owned").exists()
    return done.stdout.decode("utf-8", "surrogatepass")


def literal(python: str) -> Any:
    return literal_eval(python.partition(" = ")[2])


def printable(text: str) -> bool:
    return all(c == "\n" or c.isprintable() for c in text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_every_form(tmp_path: Path, text: str) -> None:
    value = {"jsonrpc": "2.0", "id": text, "method": text, "params": {text: [text, 1e300, None]}}
    record = record_of(tmp_path, json.dumps(value).encode())
    found = copies(record, Origin(number=1))
    assert json.loads(found.json) == value
    assert literal(found.python) == value
    assert all(map(printable, (found.json, found.python, found.shell)))
    for shell in (BASH, "sh"):
        assert json.loads(run([shell, "-c", found.shell], tmp_path)) == value


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_prompt_and_command_are_single_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "accord").write_text(
        f"#!{sys.executable}\nimport json, sys\nprint(json.dumps([sys.argv[1:], "
        "sys.stdin.read() if '-' in sys.argv[3:] else None]))\n"
    )
    (tmp_path / "accord").chmod(0o755)
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    record = record_of(tmp_path, request("session/prompt", params))
    found = copies(record, Origin(number=1, command=["agent", text], version=1))
    compile(found.python, "copied", "exec")
    assert all(map(printable, (found.python, found.shell)))
    shell = f"PATH={tmp_path}:$PATH; {found.shell.replace('| agent', '| cat; : agent')}"
    shown = run([BASH, "-c", shell], tmp_path)
    if "\0" in text:  # a shell has no such word: the frame is sent to the agent
        assert json.loads(shown.splitlines()[0])["params"] == params
        return
    argv, stdin = json.loads(shown)
    assert argv[:2] == ["ask", "--protocol"]
    assert (stdin if text == "-" else argv[-1]) == text.replace("\ud800", "?")


@settings(max_examples=30, deadline=None)
@given(st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
))  # fmt: skip
def test_every_value_is_the_same_in_python_and_json(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    record = record_of(tmp_path_factory.getbasetemp(), request("_x", value), "to_client")
    found = copies(record, Origin(number=1))
    message = json.loads(record.frame)
    assert json.loads(found.json) == message
    names = {"json": json}
    exec(found.python, names)
    assert names["MESSAGE"] == message


def test_deep_and_very_large_values_are_copied(tmp_path: Path) -> None:
    for text in (b"9" * 300, b"[" * 400 + b"]" * 400):
        frame = b'{"jsonrpc":"2.0","id":1,"method":"_x","params":{"v":%b}}' % text
        names: dict[str, Any] = {"json": json}
        exec(copies(record_of(tmp_path, frame), Origin(number=1)).python, names)
        assert names["MESSAGE"] == json.loads(frame)


@pytest.mark.parametrize("frame", [b"\xff\xfe{ 50% 'x' \\n", b"not JSON \x1b[0m", b"'"])
def test_frame_that_is_not_json_is_printed_byte_by_byte(tmp_path: Path, frame: bytes) -> None:
    found = copies(record_of(tmp_path, frame), Origin(number=1))
    assert found.json == ""
    assert literal(found.python) == frame
    for shell in (BASH, "sh"):
        done = subprocess.run([shell, "-c", found.shell], capture_output=True, check=True)
        assert done.stdout == frame + b"\n"


REPEATED = (
    (
        "session/prompt",
        {"sessionId": "s", "prompt": [{"type": "text", "text": "echo it's"}]},
        "it's",
    ),
    (
        "session/prompt",
        {
            "sessionId": "s",
            "prompt": [
                {"type": "text", "text": "echo x"},
                {"type": "resource_link", "uri": "file:///x", "name": "x"},
            ],
        },
        "end_turn",
    ),
    ("session/set_mode", {"sessionId": "s", "modeId": "auto"}, "SetSessionModeResponse"),
    (
        "session/set_config_option",
        {"sessionId": "s", "configId": "model", "value": "large"},
        "SelectOption",
    ),
    ("session/list", {}, "ListSessionsResponse"),
    ("initialize", {"protocolVersion": 1}, "InitializeResponse"),
)


@pytest.mark.parametrize(("method", "params", "shown"), REPEATED)
def test_python_program_repeats_the_request(
    tmp_path: Path, method: str, params: Any, shown: str
) -> None:
    record = record_of(tmp_path, request(method, params))
    found = copies(record, Origin(number=3, command=AGENT, version=1))
    assert "message 3" in found.python
    (tmp_path / "copied.py").write_text(found.python)
    assert shown in run([sys.executable, "copied.py"], tmp_path)


def test_python_program_calls_an_extension_method(tmp_path: Path) -> None:
    record = record_of(tmp_path, request("_example/unknown", {"x": 1}))
    found = copies(record, Origin(number=3, command=AGENT, version=1))
    (tmp_path / "copied.py").write_text(found.python)
    with pytest.raises(AssertionError, match="Method not found: _example/unknown"):
        run([sys.executable, "copied.py"], tmp_path)


def test_shell_command_repeats_the_request(tmp_path: Path) -> None:
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": "echo it's"}]}
    origin = Origin(number=3, command=AGENT, version=1)
    found = copies(record_of(tmp_path, request("session/prompt", params)), origin)
    assert "it's" in run([BASH, "-c", found.shell], tmp_path)
    opening = request("initialize", {"protocolVersion": 1}, id=1)
    origin = Origin(number=3, command=AGENT, version=1, initialize=opening)
    found = copies(record_of(tmp_path, request("session/list", {})), origin)
    shown = run(["sh", "-c", found.shell.replace("sleep 5", "sleep 2")], tmp_path)
    answers = [json.loads(line) for line in shown.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 7]
    assert "sessions" in answers[1]["result"]


@pytest.mark.parametrize("version", [1, 2])
def test_program_of_every_method_names_what_the_library_has(tmp_path: Path, version: int) -> None:
    module = {1: v1, 2: v2}[version]
    for method in module.METHODS:
        if method.to != "agent":
            continue
        record = record_of(tmp_path, request(method.name, {"sessionId": "s"}))
        text = copies(record, Origin(number=1, command=["agent"], version=version)).python
        compile(text, method.name, "exec")
        if method.call not in ("initialize", "set_session_config_option"):
            assert hasattr(module, method.params.__name__), method.name
            assert f"agent.remote.{method.call}(params)" in text


def test_secrets_of_a_recording_are_not_in_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    server = {"name": "x", "command": "x", "args": [], "env": [{"name": "KEY", "value": "hunter2"}]}
    with Recording(path) as recording:
        hop = recording.hop()
        recording.add(
            hop, [("to_agent", request("session/new", {"cwd": "/", "mcpServers": [server]}))]
        )
    record = decode_record(path.read_bytes().splitlines()[1])
    assert record is not None
    found = copies(record, Origin(number=1, command=["agent"], version=1))
    for text in (found.json, found.python, found.shell):
        assert "hunter2" not in text
        assert "[redacted]" in text
    assert "Replace [redacted]" in found.python
    assert "# Replace [redacted]" in found.shell
