"""The process that writes a recording: blocks from a pipe, and a sender that is faster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from accord_trace import open_trace
from accord_trace.recorder_process import RecorderProcess, Settings, packed_block

PING = b'{"jsonrpc":"2.0","id":%d,"method":"x"}\n'
UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","text":"%s"}}\n'
BLOCK = UPDATE % (b"x" * 64_000)
WAITING = 64 * 1024 * 1024 // len(BLOCK)


@pytest.mark.parametrize("is_cut", [False, True])
def test_blocks_of_a_pipe_are_recorded_where_there_is_no_shared_memory(
    tmp_path: Path, is_cut: bool
) -> None:
    path = tmp_path / "r.acp.jsonl"
    settings = Settings(str(path), ["agent"], zero=time.perf_counter())
    text = msgspec.json.encode(settings)
    blocks = [packed_block(number % 2, time.perf_counter(), PING % number) for number in range(40)]
    sent = b"".join((len(text).to_bytes(4, "little"), text, *blocks))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "accord_trace.recorder_program"],
        input=sent[:-1] if is_cut else sent,  # the line end, after a crash of the sender
        capture_output=True,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    found = [(item.dir, item.id_text) for item in open_trace(path)]
    whole = 39 if is_cut else 40
    assert found == [(("to_agent", "to_client")[n % 2], str(n)) for n in range(whole)]


@pytest.mark.skipif(sys.platform != "linux", reason="memory of Linux")
def test_sender_waits_for_a_recorder_that_is_too_slow(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    recorder = RecorderProcess(Settings(str(path), ["agent"]))
    pid = recorder._process.pid
    os.kill(pid, signal.SIGSTOP)
    sent = threading.Semaphore(0)
    is_beyond = threading.Event()

    def send() -> None:
        for _ in range(WAITING - 1):
            recorder.data("to_client", BLOCK)
        sent.release()
        for _ in range(3):
            recorder.data("to_client", BLOCK)
        is_beyond.set()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        assert sent.acquire(timeout=30)
        assert not is_beyond.wait(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert is_beyond.wait(30)
    sender.join(30)
    recorder.close()
    assert path.read_bytes().count(b'"method":"session/update"') == WAITING + 2
