"""Runs tests of one tree again and again, each time in a process that has imported pytest already.

Reads one JSON request per line from stdin and writes one JSON response per line to the descriptor
in `MUTATION_REPLIES`. Every run is alone in a new PID namespace: a mutant that signals the wrong
processes reaches none of the machine, and nothing that it starts is left behind.

This module is also the pytest plugin that reports results, and the start of measured processes.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
MEMORY = 4 << 30
# What tests import that does not belong to the tree.
IMPORTED_BEFORE = (
    "_pytest.assertion.rewrite", "asyncio", "click", "h11", "httpx2", "hypothesis", "msgspec",
    "psutil", "pytest", "pytest_asyncio.plugin", "pytest_timeout", "rich.console", "sqlite3",
    "unittest.mock", "websockets", "xdist.plugin",
)  # fmt: skip


def serve() -> None:
    """Answer requests until stdin ends."""
    replies = os.fdopen(int(os.environ["MUTATION_REPLIES"]), "w")
    for name in IMPORTED_BEFORE:
        with suppress(ImportError):
            __import__(name)
    for line in sys.stdin:
        replies.write(json.dumps(_run(json.loads(line))) + "\n")
        replies.flush()


def _run(request: dict[str, Any]) -> dict[str, Any]:
    """Run pytest with `args` for at most `seconds`, and return what it found."""
    started = time.monotonic()
    # Short, because the paths of sockets have little room.
    scratch = Path(tempfile.mkdtemp(prefix="mut"))
    scratch.chmod(0o755)
    report = scratch / "report.json"
    guard = os.fork()
    if guard == 0:
        with _reported():
            _guard(request["args"], scratch, report, Path(request["log"]), request["seconds"])
    _, status = os.waitpid(guard, 0)
    found = read_report(report)
    shutil.rmtree(scratch, ignore_errors=True)
    late = os.waitstatus_to_exitcode(status) == 3
    if os.waitstatus_to_exitcode(status) == 4:
        found["exit"] = "no namespace"
    return {**found, "late": late, "seconds": time.monotonic() - started}


@contextmanager
def _reported() -> Generator[None, None, None]:
    """Print what a forked process raises, and end it in any case."""
    try:
        yield
    except BaseException:  # noqa: BLE001  # the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _guard(args: list[str], scratch: Path, report: Path, log: Path, seconds: float) -> None:
    """Make the namespaces, start the first process in them, and kill it when time is over."""
    os.setsid()
    try:
        _new_namespaces()
    except OSError as error:
        sys.stderr.write(f"mutation: Linux refuses a PID namespace: {error}\n")
        os._exit(4)
    first = os.fork()
    if first == 0:
        with _reported():
            _first_process(args, scratch, report, log)
    deadline = time.monotonic() + seconds
    pause = 0.005
    while not os.waitpid(first, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)
            os._exit(3)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    os._exit(0)


def _new_namespaces() -> None:
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWPID | CLONE_NEWNS | (CLONE_NEWUSER if user else 0)
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)


def _first_process(args: list[str], scratch: Path, report: Path, log: Path) -> None:
    """Be the first process of the namespace: wait for orphans until the tests have ended."""
    ctypes.CDLL(None).mount(b"proc", b"/proc", b"proc", 0, None)
    tests = os.fork()
    if tests == 0:
        with _reported():
            _tests(args, scratch, report, log)
    while os.wait()[0] != tests:
        pass
    os._exit(0)


def _tests(args: list[str], scratch: Path, report: Path, log: Path) -> None:
    default_signals()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
    os.dup2(1, 2)
    os.environ["TMPDIR"] = os.environ["HOME"] = str(scratch)
    os.environ["MUTATION_REPORT"] = str(report)
    tempfile.tempdir = None
    import pytest

    early = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    pytest.main([*args, "-p", "mutation_server", "-W", early])


def default_signals() -> None:
    """Give tests the signals of a terminal, whatever the parent ignores (`nohup`, `&`)."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)


# What follows is the plugin: pytest imports this module by the name `mutation_server`.

_WORST = ("passed", "skipped", "failed")
_seconds: dict[str, float] = {}
_outcomes: dict[str, str] = {}


def _measuring() -> Any:
    """Return what measures coverage in this process, or None."""
    if "COVERAGE_PROCESS_START" not in os.environ:
        return None
    from coverage import Coverage

    return Coverage.current()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Name the test to coverage, here and in the processes that the test starts."""
    os.environ["COVERAGE_CONTEXT"] = nodeid
    if measuring := _measuring():
        measuring.switch_context(nodeid)


def pytest_runtest_logfinish() -> None:
    """End what `pytest_runtest_logstart` began."""
    os.environ["COVERAGE_CONTEXT"] = ""
    if measuring := _measuring():
        measuring.switch_context("")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out the tests that were run before the measurement was stopped."""
    if path := os.environ.get("MUTATION_DONE"):
        done = set(json.loads(Path(path).read_text("utf-8")))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome and the duration of a test, set-up included; write it down at the end."""
    name = report.nodeid
    _seconds[name] = round(_seconds.get(name, 0.0) + report.duration, 4)
    _outcomes[name] = max(_outcomes.get(name, "passed"), report.outcome, key=_WORST.index)
    path = os.environ.get("MUTATION_REPORT")
    if report.when == "teardown" and path and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(path).open("a", encoding="utf-8") as out:
            out.write(json.dumps([name, _outcomes[name], _seconds[name]]) + "\n")


def pytest_sessionfinish(exitstatus: int) -> None:
    """Save the coverage of this process, and write down the exit status."""
    if measuring := _measuring():
        measuring.stop()
        measuring.save()
    path = os.environ.get("MUTATION_REPORT")
    if path and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(path).open("a", encoding="utf-8") as out:
            out.write(json.dumps(["", "exit", int(exitstatus)]) + "\n")


def read_report(path: Path) -> dict[str, Any]:
    """Return the seconds of tests by outcome, and the exit status of pytest, None if it died."""
    found: dict[str, Any] = {"exit": None, **{outcome: {} for outcome in _WORST}}
    if path.is_file():
        for line in path.read_text("utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                name, outcome, number = json.loads(line)
                if outcome == "exit":
                    found["exit"] = number
                else:
                    found[outcome][name] = number
    return found


if __name__ == "__main__":
    serve()
