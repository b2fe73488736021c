"""`accord inspect --tap`: bytes pass unchanged, and the program behaves as the agent does."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx2
import pytest

import accord
from accord_trace import open_trace
from inspector.inspector_process import address_in

HERE = Path(__file__).parent
ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"
PING = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
NOISE = b"npm warn \xff\r\n\n  " + PING + b" \n[1,\n" + b'{"id":"inspect-1","result":1}\r\n'


def tap(path: Path, *agent: str) -> list[str]:
    options = ("--tap", "--no-open", "--port", "0", "-o", str(path))
    return [sys.executable, "-m", "accord", "inspect", *options, "--", *agent]


def test_bytes_pass_unchanged_and_the_exit_status_too(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    program = f"{ECHO}\nsys.stderr.write('bye\\n'); sys.exit(7)"
    done = subprocess.run(
        tap(path, sys.executable, "-c", program),
        input=NOISE + PING,
        capture_output=True,
        timeout=30,
    )
    assert done.stdout == NOISE + PING
    lines = done.stderr.decode().splitlines()
    assert [line for line in lines if not line.startswith("Inspect at ")] == ["bye"]
    assert done.returncode == 7
    for direction in ("to_agent", "to_client"):
        kinds = [item.type for item in open_trace(path) if item.dir == direction]
        assert kinds == ["invalid", "request", "invalid", "response", "request", "end"]


def test_large_output_passes_a_slow_reader(tmp_path: Path) -> None:
    flood = "import os\nfor n in range(40): os.write(1, bytes([65 + n % 26]) * 99_999 + b'\\n')"
    path = tmp_path / "r.acp.jsonl"
    done = subprocess.run(
        tap(path, sys.executable, "-c", flood), capture_output=True, timeout=30, input=b""
    )
    expected = b"".join(bytes([65 + n % 26]) * 99_999 + b"\n" for n in range(40))
    assert done.stdout == expected


async def test_client_uses_an_agent_through_the_tap(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    said: list[str] = []
    command = tap(path, sys.executable, "-m", "accord", "agent", "script")
    async with accord.connect(command, on_stderr=said.append) as agent:
        session = await agent.new_session(cwd=str(tmp_path))
        async with session.prompt("echo Hello") as turn:
            assert [event async for event in turn]
    assert [item.type for item in open_trace(path)][-1] == "end"
    # The address is printed once, and not on stdout, which belongs to the protocol.
    assert len(re.findall(r"http://\S+token=\S+", "\n".join(said))) == 1


async def test_bytes_stay_the_same_beside_a_fault_that_is_switched(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    chances = random.Random(1)
    process = await asyncio.create_subprocess_exec(
        *tap(path, sys.executable, "-c", ECHO), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    url = await address_in(process.stderr)
    sent = bytearray()
    came = asyncio.ensure_future(process.stdout.read())
    async with httpx2.AsyncClient(base_url=url.partition("/?")[0]) as page:
        await page.get(url)
        for direction in ("to_agent", "to_client"):
            fault = {"kind": "delay", "delay_ms": 3, "direction": direction}
            assert (await page.post("/api/faults", json=fault)).status_code == 200
        for turn in range(20):
            for number in (1, 2):
                action = "on" if chances.random() < 0.5 else "off"
                switched = await page.post(f"/api/faults/{number}/{action}")
                assert switched.status_code == 200
            for _ in range(chances.randrange(6)):
                line = PING if chances.random() < 0.5 else b'{"n":%d}' % turn * chances.randrange(9)
                data = (line + b"\n")[chances.randrange(3) :]  # also ones that are not JSON
                cut = chances.randrange(len(data) + 1)
                for piece in (data[:cut], data[cut:]):
                    process.stdin.write(piece)
                    await process.stdin.drain()
                sent += data
    process.stdin.close()
    assert await asyncio.wait_for(came, 20) == sent
    assert await asyncio.wait_for(process.wait(), 20) == 0
    lines = len([line for line in sent.splitlines() if line.strip()])
    for direction in ("to_agent", "to_client"):
        assert len([one for one in open_trace(path) if one.dir == direction]) == lines + 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_sigterm_ends_the_agent_and_the_tap(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with subprocess.Popen(
        tap(path, sys.executable, "-c", f"print(1, flush=True)\n{ECHO}"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 128 + signal.SIGTERM
    assert [item.type for item in open_trace(path)][-1] == "end"


async def test_page_of_a_tap_shows_the_editor_and_sends_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def said(line: str) -> None:
        if (found := re.search(r"http://\S+", line)) and not address.done():
            address.set_result(found[0])

    agent_of_the_editor = tap(path, sys.executable, str(HERE / "flooding_agent.py"))
    async with accord.connect(agent_of_the_editor, on_stderr=said) as agent:
        session = await agent.new_session(cwd=str(tmp_path))
        url = await asyncio.wait_for(address, 20)
        origin = url.partition("/?")[0]
        async with httpx2.AsyncClient(base_url=origin) as page:
            await page.get(url)
            inspection = (await page.get("/api/inspection")).json()
            assert (inspection["kind"], inspection["live"]) == ("tap", True)
            request = {"direction": "to_agent", "kind": "request", "method": "session/prompt"}
            content = [{"type": "text", "text": "by hand"}]
            params = {"sessionId": session.id, "prompt": content}
            sent = await page.post("/api/send", json={**request, "params": params})
            assert sent.status_code == 200
            # The editor's turns are not disturbed by the response to another request.
            async with session.prompt("echo Hello") as turn:
                assert [event async for event in turn]
            refused = await page.post("/api/agent/restart", json={})
            assert refused.status_code == 409
    records = list(open_trace(path))
    by_hand = [item for item in records if item.id_text.startswith('"inspect-')]
    assert [item.type for item in by_hand] == ["request", "response"]
