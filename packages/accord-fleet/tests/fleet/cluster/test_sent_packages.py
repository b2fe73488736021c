"""A cluster without Accord: the driver sends its own, and the bundled agents run there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import subprocess
import sys
import venv
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord_fleet import AgentSpec, RayEngine, Result, Task, Times
from accord_fleet.dataset.dataset import Dataset
from accord_fleet.plan import RunSettings
from accord_fleet.run import Attempted, Control
from accord_fleet.types import WorkItem
from fleet.cluster.conftest import RayCluster, running_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    # Ray leaves files and sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def python_without_accord(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with every package that is installed here, except those of Accord."""
    pytest.importorskip("ray")
    folder = tmp_path_factory.mktemp("node")
    venv.create(folder, with_pip=False)
    [packages] = folder.glob("lib/python*/site-packages")
    for path in map(Path, sys.path):
        for entry in path.iterdir() if path.name == "site-packages" else ():
            is_own = entry.name.lower().lstrip("_").startswith(("accord", "editable"))
            if not is_own and entry.suffix != ".pth" and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    python = str(folder / "bin" / "python")
    ended = subprocess.run([python, "-c", "import ray, accord"], capture_output=True, text=True)
    assert "No module named 'accord'" in ended.stderr
    return python


@pytest.fixture(scope="module")
def bare_cluster(python_without_accord: str) -> Iterator[RayCluster]:
    with running_cluster(python_without_accord) as cluster:
        yield cluster


def look() -> Any:
    """Return what opens the attempts of a slot: each says which programs and modules it has."""

    @contextlib.asynccontextmanager
    async def open_attempts(settings: RunSettings, _: Any) -> AsyncIterator[Any]:
        import accord
        import accord_coder

        folders = [Path(module.__path__[0]).parent for module in (accord, accord_coder)]

        async def run(item: WorkItem, _: Control) -> Attempted:
            answer = "\n".join([sys.executable, settings.agents[0].command[0], *map(str, folders)])
            result = Result(
                task=item.task.id,
                agent=item.agent,
                status="finished",
                answer=answer,
                machine="",
                times=Times(started=0),
            )
            return Attempted(result, None)

        yield run

    return open_attempts


async def test_slots_import_the_packages_of_the_driver(
    bare_cluster: Any, python_without_accord: str
) -> None:
    engine = RayEngine(bare_cluster.address, jobs=1, open_attempts=look())
    settings = RunSettings(agents=(AgentSpec(name="a", command=(sys.executable, "agent.py")),))
    work = [WorkItem(task=Task(id="t", prompts=("x",)), agent="a")]
    async with contextlib.aclosing(engine.run(work, settings, Control())) as outcomes:
        [answer] = [outcome.result.answer async for outcome in outcomes]
    python, agent, *folders = answer.split("\n")
    assert python == agent == python_without_accord
    assert all("py_modules_files" in folder for folder in folders)


def test_the_bundled_agents_run_on_nodes_without_accord(bare_cluster: Any, tmp_path: Path) -> None:
    tasks = [Task(id=f"t{n}", prompts=("help",)) for n in range(4)]
    (tmp_path / "tasks.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, tasks)))
    agent = shlex.join([sys.executable, "-m", "accord", "agent"])
    words = ["run", "tasks.jsonl", "--out", "run", "--on", bare_cluster.address, "--jobs", "4"]
    agents = ["--agent", f"script={agent} script", "--agent", f"coder={agent} --model demo"]
    ended = subprocess.run(
        [sys.executable, "-m", "accord", "fleet", *words, *agents],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "ACCORD_DATA": str(tmp_path / "data")},
    )
    assert ended.returncode == 0, ended.stderr
    results = list(Dataset.open(tmp_path / "run").results())
    assert {(result.agent, result.status) for result in results} == {
        ("script", "finished"),
        ("coder", "finished"),
    }
    assert len(results) == 8
    [demo] = {result.answer for result in results if result.agent == "coder"}
    assert demo
    assert "demonstration model" in demo


def write_wheel(folder: Path) -> Path:
    """Write a package with the program `tiny-agent`, which serves the script agent."""
    wheel = folder / "tiny_agent-1.0-py3-none-any.whl"
    info = "tiny_agent-1.0.dist-info"
    code = "from accord_coder.command import main\n\n\ndef serve():\n    return main(['script'])\n"
    files = {
        "tiny_agent.py": code,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny-agent\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntiny-agent = tiny_agent:serve\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return wheel


async def test_the_packages_of_an_agent_are_installed_on_its_node(
    bare_cluster: Any, tmp_path: Path
) -> None:
    pytest.importorskip("virtualenv", reason="Ray installs packages with it")
    wheel = await asyncio.to_thread(write_wheel, tmp_path)
    packages = (f"tiny-agent @ {wheel.as_uri()}",)
    agent = AgentSpec(name="tiny", command=("tiny-agent",), packages=packages)
    engine = RayEngine(bare_cluster.address, jobs=1)
    work = [WorkItem(task=Task(id="t", prompts=("echo hello",)), agent="tiny")]
    settings = RunSettings(agents=(agent,))
    async with contextlib.aclosing(engine.run(work, settings, Control())) as outcomes:
        [result] = [outcome.result async for outcome in outcomes]
    assert (result.status, result.answer) == ("finished", "hello"), result.failure
