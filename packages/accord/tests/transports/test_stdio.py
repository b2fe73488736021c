from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import socket
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from requirement import requirement

AGENT = [sys.executable, str(Path(__file__).parent / "programs" / "agent.py")]
FRAMES = b'{"a":1}\n{"b":2}\n'


def run(*argv: str, redirected: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run an echoing agent; its file descriptors are redirected as by a shell."""
    return subprocess.run(
        [*AGENT, *argv],
        input=FRAMES,
        capture_output=True,
        check=False,
        timeout=30,
        preexec_fn=(lambda: redirect(redirected)) if redirected else None,
    )


def redirect(how: str) -> None:
    for word in how.split():
        found = re.fullmatch(r"(2?)([<>])(&-|&1|/.+)", word)
        assert found is not None, word
        fd = 0 if found[2] == "<" else int(found[1] or 1)
        match found[3]:
            case "&-":
                os.close(fd)
            case "&1":
                os.dup2(1, fd)
            case path:
                opened = os.open(path, os.O_RDONLY if fd == 0 else os.O_WRONLY | os.O_CREAT)
                os.dup2(opened, fd)
                os.close(opened)


def program(folder: Path, code: str) -> list[str]:
    """Return the command of a program that starts faster than by `-c`."""
    file = folder / "program.py"
    file.write_text(code)
    return [sys.executable, str(file)]


@requirement("R-STDIO-04", "R-STDIO-01")
def test_only_frames_reach_stdout_and_other_output_goes_to_stderr_in_order() -> None:
    done = run("print")
    assert done.stdout == FRAMES
    assert done.stderr.decode().splitlines() == [
        "before",
        "from os.write",
        "from print",
        "from a child",
        "from the old stdout",
        "from C",
        "from halves",
        "from stderr",
        "from a log",
    ]


@requirement("R-STDIO-05")
def test_only_the_transport_reads_stdin() -> None:
    done = run("read")
    assert done.stdout == FRAMES
    assert done.stderr == b"left for children b'', for us ''\n"


def test_print_after_close_goes_to_stdout_again() -> None:
    assert run("later").stdout == FRAMES + b"later\n"


def test_last_prints_of_a_serving_program_are_not_sent() -> None:
    done = run("later", "keep")
    assert (done.stdout, done.stderr) == (FRAMES, b"later\n")


def test_stdin_can_be_a_regular_file_without_a_last_newline(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(FRAMES[:-1])
    assert run("echo", redirected=f"<{tmp_path}/in").stdout == FRAMES


def test_stdout_can_be_a_regular_file(tmp_path: Path) -> None:
    run("echo", redirected=f">{tmp_path}/out")
    assert (tmp_path / "out").read_bytes() == FRAMES


@pytest.mark.parametrize(
    ("redirected", "stdout"),
    [
        ("</dev/null", b""),
        (">/dev/null", b""),
        ("<&-", b""),
        (">&-", b""),
        ("2>&-", FRAMES),
        ("2>/dev/null", FRAMES),
        ("2>&1", FRAMES),
        ("<&- >&-", b""),
        ("<&- 2>&-", b""),
        (">&- 2>&-", b""),
        ("<&- >&- 2>&-", b""),
    ],
)
def test_agent_runs_with_any_standard_files(redirected: str, stdout: bytes) -> None:
    done = run("echo", redirected=redirected)
    assert (done.stdout, done.stderr, done.returncode) == (stdout, b"", 0)


def test_agent_starts_without_any_standard_files() -> None:
    """Runs a new interpreter; the agents of the other tests are forks."""
    command = [sys.executable, "-E", *AGENT[1:], "echo"]
    done = subprocess.run(command, check=False, preexec_fn=lambda: redirect("<&- >&- 2>&-"))
    assert done.returncode == 0


def test_print_does_not_reach_the_peer_when_stderr_is_closed() -> None:
    assert run("print", redirected="2>&-").stdout == FRAMES


@contextmanager
def echoing(stdin: int, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([*AGENT, "echo"], stdin=stdin, stdout=stdout) as agent:
        try:
            yield agent
        finally:
            agent.kill()


def test_stdin_and_stdout_can_be_the_same_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, echoing(theirs.fileno(), theirs.fileno()) as agent:
        ours.sendall(FRAMES)
        ours.shutdown(socket.SHUT_WR)
        received = b""
        while len(received) < len(FRAMES):
            received += ours.recv(100)
        assert received == FRAMES
        assert agent.wait(10) == 0
        # Our own copy too is changed for the time of the connection only.
        assert os.get_blocking(theirs.fileno())


def test_stdin_can_be_a_named_pipe_whose_writer_has_closed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read_fd = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
    os.set_blocking(read_fd, True)
    with echoing(read_fd, subprocess.DEVNULL) as agent:
        assert agent.wait(10) == 0
    os.close(read_fd)


def test_stdin_can_have_ended_before_the_start() -> None:
    for _ in range(3):
        read_fd, write_fd = os.pipe()
        os.close(write_fd)
        with echoing(read_fd, subprocess.DEVNULL) as agent:
            assert agent.wait(10) == 0
        os.close(read_fd)


def test_terminal_is_not_changed_for_other_processes() -> None:
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs, termios.TCSANOW)
        with echoing(theirs, theirs):
            os.write(ours, b"{}\n")
            assert os.read(ours, 100) == b"{}\n"
            assert not fcntl.fcntl(theirs, fcntl.F_GETFL) & os.O_NONBLOCK
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to open a pipe once more")
def test_pipes_are_not_changed_for_other_processes() -> None:
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    try:
        with echoing(their_in, their_out):
            os.write(our_out, b"{}\n")
            assert os.read(our_in, 100) == b"{}\n"
            assert os.get_blocking(their_in)
            assert os.get_blocking(their_out)
    finally:
        for fd in (their_in, our_out, our_in, their_out):
            os.close(fd)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to measure memory")
def test_endless_line_is_rejected_in_bounded_memory() -> None:
    with subprocess.Popen([*AGENT, "echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        megabyte = b"x" * 1_000_000
        for _ in range(300):
            agent.stdin.write(megabyte)
        agent.stdin.write(b"\n{}\n")
        agent.stdin.close()
        refused, echoed = agent.stdout.read().splitlines()
        assert echoed == b"{}"
        answer = json.loads(refused)
        assert answer["refused"] == 64 * 1024 * 1024
        assert answer["grown"] < 120_000  # KiB


def test_second_transport_is_rejected_while_the_first_is_open(tmp_path: Path) -> None:
    code = (
        "from accord.transports.stdio import stdio\n"
        "from accord.errors import TransportError\n"
        "stdio()\n"
        "try: stdio()\n"
        "except TransportError as error: print(error)"
    )
    done = subprocess.run(program(tmp_path, code), capture_output=True, check=True)
    assert done.stderr == b"stdin and stdout are used by another transport\n"


def test_stdin_and_stdout_are_restored_and_can_be_used_again() -> None:
    code = """
import asyncio, os, sys
from accord.testing import Recorder
from accord.transports.stdio import stdio

async def serve(count):
    transport, heard = stdio(), Recorder()
    await transport.start(heard)
    await heard.until(lambda: len(heard.frames) >= count)
    transport.write(heard.frames)
    await transport.aclose()
    await transport.aclose()

before = sys.stdout, sys.stdin, os.listdir("/dev/fd")
for count in (1, 0):
    asyncio.run(serve(count))
    print("printed")
assert (sys.stdout, sys.stdin, os.listdir("/dev/fd")) == before
print(input())
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"{}\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"{}\n"
        child.stdin.write(b"typed\n")
        child.stdin.close()
        assert child.stdout.read() == b"printed\nprinted\ntyped\n"


def test_captured_stdout_is_not_replaced(tmp_path: Path) -> None:
    code = (
        "import contextlib, io, sys\n"
        "from accord.transports.stdio import stdio\n"
        "with contextlib.redirect_stdout(io.StringIO()) as captured:\n"
        "    stdio()\n"
        "    print('text')\n"
        "assert captured.getvalue() == 'text\\n'"
    )
    subprocess.run(program(tmp_path, code), check=True)


def test_import_loads_only_asyncio_and_msgspec() -> None:
    code = (
        "import asyncio, msgspec, sys; before = set(sys.modules)\n"
        "import accord.transports.stdio\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"accord"}
