"""`accord trace record`: a pipe that records."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import accord
from accord_trace import open_trace
from accord_trace.recorder_process import RecorderProcess, _Pass
from requirement import requirement

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"
PING = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
NOISE = b"npm warn \xff\r\n\n  " + PING + b" \n"


def tee(path: Path, *agent: str) -> list[str]:
    return [sys.executable, "-m", "accord", "trace", "record", "-o", str(path), "--", *agent]


def recorder_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [found] = [
        int(child)
        for child in children
        if b"recorder_program" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return found


def test_bytes_pass_unchanged_and_the_exit_status_too(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    program = f"{ECHO}\nsys.stderr.write('bye'); sys.exit(7)"
    done = subprocess.run(
        tee(path, sys.executable, "-c", program),
        input=NOISE + PING,
        capture_output=True,
        timeout=30,
    )
    assert done.stdout == NOISE + PING
    assert done.stderr == b"bye"
    assert done.returncode == 7
    found = [(item.type, item.dir) for item in open_trace(path)]
    for direction in ("to_agent", "to_client"):
        kinds = [kind for kind, where in found if where == direction]
        assert kinds == ["invalid", "request", "request", "end"]


async def test_client_uses_an_agent_through_the_tee(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    command = tee(path, sys.executable, "-m", "accord", "agent", "script")
    async with accord.connect(command) as agent:
        session = await agent.new_session(cwd=str(tmp_path))
        async with session.prompt("echo Hello") as turn:
            assert [event async for event in turn]
    found = list(open_trace(path))
    assert found[-1].type == "end"
    prompts = [item for item in found if item.method == "session/prompt"]
    assert [item.session for item in prompts] == [session.id]


@pytest.mark.skipif(sys.platform == "win32", reason="needs select of pipes")
def test_message_is_recorded_before_the_other_side_can_answer_it() -> None:
    source, sent = os.pipe()
    target, passed = os.pipe()
    order: list[tuple[bytes, bool]] = []

    class Recorder:
        def data(self, direction: str, data: bytes) -> None:
            order.append((data, bool(select.select([target], [], [], 0)[0])))

        def end(self, direction: str) -> None:
            pass

    os.write(sent, PING)
    os.close(sent)
    _Pass(source, passed, cast("RecorderProcess", Recorder()), "to_agent").run()
    assert order == [(PING, False)]
    assert os.read(target, 100) == PING
    for fd in (source, target, passed):
        os.close(fd)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@requirement("R-TRACE-06")
def test_sigkill_loses_at_most_the_last_message(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with subprocess.Popen(
        tee(path, sys.executable, "-c", ECHO),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        assert running.stdout is not None
        for _ in range(50):
            running.stdin.write(PING + b"\n")
            running.stdin.flush()
            assert running.stdout.readline() == PING + b"\n"
        running.kill()
        assert running.stderr.read() == b""  # until the recorder has written the rest
    for direction in ("to_agent", "to_client"):
        assert sum(item.dir == direction for item in open_trace(path)) >= 49


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_sigterm_ends_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with subprocess.Popen(
        tee(path, sys.executable, "-c", f"print(1, flush=True)\n{ECHO}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 128 + signal.SIGTERM
    assert [item.type for item in open_trace(path)][-1] == "end"


@pytest.mark.skipif(sys.platform == "win32", reason="files of Linux")
def test_side_that_does_not_read_stops_the_other(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    flood = (
        "import os,sys\nsys.stdin.readline()\nos.set_blocking(1, False)\nsent = 0\n"
        "import select\n"
        "while select.select([], [1], [], 0.5)[1]: sent += os.write(1, b'{}'*500 + b'\\n')\n"
        "print(sent, file=sys.stderr)"
    )
    with subprocess.Popen(
        tee(path, sys.executable, "-c", flood),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        running.stdin.write(b"go\n")
        running.stdin.flush()
        assert int(running.stderr.readline()) < 1_000_000
        running.kill()


def test_file_that_cannot_be_written_is_an_error_before_the_agent_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        tee(tmp_path / "missing" / "r.acp.jsonl", sys.executable, "-c", "print('started')"),
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"Cannot write" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="a full disk of Linux")
def test_full_disk_does_not_stop_the_agent(tmp_path: Path) -> None:
    done = subprocess.run(
        tee(Path("/dev/full"), sys.executable, "-c", ECHO),
        input=PING + b"\n",
        capture_output=True,
        timeout=30,
    )
    assert done.stdout == PING + b"\n"
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


def test_burst_is_recorded_completely_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    update = (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"n":%d}}}'
    )
    program = f"print(''.join('{update}\\n' % n for n in range(30_000)), end='')"
    done = subprocess.run(tee(path, sys.executable, "-c", program), capture_output=True, timeout=30)
    expected = [str(n).encode() for n in range(30_000)]
    assert re.findall(rb'"n":(\d+)', done.stdout) == expected
    assert re.findall(rb'"n":(\d+)', path.read_bytes()) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="/proc of Linux")
def test_death_of_the_recorder_does_not_stop_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with subprocess.Popen(
        tee(path, sys.executable, "-c", ECHO),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        for number in range(3):
            running.stdin.write(PING + b"\n")
            running.stdin.flush()
            assert running.stdout.readline() == PING + b"\n"
            if number == 0:
                os.kill(recorder_of(running.pid), signal.SIGKILL)
        running.stdin.close()
        assert running.stderr.read() == b"accord trace: the recorder ended: the rest is lost\n"
        assert running.wait(20) == 0


def test_option_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    argv = [*tee(path, "my-agent")[:-2], "--no-redcat", "--", "my-agent"]
    done = subprocess.run(argv, capture_output=True, timeout=30)
    assert done.returncode == 2
    assert b"--no-redcat" in done.stderr
    assert not path.exists()
