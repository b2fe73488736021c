"""Replays over the network: `accord serve` and `accord trace replay` with a URL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from requirement import requirement
from sample_recordings import one_turn

pytest.importorskip("websockets", reason="the extra `remote` is not installed")

ACCORD = [sys.executable, "-m", "accord"]
TOKEN = "t" * 40


@requirement("R-TRACE-04")
@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_client_of_a_recording_tests_an_agent_on_the_network(tmp_path: Path, scheme: str) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    env = {**os.environ, "ACCORD_TOKEN": TOKEN}
    replay = [*ACCORD, "trace", "replay", str(path)]
    with subprocess.Popen(
        [*ACCORD, "serve", "--port", "0", "--", *replay],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr is not None
            found = None
            while found is None:
                line = server.stderr.readline()
                assert line, "the server has ended"
                found = re.search(r"ws://(\S+)", line)
            url = f"{scheme}://{found[1]}"
            done = subprocess.run(
                [*replay, "--as", "client", "--strict", url],
                env=env,
                capture_output=True,
                text=True,
                timeout=30,
            )
        finally:
            server.kill()
    assert done.stdout == "same: 10 messages of the agent compared\n", done.stdout + done.stderr
    assert done.returncode == 0
