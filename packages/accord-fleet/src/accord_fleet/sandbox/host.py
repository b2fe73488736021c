"""What this machine has for a sandbox: bubblewrap, and the directories of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec

from accord_fleet.sandbox.settings import SandboxError

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
