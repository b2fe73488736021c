"""What `accord ask` imports, and when: the agent starts first, and nothing unused is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.screen import at_a_terminal

AGENTS = Path(__file__).parent / "agents.py"
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
from accord.cli.main import main
status = main(sys.argv[2:])
with open(sys.argv[1], "w") as report:
    print(*order, "> modules", *sys.modules, sep=chr(10), file=report)
sys.exit(status)
"""
# What a turn with one message imports from `accord.cli`, in every mode.
ALWAYS = {
    "accord.cli",
    "accord.cli.agent_names",
    "accord.cli.ask",
    "accord.cli.ask.cancellation",
    "accord.cli.ask.command",
    "accord.cli.ask.conversation",
    "accord.cli.ask.latest_session",
    "accord.cli.ask.login",
    "accord.cli.ask.options",
    "accord.cli.output",
    "accord.cli.remote_token",
    "accord.cli.ask.run",
    "accord.cli.ask.safe_text",
    "accord.cli.ask.session_setup",
    "accord.cli.ask.terminal_login",
    "accord.cli.ask.views",
    "accord.cli.ask.views.lazy_view",
    "accord.cli.click_group",
    "accord.cli.installed_agents",
    "accord.cli.main",
    "accord.cli.settings",
    "accord.cli.standard_streams",
}
FOR_PEOPLE = {
    "accord.cli.ask.screen",
    "accord.cli.ask.screen.diff_rows",
    "accord.cli.ask.screen.excerpt_place",
    "accord.cli.ask.screen.live_region",
    "accord.cli.ask.screen.rich_screen",
    "accord.cli.ask.screen.rows",
    "accord.cli.ask.screen.tool_rows",
    "accord.cli.ask.screen.turn_summary",
}
VIEWS = {
    "--json": {"accord.cli.ask.views.json_lines"},
    "--quiet": {"accord.cli.ask.views.answer_only"},
    "pipe": FOR_PEOPLE | {"accord.cli.ask.screen.piped_answer", "accord.cli.ask.screen.writer"},
    "terminal": FOR_PEOPLE
    | {
        "accord.cli.ask.screen.folding",
        "accord.cli.ask.screen.markdown",
        "accord.cli.ask.screen.terminal_output",
    },
}
# Other packages, with what they import themselves.
PACKAGES = {"accord", "click", "msgspec", "platformdirs", "typing_extensions"}
# markdown_it imports linkify_it if it is installed, as by textual.
FOR_TERMINALS = {"linkify_it", "markdown_it", "mdurl", "pygments", "rich", "uc_micro"}
# Slow to import, or needed only for options that are not given.
UNUSED = {
    "accord_agents",
    "accord_editors",
    "accord.agent",
    "accord.cli.agent",
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
    agent = f"{sys.executable} {AGENTS} script 2"
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


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has terminals")
def test_agent_is_started_before_anything_else_is_imported(tmp_path: Path) -> None:
    before, after, _ = imported(tmp_path, terminal=True)
    assert not set(HEAVY).intersection(before)
    assert {"rich", "accord.client.connect"} <= set(after)


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
def test_nothing_is_imported_that_a_turn_does_not_use(mode: str, tmp_path: Path) -> None:
    words = [mode] if mode.startswith("--") else []
    _, _, modules = imported(tmp_path, *words, terminal=mode == "terminal")
    assert {name for name in modules if f"{name}.".startswith("accord.cli.")} == (
        ALWAYS | VIEWS[mode]
    )
    allowed = PACKAGES | FOR_TERMINALS if mode == "terminal" else PACKAGES
    others = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - allowed
    assert not {name for name in others if not name.startswith(("_", "sitecustomize"))}
    if mode != "terminal":  # rich imports some of them
        assert not UNUSED & modules
