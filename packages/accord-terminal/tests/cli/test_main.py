"""The program `accord`: commands, exit status, imports, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import accord
from accord.installed import install_command
from accord.program import COMMANDS

FULL = Path("/dev/full")

# Slow to import, and not needed before the first message.
LATE = {"argparse", "click", "rich", "sqlite3", "accord.client", "accord.v1", "accord.v2"}


def run(
    *arguments: str, start: tuple[str, ...] = ("-m", "accord")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *start, *arguments],
        input="",
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_help_names_every_command() -> None:
    done = run("--help", start=("-W", "error", "-m", "accord"))
    assert done.returncode == 0, done.stderr
    for name, summary in COMMANDS.items():
        assert name in done.stdout
        assert summary.split()[0] in done.stdout


def test_version_is_printed() -> None:
    assert run("--version").stdout == f"accord {accord.__version__}\n"


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("line", "unbuffered"),
    [
        *((line, "") for line in ("", "--help", "--version", "agent --help", "agents list")),
        *((line, "") for line in ("ask --help", "check agent --help", "session list --json")),
        *((line, "") for line in ("install zed --print", "trace --help")),
        *((f"ask --agent script {option}echo", "") for option in ("", "--json ", "--quiet ")),
        # Without a buffer the error comes from the first line that is written: one of each kind.
        *((line, "1") for line in ("--help", "agents list", "session list --json")),
        *((f"ask --agent script {option}echo", "1") for option in ("", "--json ")),
    ],
)
def test_full_output_is_one_line_on_stderr(line: str, unbuffered: str, tmp_path: Path) -> None:
    folders = {"ACCORD_STATE": str(tmp_path), "ACCORD_CONFIG": str(tmp_path)}
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "accord", *line.split()],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=50,
            check=False,
            env=os.environ | folders | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1, done.stderr
    assert done.stderr.rstrip().splitlines()[-1].endswith("No space left on device")
    assert "annot write the output" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_reader_of_the_help_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m accord --help | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("U", "")


@pytest.mark.parametrize("arguments", [("dance",), ("--dance",)])
def test_invalid_command_line_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "dance" in done.stderr


def test_agent_imports_only_what_it_needs() -> None:
    code = (
        "import sys; from accord.program import main; status = main(['agent']);"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(status)"
    )
    done = run(start=("-W", "error", "-c", code))
    assert done.returncode == 0, done.stderr
    assert not LATE & set(done.stderr.split())


NO_EXTRAS = (
    "import sys; sys.modules.update(click=None, rich=None, platformdirs=None)\n"
    "from accord.program import main; sys.exit(main({words!r}))"
)


@pytest.mark.parametrize("words", [["ask", "hello"], ["agents"], ["check", "rules"]])
def test_missing_extra_is_one_clear_line(words: list[str]) -> None:
    done = run(start=("-c", NO_EXTRAS.format(words=words)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"accord: `accord {words[0]}` requires more packages: {install_command('cli')}\n"
    )


NO_REMOTE = (
    "import sys; sys.modules.update(dict.fromkeys(('h11', 'h2', 'httpx2', 'hypercorn',"
    " 'websockets')))\nfrom accord.program import main; sys.exit(main({words!r}))"
)


@pytest.mark.parametrize(
    "words",
    [
        ["serve"],
        *(["ask", "hello", "--agent", f"{scheme}://127.0.0.1:1/acp"] for scheme in ("ws", "http")),
        *(["bridge", f"{scheme}://127.0.0.1:1/acp"] for scheme in ("ws", "http")),
        *(["check", "agent", f"{scheme}://127.0.0.1:1/acp"] for scheme in ("ws", "http")),
    ],
    ids=" ".join,
)
def test_missing_packages_for_remote_agents_are_one_clear_line(words: list[str]) -> None:
    done = run(start=("-c", NO_REMOTE.format(words=words)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f" requires more packages: {install_command('remote')}\n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("missing", ["click", "hypercorn", "psutil", "starlette"])
def test_missing_packages_of_the_inspector_are_one_clear_line(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from accord.program import main; sys.exit(main(['inspect', 'x.acp.jsonl']))"
    )
    done = run(start=("-W", "error", "-c", code))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"accord: `accord inspect` requires more packages: {install_command('inspector')}\n"
    )


def test_missing_packages_of_the_coding_agent_are_one_clear_line() -> None:
    without = "import sys; sys.modules['accord_coder'] = None; from accord.program import main;"
    done = run(start=("-c", f"{without} sys.exit(main(['agent']))"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"accord agent: the coding agent requires more packages: {install_command('cli')},"
        f" or {install_command('cli,coder')} to use a language model\n"
    )
    done = run(start=("-c", f"{without} sys.exit(main(['agent', 'script']))"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_and_version_need_no_extras(words: list[str]) -> None:
    done = run(start=("-c", NO_EXTRAS.format(words=words)))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("--help").stdout
    version = run(start=("-c", NO_EXTRAS.format(words=["--version"])))
    assert version.stdout == f"accord {accord.__version__}\n"


@pytest.mark.parametrize("extras", [True, False])
def test_unknown_command_is_named(extras: bool) -> None:
    done = run("bogus") if extras else run(start=("-c", NO_EXTRAS.format(words=["bogus"])))
    assert (done.returncode, done.stdout) == (2, "")
    assert "'bogus'" in done.stderr
    assert f"expected one of {', '.join(sorted(COMMANDS))};" in done.stderr


def completed(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_ACCORD_COMPLETE", "bash_complete")
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    return [candidate.partition(",")[2] for candidate in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("accord a", ["agent", "agents", "ask"]),
        ("accord agent ", ["coder", "script"]),
        ("accord agent --mo", ["--mode", "--model"]),
        ("accord agent --mode p", ["plan"]),
        ("accord agent --fetch s", ["script"]),
        ("accord ask --prot", ["--protocol"]),
        ("accord ask --protocol ", ["1", "2"]),
        ("accord check tr", ["trace"]),
        ("accord ask --agent s", ["script"]),
    ],
)
def test_shells_complete_commands_and_options(
    line: str, candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert completed(line, monkeypatch) == candidates


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ACCORD_COMPLETE", f"{shell}_source")
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "_ACCORD_COMPLETE" in done.stdout


def test_completion_without_extras_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ACCORD_COMPLETE", "bash_complete")
    done = run(start=("-c", NO_EXTRAS.format(words=[])))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
