"""The plan of a sandbox: the words before an agent's command, and its environment."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from accord_fleet.sandbox import inside
from accord_fleet.sandbox.host import SandboxHost
from accord_fleet.sandbox.programs import is_below, program_files
from accord_fleet.sandbox.settings import SandboxError, SandboxSettings

PROXY_PORT = 3128

_INSIDE = "/run/accord/inside.py"
_GATEWAY = "/run/accord/gateway.sock"
_PROXY = "/run/accord/proxy.sock"
_USER = 1000
_HOST_NAME = "sandbox"
# Of the environment of this program; everything else is given on purpose.
_KEPT = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "PATH", "TERM", "TZ")


class Exits(msgspec.Struct, frozen=True, kw_only=True):
    """Unix sockets outside that lead to the network."""

    gateway: str | None = None
    """Of the model gateway."""
    gateway_port: int = 0
    """The port of the gateway, which is the same inside: agents get one address."""
    proxy: str | None = None
    """Of the proxy for allowed hosts."""


class SandboxPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a command is started in a sandbox: `(*argv, *command)` with exactly this environment."""

    argv: tuple[str, ...]
    env: dict[str, str]
    active: tuple[str, ...]
    """What is isolated, as lines of text."""
    inactive: tuple[str, ...]
    """What is not."""

    def env_changes(self, inherited: Mapping[str, str]) -> dict[str, str | None]:
        """Return the environment as changes of an inherited one, as `accord.connect` takes it."""
        return {**dict.fromkeys(inherited), **self.env}


def plan_sandbox(
    settings: SandboxSettings,
    host: SandboxHost,
    *,
    workspace: str,
    command: Sequence[str],
    env: Mapping[str, str],
    inherited: Mapping[str, str],
    exits: Exits,
) -> SandboxPlan:
    """Plan the sandbox for a command in a workspace.

    `env` is what the command gets in addition to a few variables of `inherited`, such as `PATH`.
    Raise `SandboxError` if the command cannot run in the sandbox.
    """
    settings.check()
    environment = {name: inherited[name] for name in _KEPT if name in inherited}
    environment.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    environment |= {"HOME": host.home, "TMPDIR": "/tmp", "USER": "user", "LOGNAME": "user"}
    environment |= env
    files = program_files(command[0], environment["PATH"])
    if not files:
        raise SandboxError(f"Expected a program on PATH as the agent's command, got {command[0]!r}")
    if settings.mode != "models":
        exits = Exits()
    readable = _readable(settings, host, files, workspace)
    argv = [
        *(host.bwrap, *host.namespaces, "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--uid", str(_USER), "--gid", str(_USER)),
        *("--hostname", _HOST_NAME),
    ]
    if settings.mode != "network":
        argv += ["--unshare-net"]
    argv += [word for target, path in host.links for word in ("--symlink", target, path)]
    argv += _bind(host.directories)
    if settings.mode == "network" and host.resolv_conf is not None:
        argv += ["--ro-bind", host.resolv_conf, "/etc/resolv.conf"]
    # Root could change settings of the kernel in a /proc/sys that is writable.
    argv += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    size = str(settings.tmp_bytes)
    for private in sorted({"/tmp", "/var/tmp", host.home}, key=len):
        argv += ["--size", size, "--tmpfs", private]
    argv += _bind(readable)
    argv += ["--ro-bind", inside.__file__, _INSIDE]
    for outside, path in ((exits.gateway, _GATEWAY), (exits.proxy, _PROXY)):
        if outside is not None:
            argv += ["--ro-bind", outside, path]
    argv += ["--bind", workspace, workspace, "--remount-ro", "/", "--chdir", workspace, "--"]
    argv += [host.python, "-I", "-S", _INSIDE, *_limits(settings), *_forwards(exits), "--"]
    if exits.proxy is not None:
        environment |= _proxy_environment()
    active, inactive = _statements(settings, host, exits)
    return SandboxPlan(argv=tuple(argv), env=environment, active=active, inactive=inactive)


def any_workspace() -> str:
    """Return a path where a workspace can be on this machine."""
    return f"{os.path.realpath(tempfile.gettempdir())}/workspace"


def why_not_shown(
    settings: SandboxSettings, home: str, workspace: str, results: str | None = None
) -> list[str]:
    """Return why paths to read cannot be shown on this machine.

    They must exist, and lead neither to the workspaces nor to the folder of the results.
    """
    errors: list[str] = []
    for path in _chosen(settings, home):
        why = None
        real = os.path.realpath(path)
        if not Path(path).exists():
            why = "it does not exist"
        elif is_below(workspace, (path, real)):
            why = "it contains the workspaces"
        elif results is not None and (is_below(results, (real,)) or is_below(real, (results,))):
            why = "it leads to the results of the run"
        if why is not None:
            errors.append(f"The sandbox cannot show {path} to agents: {why}")
    return errors


def _chosen(settings: SandboxSettings, home: str) -> list[str]:
    return [f"{home}/{path[2:]}" if path[:2] == "~/" else path for path in settings.read]


def _readable(
    settings: SandboxSettings, host: SandboxHost, files: Sequence[str], workspace: str
) -> list[str]:
    """Return the further paths that are bound, directories before what is in them."""
    if errors := why_not_shown(settings, host.home, workspace):
        raise SandboxError("\n".join(errors))
    chosen = _chosen(settings, host.home)
    found: list[str] = []
    for path in sorted((*chosen, *files, *host.python_directories, str(Path(host.python)))):
        if not is_below(path, (*host.directories, *found)):
            found.append(path)
    return found


def _bind(paths: Sequence[str]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind", path, path)]


def _limits(settings: SandboxSettings) -> list[str]:
    limits = {
        "core": 0,
        "nproc": settings.processes,
        "nofile": settings.files,
        "fsize": settings.file_bytes,
    }
    return [word for name, most in limits.items() for word in ("--limit", f"{name}={most}")]


def _forwards(exits: Exits) -> list[str]:
    forwards: list[str] = []
    if exits.gateway is not None:
        forwards += ["--forward", f"{exits.gateway_port}={_GATEWAY}"]
    if exits.proxy is not None:
        forwards += ["--forward", f"{PROXY_PORT}={_PROXY}"]
    return forwards


def _proxy_environment() -> dict[str, str]:
    address = f"http://127.0.0.1:{PROXY_PORT}"
    proxied = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    none = "127.0.0.1,localhost"
    return {**dict.fromkeys(proxied, address), "NO_PROXY": none, "no_proxy": none}


def _statements(
    settings: SandboxSettings, host: SandboxHost, exits: Exits
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    active = [
        "files: only the workspace is writable; system directories are read-only; /tmp and the"
        " home directory are private",
        "processes: own process, IPC and user namespaces, no capabilities; all end with the agent",
        "environment: only listed variables",
    ]
    inactive: list[str] = []
    match settings.mode:
        case "network":
            inactive.append("network: agents reach everything that this machine reaches")
        case "no-network":
            active.append("network: off")
        case _:
            ways = [*(["the model gateway"] if exits.gateway else []), *settings.allow_hosts]
            active.append(f"network: {', '.join(ways)} only" if ways else "network: off")
    if host.is_root:
        inactive.append(
            "limit of processes by the kernel: it does not count those of root (the watcher counts"
            " them)"
        )
    else:
        active.append(f"processes: at most {settings.processes}")
    if "--disable-userns" not in host.namespaces:
        inactive.append("agents can make user namespaces of their own (bubblewrap before 0.8)")
    return tuple(active), tuple(inactive)
