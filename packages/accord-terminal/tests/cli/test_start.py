"""What `accord ask` imports, and when: the agent starts first, and nothing unused is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.screen import at_a_terminal

HEAVY = ("rich", "accord.client.connect", "accord.v1", "accord.v2", "mimetypes")
NOTE_ORDER = """
import sys
order = []
def note(event, args):
    if event == "import":
        order.append(args[0])
    elif event == "subprocess.Popen":
        order.append("> agent")
sys.addaudithook(note)
from accord.program import main
status = main(sys.argv[2:])
with open(sys.argv[1], "w") as report:
    print(*order, "> modules", *sys.modules, sep=chr(10), file=report)
sys.exit(status)
"""
# An agent that starts fast and says one message.
AGENT = """
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def update(**fields):
    send(method="session/update", params={"sessionId": "s", "update": fields})
for line in sys.stdin:
    call = json.loads(line)
    match call["method"]:
        case "initialize":
            info = {"name": "small", "version": "1"}
            result = {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}
        case "session/new":
            result = {"sessionId": "s"}
        case _:
            result = {"messageId": "p"}
    send(id=call["id"], result=result)
    if call["method"] == "session/prompt":
        content = {"type": "text", "text": "hi"}
        update(sessionUpdate="agent_message_chunk", messageId="m", content=content)
        update(sessionUpdate="state_update", state="idle", stopReason="end_turn")
"""
# What a turn with one message imports from `accord_terminal`, in every mode.
ALWAYS = {
    "accord_terminal",
    "accord_terminal.toolkit",
    "accord_terminal.toolkit.agent_names",
    "accord_terminal.ask",
    "accord_terminal.ask.cancellation",
    "accord_terminal.ask.run",
    "accord_terminal.ask.command",
    "accord_terminal.ask.conversation",
    "accord_terminal.toolkit.session_setup",
    "accord_terminal.toolkit.login",
    "accord_terminal.ask.options",
    "accord_terminal.toolkit.options",
    "accord_terminal.toolkit.text",
    "accord_terminal.ask.views",
    "accord_terminal.click_group",
}
FOR_PEOPLE = {"accord_terminal.ask.screen", "accord_terminal.toolkit.tool_rows"}
VIEWS: dict[str, set[str]] = {
    "--json": set(),
    "--quiet": set(),
    "pipe": FOR_PEOPLE,
    "terminal": FOR_PEOPLE
    | {"accord_terminal.toolkit.terminal_output", "accord_terminal.toolkit.markdown"},
}
# Other packages, with what they import themselves.
PACKAGES = {"accord", "accord_terminal", "click", "msgspec", "platformdirs", "typing_extensions"}
# markdown_it imports linkify_it if it is installed, as by textual.
FOR_TERMINALS = {"linkify_it", "markdown_it", "mdurl", "pygments", "rich", "uc_micro"}
# Slow to import, or needed only for options that are not given.
UNUSED = {
    "accord_terminal.agents",
    "accord_terminal.install",
    "accord.agent",
    "accord_coder.command",
    "accord.v1",
    "accord_coder",
    "accord_conformance",
    "argparse",
    "dataclasses",
    "difflib",
    "email",
    "glob",
    "importlib.metadata",
    "mimetypes",
    "sqlite3",
    "tomllib",
    "webbrowser",
}


def imported(
    tmp_path: Path, *words: str, terminal: bool = False
) -> tuple[list[str], list[str], set[str]]:
    """Return the imports before the agent is started and afterwards, and all modules at the end."""
    report = tmp_path / "order.txt"
    (tmp_path / "agent.py").write_text(AGENT)
    agent = f"{sys.executable} {tmp_path / 'agent.py'}"
    argv = [sys.executable, "-c", NOTE_ORDER, str(report), "ask", "echo hi", "--agent", agent]
    if terminal:
        with at_a_terminal(*argv, *words, cwd=tmp_path) as person:
            assert person.leaves() == 0, person.seen
    else:
        done = subprocess.run(
            [*argv, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
    order = report.read_text("utf-8").splitlines()
    at, end = order.index("> agent"), order.index("> modules")
    return order[:at], order[at:end], set(order[end + 1 :])


@pytest.mark.parametrize(
    "mode",
    [
        "--json",
        "--quiet",
        "pipe",
        pytest.param(
            "terminal",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals"),
        ),
    ],
)
def test_agent_starts_first_and_nothing_unused_is_imported(mode: str, tmp_path: Path) -> None:
    words = [mode] if mode.startswith("--") else []
    before, after, modules = imported(tmp_path, *words, terminal=mode == "terminal")
    assert not set(HEAVY).intersection(before), "the agent is started first"
    assert "accord.client.connect" in after
    assert {name for name in modules if f"{name}.".startswith("accord_terminal.")} == (
        ALWAYS | VIEWS[mode]
    )
    allowed = PACKAGES | FOR_TERMINALS if mode == "terminal" else PACKAGES
    others = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - allowed
    assert not {name for name in others if not name.startswith(("_", "sitecustomize"))}
    if mode != "terminal":  # rich imports some of them
        assert not UNUSED & modules
