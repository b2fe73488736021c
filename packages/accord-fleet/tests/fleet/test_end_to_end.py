"""Whole runs with what is around them: MCP servers, agents at a URL, slow stores and S3."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest
from click.testing import CliRunner
from fsspec.implementations.memory import (
    MemoryFileSystem,
)

from accord_fleet import Dataset, Fleet, Permissions, Task
from accord_fleet.command import command
from accord_fleet.report.aggregate import read_report
from fleet.running import RAW
from free_ports import free_ports
from needs import needs

AGENT = f"raw={shlex.join(RAW)}"


@needs("accord_coder")
async def test_agents_use_the_mcp_servers_of_a_task() -> None:
    from accord_coder.agent import Coder
    from accord_coder.settings import Settings
    from coder import mcp_server
    from coder.scripted_model import ScriptedModel, tool_prompt

    class Calls(Coder):
        """The bundled agent, which uses the tools that a prompt names."""

        scripted = ScriptedModel()

        def __init__(self) -> None:
            super().__init__(Settings(), model=self.scripted)

    server = {
        "name": "sums",
        "command": sys.executable,
        "args": [mcp_server.__file__],
        # Those of this process: a program with other settings of Python is not forked.
        "env": [{"name": n, "value": v} for n, v in os.environ.items() if n.startswith("PYTHON")],
    }
    given = Task(
        id="sum",
        prompts=(tool_prompt([("mcp__sums__add", {"a": 2, "b": 40})]),),
        mcp_servers=(server,),
        permissions=Permissions(allow=("*",)),
    )
    [result] = [one async for one in Fleet([Calls]).run([given])]
    assert (result.status, result.answer) == ("finished", "done"), result
    assert result.tool_calls == 1
    [used] = Calls.scripted.results
    assert "42" in used.text


@contextmanager
def served(*words: str, token: str) -> Generator[str]:
    """Serve an agent on the network; yield its URL."""
    port = free_ports(1)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "accord", "serve", "--port", str(port), "--", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ACCORD_TOKEN": token},
    )
    assert process.stderr is not None
    try:
        lines: list[str] = []
        while "ws://" not in "".join(lines):
            line = process.stderr.readline()
            assert line, "".join(lines)
            lines.append(line)
        # What it logs is read, so that it never waits for that.
        reading = threading.Thread(target=process.stderr.read)
        reading.start()
        yield f"ws://127.0.0.1:{port}/acp"
        process.terminate()
        reading.join(20)
    finally:
        process.kill()
        process.wait(20)
        process.stderr.close()


def accord_fleet(*words: str | Path) -> Any:
    return CliRunner().invoke(command, [*map(str, words)], standalone_mode=False)


def write_tasks(folder: Path, count: int) -> Path:
    path = folder / "tasks.jsonl"
    lines = [json.dumps({"id": f"t{at}", "prompt": f"stream {at} x"}) for at in range(1, count + 1)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.timeout(120)
def test_agents_at_a_url_are_given_tasks_with_their_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, out = "the-token-of-this-server-and-no-other", tmp_path / "run"
    tasks = write_tasks(tmp_path, 3)
    with served(sys.executable, "-m", "accord", "agent", "script", token=token) as url:
        agents = tmp_path / "agents.toml"
        agents.write_text(
            f'[agents.far]\ncommand = "{url}"\ntoken = "FAR"\n[agents.wrong]\ncommand = "{url}"\n'
        )
        words = ["run", tasks, "--agent", agents, "--jobs", "2", "--out", out]
        missing = accord_fleet(*words)
        assert "expected the environment variables FAR, which are not set" in str(missing.exception)
        monkeypatch.setenv("FAR", token)
        monkeypatch.setenv("ACCORD_TOKEN", "another-token-than-that")
        assert accord_fleet(*words).return_value == 3
        with_sandbox = accord_fleet(*words[:-1], tmp_path / "other", "--sandbox", "no-network")
        assert "The sandbox cannot isolate far, which runs elsewhere" in str(with_sandbox.exception)
    results = {(one.task, one.agent): one for one in Dataset.open(out).results()}
    assert results["t2", "far"].answer == "x x "
    assert {one.status for one in results.values() if one.agent == "far"} == {"finished"}
    failed = results["t1", "wrong"].failure
    assert failed is not None
    assert failed.where == "start"
    stored = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert token.encode() not in stored
    assert b"another-token-than-that" not in stored


class SlowStore(MemoryFileSystem):
    """A store in memory that takes its time, as those on a network do."""

    protocol = "slowmemory"
    store: dict[str, Any] = {}  # as its base class has it
    pseudo_dirs: list[str] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.replace("slowmemory://", "memory://"))

    def slow(name: str) -> Any:  # type: ignore[misc]  # noqa: N805  # used in this body only
        def call(self: SlowStore, *args: Any, **kwargs: Any) -> Any:
            time.sleep(0.03)
            return getattr(MemoryFileSystem, name)(self, *args, **kwargs)

        return call

    cat_file, pipe_file, put_file = slow("cat_file"), slow("pipe_file"), slow("put_file")
    ls, open, rm_file = slow("ls"), slow("open"), slow("rm_file")


@pytest.mark.timeout(120)
def test_a_run_on_a_slow_store_is_complete_and_can_be_resumed(tmp_path: Path) -> None:
    fsspec.register_implementation("slowmemory", SlowStore, clobber=True)
    out = "slowmemory://bucket/run"
    words = ["run", write_tasks(tmp_path, 40), "--agent", AGENT, "--jobs", "4", "--out", out]
    assert accord_fleet(*words).return_value == 0
    results = list(Dataset.open(out).results())
    assert sorted(one.task for one in results) == sorted(f"t{at}" for at in range(1, 41))
    assert {one.status for one in results} == {"finished"}
    recording = Dataset.open(out).read_trace(results[0])
    assert recording
    assert accord_fleet("resume", out).return_value == 0
    assert read_report(out).results == 40


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """An empty bucket of an S3 server on this machine."""
    for name in ("moto", "s3fs", "flask"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install 'moto[server]' s3fs")
    moto: Any = importlib.import_module("moto.server")
    port = free_ports(1)[0]
    server = moto.ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    try:
        url = f"http://127.0.0.1:{port}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test-of-a-fleet")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        request = urllib.request.Request(f"{url}/fleets", method="PUT")
        with urllib.request.urlopen(request, timeout=20):
            pass
        yield "s3://fleets"
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_run_is_stored_in_s3_and_a_second_one_is_refused(bucket: str, tmp_path: Path) -> None:
    out = f"{bucket}/run"
    words = ["run", write_tasks(tmp_path, 5), "--agent", AGENT, "--out", out]

    def run(*words: str | Path) -> Any:
        """Run a command as a process of its own does: nothing is known of the store."""
        importlib.import_module("s3fs").S3FileSystem.clear_instance_cache()
        return accord_fleet(*words)

    done = run(*words)
    assert done.return_value == 0, done.exception
    assert "5 of 5 results" in done.stderr
    assert f"{out} already has a run of these tasks" in str(run(*words).exception)
    assert run("resume", out).return_value == 0
    assert run("status", out).stdout.splitlines()[1].strip().startswith("5 of 5 results")
    shown = run("show", out, "t2")
    assert shown.stdout.startswith("t2 by raw: finished")
    save = shlex.split(shown.stdout.partition("Messages: accord fleet ")[2].partition(" && ")[0])
    file = tmp_path / "t2.acp.jsonl.gz"
    assert run(*save[:-1], file).return_value == 0
    assert file.read_bytes().startswith(b"\x1f\x8b")
    assert json.loads(run("report", out, "--json").stdout)["results"] == 5
