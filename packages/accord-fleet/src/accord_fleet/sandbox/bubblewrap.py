"""The sandbox of the agents on one machine: which command puts an agent into bubblewrap.

In reading order: what this machine has, the files that a program needs, the plan (`plan_sandbox`),
the proxy to the allowed hosts, and `BubblewrapSandbox`, which `open_sandbox` makes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from accord_fleet.sandbox import inside
from accord_fleet.sandbox.settings import HostRule, SandboxError, SandboxSettings
from accord_fleet.scratch import socket_folder
from accord_fleet.splice import serve_unix, splice
from accord_fleet.types import AttemptFailed, Launch

# This machine: bubblewrap, and the directories of the system.

_TRIAL_S = 20.0
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "gnu")
# Of /etc, only what programs need to find libraries, names, certificates and the time.
_ETC = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "group",
    "host.conf",
    "hosts",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)


class SandboxHost(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a machine that a plan needs."""

    bwrap: str
    """Path of bubblewrap."""
    namespaces: tuple[str, ...]
    """The options for namespaces that work here."""
    links: tuple[tuple[str, str], ...]
    """Links of the root directory, as (target, path)."""
    directories: tuple[str, ...]
    """Directories and files of the system that agents read."""
    resolv_conf: str | None
    """The file behind `/etc/resolv.conf`."""
    home: str
    is_root: bool
    python: str
    """The interpreter of the helper in the sandbox, and the directories that it needs."""
    python_directories: tuple[str, ...]


@cache
def sandbox_host() -> SandboxHost:
    """Return what this machine has; raise `SandboxError` that says what is missing."""
    if not sys.platform.startswith("linux"):
        raise SandboxError(
            f"The sandbox needs bubblewrap, which runs on Linux only; this machine has"
            f" {sys.platform}. Run the fleet in a Linux container or a virtual machine, or without"
            " `--sandbox`"
        )
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError(
            "The sandbox needs bubblewrap: the program `bwrap` is not on PATH. Install the package"
            " `bubblewrap`, or run without `--sandbox`"
        )
    namespaces = _working_namespaces(bwrap)
    python = os.path.realpath(sys.executable)
    links, directories = _system_directories()
    home = os.path.expanduser("~")  # noqa: PTH111  # a text, also without a home directory
    resolv = os.path.realpath("/etc/resolv.conf")
    return SandboxHost(
        bwrap=bwrap,
        namespaces=namespaces,
        links=links,
        directories=directories,
        resolv_conf=resolv if Path(resolv).is_file() else None,
        home=home if home.startswith("/") and home != "/" else "/home/user",
        is_root=os.geteuid() == 0,
        python=python,
        python_directories=(sys.base_prefix,),
    )


_NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
)


def _working_namespaces(bwrap: str) -> tuple[str, ...]:
    """Return the options that work; raise `SandboxError` if the necessary ones do not."""
    newest = (*_NAMESPACES, "--disable-userns")  # bubblewrap 0.8
    if _trial(bwrap, newest) is None:
        return newest
    error = _trial(bwrap, _NAMESPACES)
    if error is None:
        return _NAMESPACES
    raise SandboxError(
        f"bubblewrap is installed but cannot make a sandbox here: {error}. The kernel or the"
        " container must allow user namespaces (sysctl kernel.unprivileged_userns_clone,"
        " user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns; Docker:"
        " --security-opt seccomp=unconfined --security-opt systempaths=unconfined). Or run without"
        " `--sandbox`"
    )


def _trial(bwrap: str, namespaces: tuple[str, ...]) -> str | None:
    """Return why a sandbox does not start; None if it does."""
    command = [
        *(bwrap, *namespaces, "--unshare-net", "--die-with-parent", "--new-session"),
        *("--uid", "1000", "--gid", "1000", "--ro-bind", "/", "/", "--proc", "/proc"),
        *("--dev", "/dev", "--tmpfs", "/tmp", "--cap-drop", "ALL", "true"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TRIAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return str(exc)
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").strip()
    return said or f"it ended with status {done.returncode}"


def _system_directories() -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    links: list[tuple[str, str]] = []
    found = ["/usr"]
    for name in _SYSTEM:
        path = Path("/") / name
        if path.is_symlink():
            links.append((str(path.readlink()), str(path)))
        elif path.is_dir():
            found.append(str(path))
    found += (str(path) for name in _ETC if (path := Path("/etc") / name).exists())
    return tuple(links), tuple(found)


# The files of a program that is not in the directories of the system.

_LINKS = 40  # more than a chain of links can have
_SHEBANG_BYTES = 512


def program_files(command: str, search_path: str | None) -> tuple[str, ...]:
    """Return the paths that a program is made of; () if it is not found.

    These are the file and the links that lead to it, the virtual environment (with the packages
    that it links to) or the installation of Python that it belongs to, the outermost
    `node_modules`, and the same for the interpreter that its first line names.
    """
    found = shutil.which(command, path=search_path)
    if found is None:
        return ()
    paths: dict[str, None] = {}
    _add_program(Path(os.path.abspath(found)), search_path, paths)  # noqa: PTH100  # keeps links
    return tuple(paths)


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Return whether a path is one of the directories, or in one."""
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in directories)


def _add_program(program: Path, search_path: str | None, paths: dict[str, None]) -> None:
    if str(program) in paths:
        return
    for link in _chain(program):
        paths[str(link)] = None
        for directory in _installation(link):
            paths[str(directory)] = None
    words = _shebang(program)
    if words[:1] == ["/usr/bin/env"]:
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    interpreter = shutil.which(words[0], path=search_path) if words else None
    if interpreter is not None:
        _add_program(Path(os.path.abspath(interpreter)), search_path, paths)  # noqa: PTH100


def _chain(path: Path) -> list[Path]:
    """Return a path and those that its links lead to."""
    chain = [path]
    for _ in range(_LINKS):
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        chain.append(path)
    real = path.resolve()
    return chain if real in chain else [*chain, real]


def _installation(program: Path) -> list[Path]:
    folder = program.parent
    prefix = folder.parent
    settings = prefix / "pyvenv.cfg"
    if settings.is_file():
        return [prefix, *_base_of(settings), *_editable(prefix)]
    modules = [each for each in program.parents if each.name == "node_modules"]
    if modules:
        return [modules[-1]]
    if folder.name == "bin" and prefix != prefix.parent and (prefix / "lib").is_dir():
        return [prefix]  # an installation of Python, node or another language of its own
    return []


def _base_of(settings: Path) -> list[Path]:
    for line in settings.read_text("utf-8", "replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home" and value.strip():
            home = Path(value.strip())
            return list(dict.fromkeys((home.parent, home.parent.resolve())))
    return []


def _editable(prefix: Path) -> list[Path]:
    """Return the directories of packages that are installed as links to their source."""
    found: list[Path] = []
    for file in prefix.glob("lib/python*/site-packages/*.pth"):
        lines = file.read_text("utf-8", "replace").splitlines()
        found += (Path(line) for line in lines if line.startswith("/") and Path(line).is_dir())
    return found


def _shebang(program: Path) -> list[str]:
    try:
        with program.open("rb") as file:
            first = file.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    return first[2:].decode("utf-8", "replace").split()


# The plan of a sandbox: the words before an agent's command, and its environment.

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


# The proxy: a Unix socket that leads to the allowed hosts only.

log: logging.Logger = logging.getLogger("accord.fleet")

_HEAD_S = 30.0
_CONNECT_S = 30.0


@contextlib.asynccontextmanager
async def serve_allow_list(hosts: Sequence[str], path: Path) -> AsyncGenerator[None]:
    """Serve HTTP proxy requests at a Unix socket: CONNECT, and requests with a whole address.

    The socket is in a directory that only the caller can enter.
    """
    proxy = _Proxy([HostRule.parse(host) for host in hosts])
    async with serve_unix(path, proxy.serve):
        yield


class _Proxy:
    def __init__(self, rules: Sequence[HostRule]) -> None:
        self._rules = rules

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        line, *fields = head[:-4].split(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        is_tunnel = method == "CONNECT"
        address = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = address.hostname or "", address.port or (443 if is_tunnel else 80)
        if not is_tunnel and address.scheme != "http":
            await _refuse(writer, "400 Bad Request", "Expected CONNECT or a whole http: address")
            return
        if not any(rule.allows(host, port) for rule in self._rules):
            log.info("x the sandbox does not allow %s:%d", host, port)
            await _refuse(writer, "403 Forbidden", f"The sandbox does not allow {host}:{port}")
            return
        try:
            async with asyncio.timeout(_CONNECT_S):
                outer_reader, outer_writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError) as exc:
            await _refuse(writer, "502 Bad Gateway", f"{host}:{port} cannot be reached: {exc}")
            return
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = address._replace(scheme="", netloc="", fragment="").geturl() or "/"
                outer_writer.write(_origin_head(method, path, version, fields))
            await splice((reader, outer_writer), (outer_reader, writer))
        finally:
            outer_writer.close()


def _origin_head(method: str, path: str, version: str, fields: Sequence[bytes]) -> bytes:
    """Return the head of a request for the server itself, the last of its connection."""
    dropped = (b"connection:", b"proxy-", b"keep-alive:")
    kept = [field for field in fields if not field.lower().startswith(dropped)]
    first = f"{method} {path} {version}".encode()
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


async def _refuse(writer: asyncio.StreamWriter, status: str, message: str) -> None:
    body = f"{message}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()


class BubblewrapSandbox:
    """Plans the sandboxes of attempts on this machine."""

    def __init__(
        self,
        settings: SandboxSettings,
        host: SandboxHost,
        exits: Exits,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._host = host
        self._exits = exits
        self._environ = environ

    def plan(self, launch: Launch, workspace: Path, secrets: Sequence[str] = ()) -> Launch:
        """Return the launch with the sandbox around it; raise `AttemptFailed` if it cannot run.

        `secrets` are names of variables of this machine that the command gets.
        """
        env = {name: self._environ[name] for name in secrets if name in self._environ}
        env |= {name: value for name, value in launch.env.items() if value is not None}
        try:
            planned = self._planned(launch.argv, workspace, env)
        except SandboxError as error:
            raise AttemptFailed("sandbox", str(error)) from error
        return Launch(
            argv=(*planned.argv, *launch.argv),
            env=planned.env_changes(self._environ),
            cwd=str(workspace),
            is_shared=False,
        )

    def describe(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what is isolated, and what is not."""
        planned = self._planned((self._host.python,), Path("/nonexistent"), {})
        return planned.active, planned.inactive

    def _planned(
        self, command: Sequence[str], workspace: Path, env: Mapping[str, str]
    ) -> SandboxPlan:
        return plan_sandbox(
            self._settings,
            self._host,
            workspace=str(workspace),
            command=command,
            env=env,
            inherited=self._environ,
            exits=self._exits,
        )


@contextlib.asynccontextmanager
async def open_sandbox(
    settings: SandboxSettings, *, gateway: tuple[str, int] | None = None
) -> AsyncGenerator[BubblewrapSandbox]:
    """Make sandboxes available in the block; raise `SandboxError` that says what is missing.

    The paths that agents can read must exist.

    `gateway` is the Unix socket of the model gateway, and its port.
    """
    settings.check()
    host = sandbox_host()
    if errors := why_not_shown(settings, host.home, any_workspace()):
        raise SandboxError("\n".join(errors))
    socket, port = (None, 0) if gateway is None else gateway
    with socket_folder() as folder:
        async with contextlib.AsyncExitStack() as stack:
            proxy: str | None = None
            if settings.allow_hosts:
                proxy = str(folder / "proxy.sock")
                await stack.enter_async_context(serve_allow_list(settings.allow_hosts, Path(proxy)))
            exits = Exits(gateway=socket, gateway_port=port, proxy=proxy)
            yield BubblewrapSandbox(settings, host, exits)
