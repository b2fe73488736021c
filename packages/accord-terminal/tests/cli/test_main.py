"""The program `accord`: commands, exit status, imports, completion."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import accord
from accord.installed import install_command
from accord.program import COMMANDS, main
from needs import needs

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
        *((line, False) for line in ("", "--help", "--version", "agents list", "ask --help")),
        pytest.param("agent --help", False, marks=needs("accord_coder")),
        pytest.param("check agent --help", False, marks=needs("accord_conformance")),
        ("session list --json", False),
        *((line, False) for line in ("install zed --print", "trace --help")),
        *((f"ask --agent script {option}echo", False) for option in ("", "--json ", "--quiet ")),
        # Without a buffer the error comes from the first line that is written.
        ("agents list", True),
        ("ask --agent script --json echo", True),
    ],
)
def test_full_output_is_one_line_on_stderr(
    line: str, unbuffered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCORD_STATE", str(tmp_path))
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path))
    if unbuffered:
        monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # which only a new interpreter reads
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "accord", *line.split()],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=50,
            check=False,
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


def test_invalid_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dance"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "dance" in said.err


@needs("accord_coder")
def test_agent_imports_only_what_it_needs() -> None:
    code = (
        "import sys; from accord.program import main; status = main(['agent']);"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(status)"
    )
    done = run(start=("-W", "error", "-c", code))
    assert done.returncode == 0, done.stderr
    assert not LATE & set(done.stderr.split())


@contextmanager
def without(*packages: str) -> Iterator[None]:
    """Let packages be missing, and Accord be imported anew, in this block."""
    with patch.dict(sys.modules):
        for name in [*sys.modules]:
            if name.partition(".")[0].startswith("accord") or name.partition(".")[0] in packages:
                del sys.modules[name]
        with patch.dict(sys.modules, dict.fromkeys(packages)):
            yield


def run_here(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[Any, str, str]:
    """Run a command line in this process; return its status and what it writes."""
    try:
        status = import_module("accord.program").main(words)
    except SystemExit as left:
        status = left.code
    said = capsys.readouterr()
    return status, said.out, said.err


WITHOUT_EXTRAS = ("click", "rich", "platformdirs")


def test_program_without_extras(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its help needs none; a missing one is one clear line."""
    need = [["ask", "hello"], ["agents"], ["check", "rules"]]
    helps = [[], ["-h"], ["--help"]]
    with without(*WITHOUT_EXTRAS):
        results = [run_here(words, capsys) for words in (*need, *helps, ["--version"], ["bogus"])]
        monkeypatch.setenv("_ACCORD_COMPLETE", "bash_complete")
        assert run_here([], capsys) == (0, "", "")  # no error in the middle of the user's line
        monkeypatch.delenv("_ACCORD_COMPLETE")
    for words, result in zip(need, results, strict=False):
        line = f"accord: `accord {words[0]}` requires more packages: {install_command('cli')}\n"
        assert result == (2, "", line)
    *helped, version, bogus = results[len(need) :]
    assert helped == [run_here(["--help"], capsys)] * 3
    assert version == (0, f"accord {accord.__version__}\n", "")
    for status, out, err in (bogus, run_here(["bogus"], capsys)):
        assert (status, out) == (2, "")
        assert "'bogus'" in err
        assert f"expected one of {', '.join(sorted(COMMANDS))};" in err


@needs("accord_conformance")
def test_missing_packages_for_remote_agents_are_one_clear_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    urls = [f"{scheme}://127.0.0.1:1/acp" for scheme in ("ws", "http")]
    calls = [["serve"]]
    calls += [["ask", "hello", "--agent", url] for url in urls]
    calls += [["bridge", url] for url in urls]
    calls += [["check", "agent", url] for url in urls]
    remote = ("h11", "h2", "httpx2", "hypercorn", "websockets")
    for words in calls:
        with without(*remote):
            status, out, err = run_here(words, capsys)
        assert (status, out) == (2, ""), words
        assert err.endswith(f" requires more packages: {install_command('remote')}\n"), words
        assert "Traceback" not in err, words


def test_missing_packages_of_the_inspector_are_one_clear_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"accord: `accord inspect` requires more packages: {install_command('inspector')}\n"
    for missing in ("click", "hypercorn", "psutil", "starlette"):
        with without(missing):
            assert run_here(["inspect", "x.acp.jsonl"], capsys) == (2, "", line), missing


def test_missing_packages_of_the_coding_agent_are_one_clear_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with without("accord_coder"):
        coder = run_here(["agent"], capsys)
    line = (
        f"accord agent: the coding agent requires more packages: {install_command('cli')},"
        f" or {install_command('cli,coder')} to use a language model\n"
    )
    assert coder == (2, "", line)


@needs("accord_coder", "accord_conformance")
def test_shells_complete_commands_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_ACCORD_COMPLETE", "bash_complete")
    for line, candidates in (
        ("accord a", ["agent", "agents", "ask"]),
        ("accord agent ", ["coder", "script"]),
        ("accord agent --mo", ["--mode", "--model"]),
        ("accord agent --mode p", ["plan"]),
        ("accord agent --fetch s", ["script"]),
        ("accord ask --prot", ["--protocol"]),
        ("accord ask --protocol ", ["1", "2"]),
        ("accord check tr", ["trace"]),
        ("accord ask --agent s", ["script"]),
    ):
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        status, out, err = run_here([], capsys)
        assert (status, err) == (0, ""), line
        assert [found.partition(",")[2] for found in out.splitlines()] == candidates, line


def test_completion_script_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_ACCORD_COMPLETE", f"{shell}_source")
        status, out, err = run_here([], capsys)
        assert (status, err) == (0, ""), shell
        assert "_ACCORD_COMPLETE" in out, shell
