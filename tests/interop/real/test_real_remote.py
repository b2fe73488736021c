"""Real programs for remote agents: Qwen Code's server, stdio-to-ws, and acp-http-client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import accord
from free_ports import free_ports
from interop.test_websocket import ACCORD, ENVIRONMENT, TOKEN, turn
from interop.turns import HERE as INTEROP
from interop.turns import PEERS, after_v1, require
from requirement import requirement

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HERE = Path(__file__).parent
BIN = HERE / "node_modules" / ".bin"


def program(name: str) -> str:
    """Return the path of a program; skip or fail if it is not installed."""
    path = BIN / name
    if path.exists():
        return str(path)
    why = f"{path} is missing: run tests/interop/install.sh real"
    if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
        pytest.fail(why)
    pytest.skip(why)


@contextmanager
def running(
    command: Sequence[str], says: str, env: Mapping[str, str], cwd: Path
) -> Generator[str, None, None]:
    """Run a program until a line has some words; give its output so far."""
    with subprocess.Popen(
        command, env=env, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line)
                if says in line:
                    break
            else:
                pytest.fail("".join(lines))
            yield "".join(lines)
        finally:
            process.terminate()


@contextmanager
def qwen_environment(tmp_path: Path) -> Generator[tuple[dict[str, str], Path]]:
    """Run a model for Qwen Code; give its environment variables and a workspace."""
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    model = [sys.executable, str(HERE / "fake_model.py")]
    with running(model, "http", os.environ, tmp_path) as model_url:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": model_url.strip(),
            "OPENAI_MODEL": "fake",
            "QWEN_SERVER_TOKEN": TOKEN,
            "ACCORD_TOKEN": TOKEN,
        }
        yield env, workspace


@requirement("R-HTTP-11", "R-HTTP-37", "R-HTTP-43")
@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_qwen_code_completes_a_turn(scheme: str, tmp_path: Path) -> None:
    qwen = program("qwen")
    with qwen_environment(tmp_path) as (env, workspace):
        command = [qwen, "serve", "--port", "0", "--require-auth", "--no-web"]
        command += ["--workspace", str(workspace)]
        # It accepts WebSocket connections some time after requests by HTTP.
        ready = "listening on http" if scheme == "http" else "WebSocket transport enabled"
        with running(command, ready, env, workspace) as output:
            address = output.partition("listening on http://")[2].split()[0]
            async with accord.connect(f"{scheme}://{address}/acp", token=TOKEN) as agent:
                session = await agent.new_session(workspace)
                async with session.prompt("say hello") as said:
                    await said.wait()
                assert (said.text, said.stop_reason) == ("hello world", "end_turn")


def test_agent_from_npm_is_served_to_accord_and_to_typescript(tmp_path: Path) -> None:
    qwen = program("qwen")
    require(PEERS[1]["typescript"])
    with qwen_environment(tmp_path) as (env, workspace):
        served = [*ACCORD, "serve", "--port", "0", "--", qwen, "--acp"]
        with running(served, "http://", env, workspace) as output:
            address = output.partition("http://")[2].split()[0]
            for scheme in ("ws", "http"):
                url = f"{scheme}://{address}"
                asked = [*ACCORD, "ask", "say hello", "--quiet", "--agent", url]
                assert printed(asked, env, workspace) == "hello world\n"
            node = shutil.which("node") or "node"
            client = [node, str(INTEROP / "peers" / "ts_ask.mjs"), "say hello"]
            answer = json.loads(printed([*client, *ACCORD, "bridge", url], env, workspace))
            assert answer == {"text": "hello world", "stopReason": "end_turn"}


def printed(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> str:
    """Run a program; return its output."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@requirement("R-WS-10", "R-WS-12")
def test_stdio_to_ws_completes_a_turn(tmp_path: Path) -> None:
    agent = " ".join(PEERS[1]["accord"].start_agent())
    (port,) = free_ports(1)
    command = [program("stdio-to-ws"), "-p", str(port), agent]
    with running(command, f"{port}", ENVIRONMENT, tmp_path):
        client = [*PEERS[1]["accord"].start_client(), *ACCORD, "bridge"]
        report = turn([*client, f"ws://127.0.0.1:{port}/message"], tmp_path)
        assert report == after_v1(PEERS[1]["accord"])


@requirement("R-HTTP-02", "R-HTTP-06")
def test_acp_http_client_completes_a_turn(tmp_path: Path) -> None:
    program("stdio-to-ws")  # is installed together
    served = [*ACCORD, "serve", "--port", "0", "--", *ACCORD, "agent", "script"]
    client = [shutil.which("node") or "node", str(HERE / "acp_http_client.mjs")]
    with running(served, "http://", ENVIRONMENT, tmp_path) as output:
        url = next(word for word in output.split() if word.startswith("http://"))
        done = subprocess.run(
            [*client, url],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["protocolVersion"] == 1
    assert report["stops"] == ["end_turn", "end_turn"]
    assert report["asked"]
    assert "hello" in report["text"]
