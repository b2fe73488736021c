"""Packages are installed by the real npm and uv, from registries on loopback and in a folder."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from accord.program import main
from accord_terminal.toolkit.agent_names import load_installed
from registry.server import Registry, entry, tar
from requirement import requirement

pytestmark = [pytest.mark.programs, requirement("R-REG-06")]
npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
uv = pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")
SCRIPT = b"#!/usr/bin/env node\nconsole.log(JSON.stringify(process.argv.slice(2)))\n"


def npm_package(registry: Registry, name: str, programs: object) -> None:
    package = {"name": name, "version": "1.0.0", "bin": programs}
    archive = tar({"package/package.json": json.dumps(package).encode(), "package/run.js": SCRIPT})
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    address = registry.add(f"{name.replace('/', '-')}.tgz", archive)
    row = {**package, "dist": {"tarball": address, "integrity": f"sha512-{digest}"}}
    document = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": row}}
    registry.files[f"/{name.replace('/', '%2f')}"] = json.dumps(document).encode()


@pytest.fixture
def npm_registry(registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Registry:
    monkeypatch.setenv("npm_config_registry", registry.address)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
    monkeypatch.setenv("npm_config_update_notifier", "false")
    return registry


@npm
@pytest.mark.parametrize(
    ("programs", "more"),
    [
        ("run.js", {}),
        ({"agent": "./run.js"}, {}),
        ({"other": "x.js", "agent": "run.js"}, {}),
        ({"one": "x.js", "two": "run.js"}, {"cmd": "two"}),
    ],
)
def test_package_of_npm_runs_without_path(
    npm_registry: Registry, programs: object, more: dict[str, str]
) -> None:
    npm_package(npm_registry, "@scope/agent", programs)
    package = {"package": "@scope/agent@1.0.0", "args": ["--acp"], **more}
    npm_registry.offer(entry("agent", npx=package))
    assert main(["agents", "install", "agent"]) == 0
    argv = load_installed()["agent"].argv
    ran = subprocess.run(argv, env={}, capture_output=True, check=True)
    assert json.loads(ran.stdout) == ["--acp"]


@npm
@pytest.mark.parametrize("programs", [{}, {"a": "run.js", "b": "run.js"}, "../../x.js"])
def test_package_of_npm_without_the_program_is_refused(
    npm_registry: Registry, programs: object, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npm_package(npm_registry, "agent", programs)
    npm_registry.offer(entry("agent", npx={"package": "agent@1.0.0"}))
    assert main(["agents", "install", "agent"]) == 1
    assert "The package has no program agent" in capsys.readouterr().err
    assert list((data / "agents" / "agent").iterdir()) == []


@npm
def test_error_of_npm_is_shown(npm_registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    npm_registry.offer(entry("agent", npx={"package": "no-such-package@1.0.0"}))
    assert main(["agents", "install", "agent"]) == 1
    error = capsys.readouterr().err
    assert "npm failed:" in error
    assert "404" in error


@uv
def test_package_of_pypi_runs_without_path(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "tiny_agent-1.0.0-py3-none-any.whl", "w") as wheel:
        info = "tiny_agent-1.0.0.dist-info"
        wheel.writestr("tiny_agent.py", "import sys\ndef main(): print(sys.argv[1:])\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-agent\nVersion: 1.0.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{info}/entry_points.txt", "[console_scripts]\ntiny-acp = tiny_agent:main\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_PYTHON", sys.executable)
    package = {"package": "tiny-agent==1.0.0", "cmd": "tiny-acp", "args": ["--acp"]}
    registry.offer(entry("tiny", uvx=package))
    assert main(["agents", "install", "tiny"]) == 0
    ran = subprocess.run(load_installed()["tiny"].argv, env={}, capture_output=True, check=True)
    assert ran.stdout.strip() == b"['--acp']"
    registry.offer(entry("tiny", uvx={"package": "tiny-agent@1.0.0"}), etag='"2"')
    assert main(["agents", "install", "tiny", "--force"]) == 1
    ran = subprocess.run(load_installed()["tiny"].argv, env={}, capture_output=True, check=True)
    assert ran.stdout.strip() == b"['--acp']"


@npm
@pytest.mark.timeout(300)
def test_agent_of_the_real_registry_of_npm_starts(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    ping = ["npm", "view", "@qwen-code/qwen-code@0.24.4", "version"]
    if subprocess.run(ping, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("needs the registry of npm")
    package = {"package": "@qwen-code/qwen-code@0.24.4", "args": ["--acp"]}
    registry.offer(entry("qwen-code", "0.24.4", npx=package))
    assert main(["agents", "install", "qwen-code"]) == 0
    capsys.readouterr()
    assert main(["doctor", "qwen-code", "--json", "--timeout", "90"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["agents"]
    assert (found["info_name"], found["version"]) == ("qwen-code", "0.24.4")
    assert found["login"] == "required"


@uv
@pytest.mark.timeout(300)
def test_agent_of_the_real_registry_of_pypi_starts(
    registry: Registry, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted = "gptme-acp==0.35.1"
    ping = ["uv", "pip", "install", "--dry-run", "--no-deps", "--target", str(tmp_path), wanted]
    if subprocess.run(ping, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("needs the registry of PyPI")
    registry.offer(entry("gptme", "0.35.1", uvx={"package": wanted}))
    assert main(["agents", "install", "gptme"]) == 0
    capsys.readouterr()
    assert main(["doctor", "gptme", "--json", "--timeout", "90"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["agents"]
    assert (found["info_name"], found["version"]) == ("gptme", "0.35.1")
    assert found["login"] == "not required"
