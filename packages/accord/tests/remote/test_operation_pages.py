"""The commands and units of the how-tos about containers, services and web applications."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

import accord
from codeblocks import Block, extract
from event_loop import poll_until
from free_ports import free_ports
from needs import needs
from project import ROOT

TOKEN = "a-token-for-the-how-tos-of-this-test"
pytestmark = [pytest.mark.skipif(os.name == "nt", reason="paths and signals of POSIX")]


def blocks(page: str) -> list[Block]:
    return extract((ROOT / "docs" / "how-to" / page).read_text("utf-8"))


def block(page: str, language: str, number: int = 0) -> str:
    return [found.code for found in blocks(page) if found.language == language][number]


def file(page: str, name: str) -> str:
    (found,) = [found.code for found in blocks(page) if found.value == name]
    return found


@contextmanager
def running(
    *command: str, cwd: Path, env: dict[str, str] | None = None, fds: tuple[int, ...] = ()
) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, "ACCORD_TOKEN": "", **(env or {})},
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=fds,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def serving_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        if line.startswith("Serving on "):
            return line.split()[2]
        lines.append(line)
    raise AssertionError("".join(lines))


# The container.


@pytest.mark.slow
@pytest.mark.programs
def test_dockerfile_builds_an_environment_that_serves(tmp_path: Path) -> None:
    """Runs COPY, RUN, HEALTHCHECK and CMD, with other directories and without a registry."""
    lines = block("run-in-a-container.md", "dockerfile").splitlines()
    places = {
        "/opt/agent": tmp_path / "opt",
        "/srv/agent": tmp_path / "srv",
        "/opt/wheels": tmp_path / "wheels",
    }
    places["/run/secrets"] = tmp_path / "secrets"
    for place in places.values():
        place.mkdir(exist_ok=True)
    build = tmp_path / "build"
    (build / "dist").mkdir(parents=True)
    (build / "gardener.py").write_text(file("run-in-a-container.md", "gardener.py"))
    _write_wheels(build / "dist")

    def moved(text: str) -> str:
        return re.sub("|".join(places), lambda found: str(places[found[0]]), text)

    # Dependencies come from the environment of the tests.
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    words = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}
    for line in lines:
        instruction, _, rest = line.partition(" ")
        if instruction == "COPY":
            *sources, target = shlex.split(moved(rest))
            for source in sources:
                for found in build.glob(source):
                    shutil.copy(found, target)
        elif instruction == "RUN":
            subprocess.run(
                ["/bin/sh", "-c", moved(rest)],
                env={**environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                check=True,
                capture_output=True,
                timeout=50,
            )
            _share_packages(places["/opt/agent"])
    token = places["/run/secrets"] / "accord-token"
    token.write_text(f"{TOKEN}\n")
    command = json.loads(moved(words["CMD"]))
    port = str(*free_ports(1))
    with running(*command, "--port", port, cwd=Path(moved(words["WORKDIR"]))) as process:
        serving_line(process)
        url = f"ws://127.0.0.1:{port}/acp"
        assert accord.ask(url, "a rose", token=TOKEN).text == "Planted: a rose."
        probe = json.loads(moved(words["HEALTHCHECK"].removeprefix("CMD ")).replace("8765", port))
        assert subprocess.run(probe, check=False, timeout=20).returncode == 0
        process.terminate()
        assert process.wait(20) == 0


def _write_wheels(folder: Path) -> None:
    """Write wheels of these packages, without a build backend; `.ci/run` tests the real ones."""
    for name in ("accord", "accord-trace", "accord-terminal", "accord-coder", "accord-check"):
        installed = distribution(name)
        about = f"{name.replace('-', '_')}-{installed.version}"
        source = ROOT / "packages" / name / "src"
        with ZipFile(folder / f"{about}-py3-none-any.whl", "w") as wheel:
            for path in sorted(source.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    wheel.write(path, path.relative_to(source))
            for file in ("METADATA", "entry_points.txt"):
                wheel.writestr(f"{about}.dist-info/{file}", installed.read_text(file) or "")
            wheel.writestr(f"{about}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{about}.dist-info/RECORD", "")


def _share_packages(environment: Path) -> None:
    """Let an environment find the packages of this one, after its own."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


# The service.


def units(folder: Path, *, executable: str = "/bin/true") -> tuple[Path, Path, str]:
    """Write the units of the page for verification; return them and the command."""
    opened, service = (block("run-as-a-service.md", "ini", number) for number in (0, 1))
    (line,) = [line for line in service.splitlines() if line.startswith("ExecStart=")]
    (folder / "accord.socket").write_text(opened)
    path = folder / "accord.service"
    path.write_text(service.replace("/opt/agent/bin/accord", executable))
    return folder / "accord.socket", path, line.removeprefix("ExecStart=")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_units_are_valid(tmp_path: Path) -> None:
    opened, service, _ = units(tmp_path)
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", opened, service],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    found = [line for line in verified.stderr.splitlines() if "accord" in line]
    assert (verified.returncode, found) == (0, []), verified.stderr


def test_service_gives_its_agents_time_to_end() -> None:
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(block("run-as-a-service.md", "ini", 1))
    service = parser["Service"]
    words = shlex.split(service["ExecStart"])
    drain_s = int(words[words.index("--drain") + 1])
    assert int(service["TimeoutStopSec"]) > drain_s + 8  # and for agents to end
    assert service["KillMode"] == "mixed"


@needs("accord_terminal")
def test_service_is_started_by_its_socket(tmp_path: Path) -> None:
    """Runs the command of the unit as systemd does: with the socket, after a client connects."""
    _, _, line = units(tmp_path)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "gardener.py").write_text(file("run-in-a-container.md", "gardener.py"))
    line = line.replace("/opt/agent/bin/accord", f"{sys.executable} -m accord")
    line = line.replace("${CREDENTIALS_DIRECTORY}", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port = opened.getsockname()[1]
        # A shell that puts the socket in its place, and names itself as the one it is for.
        place = "" if opened.fileno() == 3 else f"exec 3<&{opened.fileno()}; "
        script = f"{place}LISTEN_FDS=1 LISTEN_PID=$$ exec {line}"
        command = ("/bin/bash", "-c", script)

        async def ask() -> str:
            """Connect before the server is started."""
            asking = asyncio.to_thread(
                accord.ask, f"ws://127.0.0.1:{port}/acp", "a rose", token=TOKEN
            )
            return (await asyncio.wait_for(asking, 30)).text

        with running(*command, cwd=tmp_path, fds=(opened.fileno(),)) as process:
            assert asyncio.run(ask()) == "Planted: a rose."
            process.terminate()
            assert process.wait(20) == 0


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None, reason="needs systemd-socket-activate"
)
@needs("accord_terminal")
def test_program_of_systemd_activates_the_server(tmp_path: Path) -> None:
    (tmp_path / "gardener.py").write_text(file("run-in-a-container.md", "gardener.py"))
    path = tmp_path / "agent.sock"
    command = ("systemd-socket-activate", f"--listen={path}", sys.executable, "-m", "accord")
    with running(*command, "serve", "gardener:Gardener", cwd=tmp_path) as process:
        asyncio.run(poll_until(path.exists))
        assert accord.ask(f"unix:{path}", "a rose").text == "Planted: a rose."
        process.terminate()
        assert process.wait(20) == 0


# The web application.


@pytest.mark.timeout(120)
@pytest.mark.parametrize("server", ["uvicorn", "hypercorn", "granian"])
def test_command_serves_the_web_application(tmp_path: Path, server: str) -> None:
    for package in ("fastapi", server):
        pytest.importorskip(package, reason="run tests/docs/install.sh")
    page = "mount-in-fastapi.md"
    (tmp_path / "garden_server.py").write_text(file(page, "garden_server.py"))
    (line,) = [
        line.removeprefix("$ ")
        for line in block(page, "console").splitlines()
        if line.startswith(f"$ {server} ")
    ]
    (port,) = free_ports(1)
    words = shlex.split(line.replace("8000", str(port)))
    command = (sys.executable, "-m", *words)
    with running(*command, cwd=tmp_path, env={"ACCORD_TOKEN": TOKEN}) as process:
        asyncio.run(poll_until(lambda: _is_listening(port)))
        # Some listen before the process that loads the application: this waits for it.
        urlopen(f"http://127.0.0.1:{port}/agents/ready", timeout=40).close()
        for scheme in ("ws", "http"):
            url = f"{scheme}://127.0.0.1:{port}/agents/acp"
            assert accord.ask(url, "a rose", token=TOKEN).text == "Planted: a rose."
        process.terminate()
        assert process.wait(20) in (0, -15)


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
