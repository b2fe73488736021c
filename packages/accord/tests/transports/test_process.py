from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord.errors import ConnectionLost, StartError
from accord.testing import Recorder
from accord.transports.process import MAX_LINE_CHARACTERS, ProcessTransport, process
from quirk import quirk
from requirement import requirement

PROGRAMS = Path(__file__).parent / "programs"
STUBBORN = str(PROGRAMS / "stubborn.py")


@asynccontextmanager
async def running(*argv: str, **options: Any) -> AsyncIterator[tuple[ProcessTransport, Recorder]]:
    transport, heard = process(*argv, **options)(), Recorder()
    await transport.start(heard)
    try:
        yield transport, heard
    finally:
        await transport.aclose()


def shell(script: str, **options: Any) -> Any:
    return running("sh", "-c", script, **options)


def python(code: str, **options: Any) -> Any:
    return running(sys.executable, "-c", code, **options)


async def lost(transport: ProcessTransport, heard: Recorder) -> ConnectionLost:
    await heard.until(lambda: heard.ended)
    error = await transport.exit_error()
    assert isinstance(error, ConnectionLost)
    return error


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie that is never reaped does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    state = done.stdout.strip()
    return bool(state) and not state.startswith(b"Z")


async def pids(heard: Recorder) -> list[int]:
    await heard.until(lambda: bool(heard.frames))
    return json.loads(heard.frames[0])["pids"]


def open_files() -> set[str]:
    return set(map(str, Path("/dev/fd").iterdir()))


# Start.


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["no-such-agent"], r"Cannot start no-such-agent: not found in PATH \(.*/bin.*\)"),
        (["/no/such/agent"], "/no/such/agent does not exist"),
        ([__file__], "is not executable"),
        (["sh", "a\0b"], "embedded null byte"),
    ],
)
async def test_failed_start_names_command_and_reason(argv: list[str], reason: str) -> None:
    transport = process(*argv)()
    with pytest.raises(StartError, match=reason):
        await transport.start(Recorder())
    await transport.aclose()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/no/such/interpreter\n", "interpreter in the first line of"),
        ("\0\1\2", "Exec format error"),
    ],
)
async def test_file_that_is_not_a_program_is_a_start_error(
    tmp_path: Path, text: str, reason: str
) -> None:
    program = tmp_path / "agent"
    program.write_text(text)
    program.chmod(0o755)
    with pytest.raises(StartError, match=reason):
        await process(str(program))().start(Recorder())


async def test_each_call_of_the_factory_starts_a_new_process() -> None:
    factory = process("cat")
    first, second = factory(), factory()
    await first.start(Recorder())
    await second.start(Recorder())
    assert first.pid != second.pid
    await first.aclose()
    await second.aclose()


async def test_process_runs_in_its_directory_with_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GONE", "1")
    script = """printf '{"all":["%s","%s","%s"]}\n' "$PWD" "$NEW" "$GONE" """
    env = {"NEW": "2", "GONE": None}
    async with shell(script, cwd=tmp_path, env=env) as (_, heard):
        await heard.until(lambda: bool(heard.frames))
        assert json.loads(heard.frames[0]) == {"all": [str(tmp_path), "2", ""]}


async def test_process_inherits_only_its_own_file_descriptors() -> None:
    async with (
        running("cat"),
        python("import os; print('[' + ','.join(os.listdir('/dev/fd')) + ']')") as (_, heard),
    ):
        await heard.until(lambda: bool(heard.frames))
        # The fourth is the directory that is being listed.
        assert sorted(json.loads(heard.frames[0])) == [0, 1, 2, 3]


# Output.


@quirk("noise-on-stdout")
async def test_lines_that_are_not_json_are_noise() -> None:
    noise: list[str] = []
    lines = [
        "Loading...",
        "",
        "[info] starting",
        '{"a":1}',
        '  {"b":2}  ',
        '[{"c":3}]',
        "null",
        '"text"',
        "{broken",
        "\xef\xbb\xbf".encode("latin-1").decode() + '{"d":4}',
    ]
    code = f"import sys; sys.stdout.buffer.write({os.linesep.join(lines).encode()!r})"
    async with python(code, on_stdout_noise=noise.append) as (transport, heard):
        await heard.until(lambda: heard.ended)
        assert [frame.strip(b"\xef\xbb\xbf ") for frame in heard.frames] == [
            b'{"a":1}',
            b'{"b":2}',
            b'[{"c":3}]',
            b"{broken",
            b'{"d":4}',
        ]
        assert noise == ["Loading...", "[info] starting", "null", '"text"']
        assert transport.noise_lines == 4


async def test_program_that_writes_only_noise_is_not_an_agent() -> None:
    async with running("yes") as (transport, heard):
        error = await lost(transport, heard)
        assert str(error) == (
            "yes is not an agent: expected JSON-RPC messages on its stdout, got 10,000 other "
            "lines, such as 'y'"
        )
        assert not heard.frames


@pytest.mark.parametrize(
    ("first", "limit"), [("{}", 100), ("noise", None)], ids=["after a message", "no limit"]
)
async def test_noise_of_agents_has_no_limit(first: str, limit: int | None) -> None:
    script = f"echo '{first}'; yes | head -n 200; echo '{{}}'"
    async with shell(script, noise_limit=limit) as (transport, heard):
        await heard.until(lambda: heard.ended)
        assert heard.frames[-1] == b"{}"
        assert transport.noise_lines >= 200


async def test_failing_noise_callback_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: str) -> None:
        raise RuntimeError

    script = "echo noise; echo error >&2; echo '{}'"
    async with shell(script, on_stdout_noise=fail, on_stderr=fail) as (transport, heard):
        await heard.until(lambda: heard.ended)
        await transport.exit_error()
        assert heard.frames == [b"{}"]
    assert [record.message for record in caplog.records] == ["! fail failed"] * 2


@requirement("R-STDIO-06")
async def test_stderr_is_reported_line_by_line() -> None:
    lines: list[str] = []
    script = "printf 'one\\ntw' >&2; printf 'o\\r\\nthr\\377ee' >&2"
    async with shell(script, on_stderr=lines.append) as (transport, heard):
        await lost(transport, heard)
        assert lines == ["one", "two", "thr\ufffdee"]


async def test_stderr_is_read_continuously_and_its_end_is_kept() -> None:
    code = "import sys; sys.stderr.write('x' * 1_000_000 + 'end'); print('{}', flush=True); input()"
    async with python(code) as (transport, heard):
        await heard.until(lambda: bool(heard.frames))
        transport.write([b"{}"])
        error = await lost(transport, heard)
        assert error.exit_status == 0
        assert transport.stderr_tail == "x" * (65536 - 3) + "end"
        assert error.stderr is not None
        assert len(error.stderr) <= MAX_LINE_CHARACTERS
        assert error.stderr.endswith("xxend")


# Exit.


async def test_failed_process_has_its_status_and_last_stderr_lines() -> None:
    async with shell("echo starting >&2; echo 'no licence' >&2; exit 3") as (transport, heard):
        error = await lost(transport, heard)
    assert str(error) == "sh exited with status 3: no licence"
    assert error.exit_status == 3
    assert error.stderr == "starting\nno licence"


async def test_killed_process_has_its_signal() -> None:
    async with shell("kill -9 $$") as (transport, heard):
        error = await lost(transport, heard)
    assert str(error) == "sh was ended by SIGKILL"
    assert error.exit_status == -9


async def test_process_that_only_closes_stdout_is_reported_as_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.transports.process.EXIT_S", 0.01)
    script = "exec >&- 2>&-; sleep 100"
    async with shell(script, stop_times_s=(0.0, 10.0, 0.0)) as (transport, heard):
        error = await lost(transport, heard)
    assert str(error) == "sh disconnected but is still running"
    assert error.exit_status is None


async def test_error_names_the_program_without_its_arguments() -> None:
    async with shell("exit 1 # secret") as (transport, heard):
        assert "secret" not in str(await lost(transport, heard))


async def test_last_frames_of_a_process_that_stopped_reading_arrive() -> None:
    script = 'exec <&-; read line < "$0"; echo \'{"last":1}\''
    pipe, _ = ready = os.pipe()
    async with running("sh", "-c", script, f"/proc/{os.getpid()}/fd/{pipe}") as (transport, heard):
        # It closes stdin before it opens the other pipe, or when it ends.
        os.write(ready[1], b"go\n")
        while not heard.ended:
            transport.write([b"{}"])
            await asyncio.sleep(0)
        assert heard.frames == [b'{"last":1}']
        assert len(heard.ends) == 1
    for fd in ready:
        os.close(fd)


async def test_process_that_exits_when_stdin_closes_is_not_signalled() -> None:
    async with shell("cat >&2; echo left >&2", stop_times_s=(10.0, 0.0, 0.0)) as (transport, _):
        transport.write([b'{"a":1}'])
        await transport.aclose()
        assert transport.stderr_tail == '{"a":1}\nleft\n'


async def test_process_can_write_while_it_is_being_closed() -> None:
    code = "import sys; sys.stdin.read(); print('x' * 1_000_000); sys.stderr.write('done')"
    async with python(code, stop_times_s=(10.0, 0.0, 0.0)) as (transport, _):
        transport.pause_reading()
        await transport.aclose()
        assert transport.stderr_tail == "done"


@quirk("stays-after-stdin")
@requirement("R-STDIO-07")
async def test_process_that_keeps_running_is_terminated() -> None:
    script = "trap 'echo terminated >&2; exit' TERM; echo '{}'; while :; do sleep 0.01; done"
    async with shell(script, stop_times_s=(0.01, 10.0, 0.0)) as (transport, heard):
        await heard.until(lambda: bool(heard.frames))
        await transport.aclose()
        assert transport.stderr_tail.endswith("terminated\n")


async def test_stubborn_process_and_its_child_are_killed() -> None:
    async with running(sys.executable, STUBBORN, stop_times_s=(0.05, 0.05, 10.0)) as (way, heard):
        both = await pids(heard)
        assert all(map(is_alive, both))
        await way.aclose()
        assert not any(map(is_alive, both))


async def test_child_that_survives_its_parent_and_holds_stdout_is_killed() -> None:
    argv = [sys.executable, STUBBORN, "leave"]
    async with running(*argv, stop_times_s=(10.0, 0.05, 10.0)) as (transport, heard):
        _, child = await pids(heard)
        error = await lost(transport, heard)
        assert error.exit_status == 7
        assert is_alive(child)
        await transport.aclose()
        assert not is_alive(child)


async def test_close_does_not_wait_for_a_process_outside_of_the_group_with_stdout() -> None:
    code = (
        "import os, time\n"
        "has_left, leaves = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0: os.setsid(); os.write(leaves, b'1'); time.sleep(1000)\n"
        "os.read(has_left, 1)\n"
        "print('{\"pids\":[%d]}' % child, flush=True); input()"
    )
    async with python(code) as (transport, heard):
        (child,) = await pids(heard)
        async with asyncio.timeout(5):
            await transport.aclose()
        os.kill(child, 9)


async def test_cancelled_close_kills_at_once() -> None:
    async with running(sys.executable, STUBBORN, stop_times_s=(1000, 1000, 1000)) as (way, heard):
        both = await pids(heard)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await way.aclose()
        # The kernel takes a moment for what was killed; without a kill, they live for 1000 s.
        until = time.monotonic() + 10
        while any(map(is_alive, both)):
            assert time.monotonic() < until


async def test_garbage_collected_transport_kills_its_process() -> None:
    transport, heard = process("cat")(), Recorder()
    await transport.start(heard)
    pid = transport.pid
    assert pid is not None
    # As the garbage collector does without references to the loop and the transport.
    assert transport._group is not None
    transport._group._kill()
    await heard.until(lambda: heard.ended)
    assert not is_alive(pid)
    await transport.aclose()


OWNER = """
import asyncio, os, sys
from accord.testing import Recorder
from accord.transports.process import process

async def main():
    heard = Recorder()
    transport = process(sys.executable, {stubborn!r})()
    await transport.start(heard)
    await heard.until(lambda: bool(heard.frames))
    sys.stdout.write(heard.frames[0].decode())
    {end}

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["pass", "raise SystemExit", "1 / 0"])
def test_owner_that_exits_without_closing_kills_its_processes(end: str) -> None:
    code = OWNER.format(stubborn=STUBBORN, end=end)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    both = json.loads(done.stdout)["pids"]
    assert not any(map(is_alive, both))


def test_fork_of_the_owner_does_not_kill_the_processes_when_it_exits(tmp_path: Path) -> None:
    end = """if not os.fork():
        sys.exit()
    os.wait()
    assert transport._group._members.alive() and not transport._group.exited.done()
    print("untouched")"""
    program = tmp_path / "owner.py"
    program.write_text(OWNER.format(stubborn=STUBBORN, end=end))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, check=False)
    assert done.stdout.endswith(b"untouched\n")


async def test_waiting_uses_no_cpu_time() -> None:
    async with shell("sleep 0.3") as (transport, heard):
        busy_s = time.process_time()
        await lost(transport, heard)
        assert time.process_time() - busy_s < 0.15


async def test_no_descriptor_is_left_open_after_close() -> None:
    gc.collect()
    before = open_files()
    async with running(sys.executable, STUBBORN, stop_times_s=(0.01, 0.01, 10.0)) as (_, heard):
        await pids(heard)
    assert open_files() == before


async def test_process_spawned_early_is_used_by_the_transport() -> None:
    transport, heard = process("cat")(), Recorder()
    transport.spawn()
    pid = transport.pid
    await transport.start(heard)
    transport.write([b"{}"])
    await heard.until(lambda: bool(heard.frames))
    assert transport.pid == pid
    await transport.aclose()


async def test_process_that_was_spawned_and_never_started_is_killed() -> None:
    before = open_files()
    transport = process("cat")()
    transport.spawn()
    assert transport.pid is not None
    await transport.aclose()
    assert not is_alive(transport.pid)
    assert open_files() == before
