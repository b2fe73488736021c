"""Who is measured, and the environments they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGES = ROOT / "packages"
SOURCE = PACKAGES / "accord" / "src"
PROGRAMS = ("accord-trace", "accord-terminal", "accord-coder", "accord-check")
VENVS = HERE / ".venvs"

OFFICIAL = "1.0.0rc3"
OFFICIAL_STABLE = "0.12.1"
TYPESCRIPT = "2.4.0"
HYPERCORN = "0.18.0"  # serves the official SDK for Python
NODE_PACKAGES = {"@agentclientprotocol/sdk": TYPESCRIPT, "ws": "8.18.0"}


class Unavailable(Exception):
    """A peer cannot be set up on this machine."""


@dataclass(frozen=True)
class Peer:
    """An implementation: how to run its agent, its client and its codec."""

    name: str
    label: str
    agent: tuple[str, ...]
    client: tuple[str, ...]
    codec: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    large_environment: dict[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # these experiments, if any are named
    server: tuple[str, ...] = ()  # serves its agent on the network

    def variables(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        """Return the environment of its processes."""
        base = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        ours = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE)}
        return {**base, **ours, **self.environment, **(extra or {})}


def python_with_cli() -> str:
    """Return an interpreter that has what the program `accord` requires."""
    return _python("cli", _requirements("cli"), PROGRAMS)


def python_with_json_path() -> str:
    """Return an interpreter that can select messages by JSONPath."""
    names = [one for one in _requirements("jsonpath", package="accord-trace") if "jsonpath" in one]
    return _python("json-path", [*_requirements(), *names])


def python_with_remote() -> str:
    """Return an interpreter that has what `accord serve` and `accord bridge` require."""
    return _python("remote", _requirements("cli", "remote"), PROGRAMS)


def on_network(peer: Peer) -> Peer:
    """Return a peer with its server and with the client for it; raise `Unavailable`."""
    if peer.name == "typescript":
        server = (peer.agent[0], str(HERE / "servers" / "server_typescript.mjs"))
        return replace(peer, server=server)
    if peer.name == "official":
        requirements = [f"agent-client-protocol[http]=={OFFICIAL}", f"hypercorn=={HYPERCORN}"]
        python = _python("official-remote", requirements)
    else:
        python = python_with_remote()
    kind = peer.name.removeprefix("accord-") if peer.name != "accord" else "accord"
    server = (python, str(HERE / "servers" / f"server_{kind}.py"))
    return replace(peer, server=server, client=(python, *peer.client[1:]))


def _python(name: str, requirements: list[str], ours: Sequence[str] = ()) -> str:
    """Return the interpreter of a virtual environment that has what is required."""
    home = VENVS / name
    python, ready = home / "bin" / "python", home / "ready.txt"
    if not ready.exists() or ready.read_text() != "\n".join(requirements):
        print(f"setting up {home.relative_to(ROOT)}: {' '.join(requirements)}", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True, symlinks=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, *requirements], check=False).returncode:
            raise Unavailable(f"pip could not install {' '.join(requirements)}")
        # Commands are found by the metadata of their packages, so these are installed, too.
        edited = [part for one in ours for part in ("-e", str(PACKAGES / one))]
        if edited and subprocess.run([*pip, "--no-deps", *edited], check=False).returncode:
            raise Unavailable(f"pip could not install {' '.join(ours)}")
        ready.write_text("\n".join(requirements))
    return str(python)


def _in_python(
    name: str, label: str, adapter: str, environment: str, requirements: list[str], *paths: Path
) -> Peer:
    python = _python(environment, requirements)
    return Peer(
        name,
        f"{label}, Python {_version_of(python)}",
        agent=(python, str(HERE / "agents" / f"agent_{adapter}.py")),
        client=(python, str(HERE / "clients" / f"client_{adapter}.py")),
        codec=(python, str(HERE / "codec" / f"codec_{adapter}.py")),
        environment={"PYTHONPATH": os.pathsep.join(map(str, (*paths, HERE)))},
    )


def _version_of(python: str) -> str:
    command = "import platform; print(platform.python_version())"
    return subprocess.check_output([python, "-c", command], text=True).strip()


def _requirements(*extras: str, package: str = "accord") -> list[str]:
    """Return what a package of ours requires of others, with some of its extras."""
    project = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text())["project"]
    optional = project.get("optional-dependencies", {})
    found: dict[str, None] = {}
    for one in [*project["dependencies"], *(each for extra in extras for each in optional[extra])]:
        [(name, inner)] = re.findall(r"^([\w.-]+)(?:\[([^]]*)\])?", one)
        if (PACKAGES / name).is_dir():
            more = _requirements(*filter(None, inner.split(",")), package=name)
            found |= dict.fromkeys(more)
        else:
            found[one] = None
    return list(found)


def accord() -> Peer:
    """Return ours, from the sources as they are."""
    version: dict[str, str] = {}
    exec((SOURCE / "accord" / "version.py").read_text(), version)
    label = f"Accord {version['__version__']}"
    return _in_python("accord", label, "accord", "msgspec", _requirements(), SOURCE)


def accord_api() -> Peer:
    """Return the API that users have, `accord.Agent` and `accord.connect`, on the same sources."""
    peer = accord()
    label = "`accord.Agent` and `accord.connect` of the same"
    names = ("roundtrip", "roundtrip-one-core", "stream", "stream-agent", "stream-client", "turn")
    names += (
        "remote-stream-ws",
        "remote-stream-http",
        "remote-stdio",
        "remote-roundtrip-ws",
        "remote-roundtrip-http",
        "remote-idle",
        "remote-clients",
        "proxy-stream",
        "proxy-roundtrip",
        "proxy-turn",
        "proxy-inside",
        "proxy-memory",
    )
    agent = (peer.agent[0], str(HERE / "agents" / "agent_api.py"))
    client = (peer.client[0], str(HERE / "clients" / "client_api.py"))
    return replace(peer, name="accord-api", label=label, agent=agent, client=client, only=names)


def floor() -> Peer:
    """Return the bare loop, on the same msgspec as ours."""
    python = _python("msgspec", _requirements())
    command = "import msgspec; print(msgspec.__version__)"
    msgspec = subprocess.check_output([python, "-c", command], text=True).strip()
    label = f"bare asyncio and msgspec {msgspec} loop"
    return _in_python("floor", label, "floor", "msgspec", _requirements())


def official() -> Peer:
    """Return the newest official SDK for Python."""
    return _official("official", OFFICIAL)


def official_stable() -> Peer:
    """Return the newest official SDK for Python that is no preview."""
    return _official("official-stable", OFFICIAL_STABLE)


def _official(name: str, version: str) -> Peer:
    requirement = f"agent-client-protocol=={version}"
    label = f"PyPI agent-client-protocol {version}"
    return _in_python(name, label, "official", name, [requirement])


def _install_npm(npm: str) -> None:
    """Install the SDK, and the WebSocket package that it works with."""
    missing = []
    for name, version in NODE_PACKAGES.items():
        file = HERE / "node_modules" / name / "package.json"
        if not file.exists() or f'"version": "{version}"' not in file.read_text():
            missing.append(f"{name}@{version}")
    if missing:
        print(f"setting up node_modules: {' '.join(missing)}", file=sys.stderr)
        packages = [f"{name}@{version}" for name, version in NODE_PACKAGES.items()]
        quiet = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        install = [npm, "install", "--prefix", str(HERE), *quiet, *packages]
        if subprocess.run(install, check=False).returncode:
            raise Unavailable(f"npm could not install {' '.join(packages)}")


def typescript() -> Peer:
    """Return the official SDK for TypeScript."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("node and npm are not installed")
    _install_npm(npm)
    version = subprocess.check_output([node, "--version"], text=True).strip().lstrip("v")
    return Peer(
        "typescript",
        f"npm @agentclientprotocol/sdk {TYPESCRIPT}, Node {version}",
        agent=(node, str(HERE / "agents" / "agent_typescript.mjs")),
        client=(node, str(HERE / "clients" / "client_typescript.mjs")),
        codec=(node, str(HERE / "codec" / "codec_typescript.mjs")),
        # As it comes, it ends the connection at a line of more than 32 MiB.
        large_environment={"BENCH_MESSAGE_LIMIT": str(256 * 1024 * 1024)},
    )


PEERS: dict[str, Callable[[], Peer]] = {
    "accord": accord,
    "accord-api": accord_api,
    "official": official,
    "official-stable": official_stable,
    "typescript": typescript,
    "floor": floor,
}
