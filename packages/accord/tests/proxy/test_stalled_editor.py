"""Back-pressure through real processes: an editor that does not read stops the agent."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from needs import needs
from proxy.test_death import PASSES, PROGRAMS, descendants
from requirement import requirement

COUNT = 10_000  # updates of 2 KB: 20 MB
MAX_GROWTH_KB = 8_000  # usual: 2,000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@requirement("R-PROXY-19")
@needs("accord_terminal")
def test_editor_that_does_not_read_stops_the_agent_and_memory_stays_flat(tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    agent = [sys.executable, str(PROGRAMS / "flooding_agent.py"), str(sent), str(COUNT)]
    command = [sys.executable, "-m", "accord", "chain", PASSES, PASSES, shlex.join(agent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as chain:
        assert chain.stdin is not None
        assert chain.stdout is not None
        try:
            _ask(chain, 1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            assert json.loads(chain.stdout.readline())["id"] == 1
            before = _peaks(chain.pid)
            assert len(before) >= 4  # the conductor, two proxies, the agent
            _ask(chain, 2, "session/prompt", {"sessionId": "s", "prompt": []})
            _until(sent.exists)
            _until(lambda: _all_sleep(before))  # a busy machine, too, is slow to read
            assert int(sent.read_text()) < COUNT, "the agent was not stopped"
            updates = 0
            while b'"session/update"' in (line := chain.stdout.readline()):
                updates += 1
            assert json.loads(line)["id"] == 2
            assert updates == COUNT
            after = _peaks(chain.pid)
            growth = [after[pid] - peak for pid, peak in before.items() if pid in after]
            assert max(growth) < MAX_GROWTH_KB
        finally:
            chain.kill()


def _ask(chain: subprocess.Popen[bytes], number: int, method: str, params: object) -> None:
    assert chain.stdin is not None
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    chain.stdin.write(json.dumps(message).encode() + b"\n")
    chain.stdin.flush()


def _until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "the agent was not stopped"
        time.sleep(0.05)


def _all_sleep(pids: Iterable[int]) -> bool:
    """Return whether no process of a chain has anything to do, for some time."""
    for _ in range(10):
        for pid in pids:
            # "pid (name) state …"
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
                return False
        time.sleep(0.05)
    return True


def _peaks(pid: int) -> dict[int, int]:
    """Return the largest memory that each process of a chain has had, in KB."""
    found: dict[int, int] = {}
    for each in (pid, *descendants(pid)):
        with suppress(OSError):  # it has ended
            for line in Path(f"/proc/{each}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    found[each] = int(line.split()[1])
    return found
