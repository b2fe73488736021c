"""The program `accord`: its commands, its exit status, what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import accord
from accord.cli.main import COMMANDS

# What is slow to import, and not needed before a client speaks.
LATE = {"argparse", "click", "rich", "sqlite3", "accord.client", "accord.v1", "accord.v2"}


def run(
    *arguments: str, start: tuple[str, ...] = ("-m", "accord")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *start, *arguments],
        input="",
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    for name, summary in COMMANDS.items():
        assert name in done.stdout
        assert summary.split()[0] in done.stdout


def test_version_is_told() -> None:
    assert run("--version").stdout == f"accord {accord.__version__}\n"


@pytest.mark.parametrize("arguments", [("dance",), ("--dance",)])
def test_what_is_not_understood_is_refused(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "dance" in done.stderr


def test_agent_starts_with_what_it_needs_only() -> None:
    code = (
        "import sys; from accord.cli.main import main; status = main(['agent']);"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(status)"
    )
    done = run(start=("-c", code))
    assert done.returncode == 0, done.stderr
    assert not LATE & set(done.stderr.split())


def test_missing_extra_is_one_clear_line(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['click'] = None\n"
        "from accord.cli.main import main; sys.exit(main(['--help']))"
    )
    done = run(start=("-c", code))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "accord: this needs more packages: pip install 'accord[cli]'\n"
