"""How `accord ask` starts: the agent first, then what shows its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
status = main(sys.argv[1:])
print(*order, sep="\\n", file=sys.stderr)
sys.exit(status)
"""


def imported(*words: str) -> tuple[list[str], list[str]]:
    """Return what `accord ask` imports before its agent is started, and afterwards."""
    agent = f"{sys.executable} {AGENTS} script 2"
    done = subprocess.run(
        [sys.executable, "-c", NOTE_ORDER, "ask", "echo hi", "--agent", agent, *words],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    order = done.stderr.splitlines()
    at = order.index("> agent")
    return order[:at], order[at:]


def test_agent_is_started_before_anything_else_is_imported() -> None:
    before, after = imported()
    assert not set(HEAVY).intersection(before)
    assert {"rich", "accord.client.connect"} <= {name.partition(".console")[0] for name in after}


def test_json_lines_need_neither_rich_nor_the_other_version() -> None:
    before, after = imported("--json")
    names = {*before, *after}
    assert "rich" not in names
    assert "accord.v1" not in names


def test_markdown_is_not_imported_for_a_pipe() -> None:
    assert "rich.markdown" not in imported()[1]
