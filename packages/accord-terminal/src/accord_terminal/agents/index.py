"""The index of a registry, read leniently: what is not understood is skipped and named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from accord.errors import AccordError
from accord.text import lenient_json
from accord_terminal.toolkit.text import one_line

# Why an agent was not found or not installed.


class RegistryError(AccordError):
    """The index of a registry cannot be loaded or read, or has no such agent."""


class InstallError(AccordError):
    """An agent was not installed; what was installed before is as it was."""


# Which variables an entry of a registry may set for its agent.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# They change which programs and libraries are loaded, where files are, and who is trusted.
_PREFIXES = (
    "ACCORD_",
    "AWS_",
    "AZURE_",
    "BUN_",
    "CARGO_",
    "CONDA_",
    "CURL_",
    "DENO_",
    "DOCKER_",
    "DYLD_",
    "GCONV_",
    "GIT_",
    "GITHUB_",
    "GLIBC_",
    "GPG_",
    "JAVA_",
    "JDK_",
    "KUBE",
    "LD_",
    "LUA_",
    "MALLOC_",
    "NODE_",
    "NPM_",
    "OPENSSL_",
    "PERL",
    "PIP_",
    "PNPM_",
    "PYTHON",
    "RUBY",
    "RUST",
    "SSH_",
    "SSL_",
    "SUDO_",
    "UV_",
    "XDG_",
    "YARN_",
)
_NAMES = frozenset(
    (
        "ALL_PROXY",
        "APPDATA",
        "BASH_ENV",
        "BROWSER",
        "CDPATH",
        "CLASSPATH",
        "COMSPEC",
        "DISPLAY",
        "EDITOR",
        "ENV",
        "GEM_HOME",
        "GEM_PATH",
        "GOFLAGS",
        "GOPATH",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "IFS",
        "LOCALAPPDATA",
        "LOGNAME",
        "NO_PROXY",
        "PAGER",
        "PATH",
        "PATHEXT",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "PWD",
        "REQUESTS_CA_BUNDLE",
        "SHELL",
        "SHELLOPTS",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "TMPDIR",
        "USER",
        "USERNAME",
        "USERPROFILE",
        "VIRTUAL_ENV",
        "VISUAL",
        "WINDIR",
        "ZDOTDIR",
        "_JAVA_OPTIONS",
    )
)


def is_allowed(name: str) -> bool:
    """Return whether an entry may set this variable (R-REG-12)."""
    upper = name.upper()  # Windows does not distinguish, and proxies have small names too
    return bool(_NAME.fullmatch(name)) and upper not in _NAMES and not upper.startswith(_PREFIXES)


def allowed_environment(env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that may be set, and the names of the others."""
    kept = {name: value for name, value in env.items() if is_allowed(name) and "\0" not in value}
    return kept, sorted(env.keys() - kept.keys())


Kind: TypeAlias = Literal["binary", "uvx", "npx"]
_ID = re.compile(r"[a-z][a-z0-9-]{0,99}")
_VERSION = re.compile(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]{0,50}")
_NPM = re.compile(r"(?:@[\w.-]+/)?[A-Za-z0-9_][\w.-]*(?:@[\w.+-]+)?", re.ASCII)
_PYPI = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w.,-]+\])?(?:(?:==|@)[\w.+!-]+)?", re.ASCII)
_PROGRAM = re.compile(r"[\w][\w.-]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_MAX_AGENTS = 10_000


class Binary(Struct, frozen=True):
    """An archive for one target; `cmd` is a path in it."""

    archive: str
    cmd: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    sha256: str | None


class Package(Struct, frozen=True):
    """A package of npm or PyPI; `cmd` is its program, if it is not named like the package."""

    package: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cmd: str | None


class Entry(Struct, frozen=True, kw_only=True):
    """An agent of the registry. Texts are safe to show."""

    id: str
    name: str
    version: str
    description: str
    website: str = ""
    license: str = ""
    authors: tuple[str, ...] = ()
    binary: Mapping[str, Binary] = {}  # by target
    uvx: Package | None = None
    npx: Package | None = None
    warnings: tuple[str, ...] = ()  # what was skipped


class Index(Struct, frozen=True):
    """The agents by id, and what was skipped."""

    agents: Mapping[str, Entry]
    skipped: tuple[str, ...]


class _Skip(Exception):
    """A part that is not understood."""


def read_index(data: bytes) -> Index:
    """Return the agents of an index. Raises `RegistryError` if nothing in it can be read."""
    try:
        root = lenient_json.loads(data)
    except ValueError as error:
        raise RegistryError(f"it is not JSON: {one_line(str(error))}") from None
    given = root.get("agents") if lenient_json.is_object(root) else None
    if not lenient_json.is_array(given):
        raise RegistryError("it has no list `agents`")
    agents: dict[str, Entry] = {}
    skipped: list[str] = []
    for number, item in enumerate(given[:_MAX_AGENTS]):
        try:
            entry = _entry(item)
            if entry.id in agents:
                raise _Skip("the id occurs twice")
            agents[entry.id] = entry
        except _Skip as why:
            name = item.get("id") if lenient_json.is_object(item) else None
            shown = one_line(name, 40) if isinstance(name, str) else f"entry {number + 1}"
            skipped.append(f"{shown}: {why}")
    if given and not agents:
        raise RegistryError(f"none of its agents can be read: {skipped[0]}")
    return Index(agents, tuple(skipped))


def read_quarantine(data: bytes) -> dict[str, str]:
    """Return the reasons by id. Raises `RegistryError` if the data is not an object."""
    try:
        given = lenient_json.loads(data)
    except ValueError as error:
        raise RegistryError(f"it is not JSON: {one_line(str(error))}") from None
    if not lenient_json.is_object(given):
        raise RegistryError("it is not an object")
    return {
        key: one_line(reason) if isinstance(reason, str) else "no reason is given"
        for key, reason in given.items()
    }


def _entry(item: Any) -> Entry:
    if not lenient_json.is_object(item):
        raise _Skip("it is not an object")
    name = _text(item, "id", _ID)
    version = _text(item, "version", _VERSION)
    kinds = item.get("distribution")
    if not lenient_json.is_object(kinds):
        raise _Skip("it has no `distribution`")
    warnings: list[str] = []
    binary = dict(_binaries(kinds.get("binary"), warnings))
    packages: dict[str, Package | None] = {}
    for kind, pattern in (("uvx", _PYPI), ("npx", _NPM)):
        packages[kind] = None
        if kind in kinds:
            try:
                packages[kind] = _package(kinds[kind], pattern, warnings)
            except _Skip as why:
                warnings.append(f"{kind}: {why}")
    warnings += [
        f"unknown kind {one_line(kind, 40)!r}"
        for kind in sorted(kinds.keys() - {"binary", "uvx", "npx"})
    ]
    if not binary and not any(packages.values()):
        raise _Skip("; ".join(["nothing in it can be installed", *warnings]))
    authors = item.get("authors")
    return Entry(
        id=name,
        name=_shown(item, "name") or name,
        version=version,
        description=_shown(item, "description"),
        website=_shown(item, "website") or _shown(item, "repository"),
        license=_shown(item, "license"),
        authors=tuple(one_line(text) for text in authors if isinstance(text, str))
        if lenient_json.is_array(authors)
        else (),
        binary=binary,
        uvx=packages["uvx"],
        npx=packages["npx"],
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _binaries(given: Any, warnings: list[str]) -> Iterator[tuple[str, Binary]]:
    if not lenient_json.is_object(given):
        return
    for target, item in given.items():
        try:
            if not lenient_json.is_object(item):
                raise _Skip("it is not an object")
            sha256 = item.get("sha256")
            if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
                raise _Skip("`sha256` is not a checksum")
            archive, cmd = _text(item, "archive"), _text(item, "cmd")
            args, env = _args(item), _env(item, warnings)
            yield target, Binary(archive, cmd, args, env, sha256 and sha256.lower())
        except _Skip as why:
            warnings.append(f"{one_line(target, 40)}: {why}")


def _package(item: Any, pattern: re.Pattern[str], warnings: list[str]) -> Package:
    if not lenient_json.is_object(item):
        raise _Skip("it is not an object")
    cmd = _text(item, "cmd", _PROGRAM) if item.get("cmd") is not None else None
    package = _text(item, "package", pattern)
    return Package(package, _args(item), _env(item, warnings), cmd)


def _args(item: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        args = msgspec.convert(item.get("args") or [], list[str])
    except msgspec.ValidationError:
        raise _Skip("`args` is not a list of strings") from None
    if any("\0" in word for word in args):
        raise _Skip("`args` has a NUL")
    return tuple(args)


def _env(item: Mapping[str, Any], warnings: list[str]) -> dict[str, str]:
    try:
        given = msgspec.convert(item.get("env") or {}, dict[str, str])
    except msgspec.ValidationError:
        raise _Skip("`env` is not a map of strings") from None
    kept, dropped = allowed_environment(given)
    warnings += [f"{one_line(name, 40)} must not be set by a registry" for name in dropped]
    return kept


def _text(item: Mapping[str, Any], key: str, pattern: re.Pattern[str] | None = None) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise _Skip(f"`{key}` is missing")
    if pattern is not None and not pattern.fullmatch(value):
        raise _Skip(f"`{key}` is not valid: {one_line(value, 60)}")
    return value


def _shown(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return one_line(value) if isinstance(value, str) else ""
