"""The folder of persistent sessions: records, locks, sockets, and what goes wrong with them.

Only this user can enter it (R-NAMED-06). The record of a session is one JSON file that is replaced
atomically, and is found by agent, directory and name (R-NAMED-01). A lock dies with the process
that holds it (R-NAMED-02): so a session has an owner or not. At the end is how the words of a user
name a session, or make the record of a new one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct
from platformdirs import user_state_path

from accord.errors import AccordError
from accord.text.excerpt import one_line
from accord_terminal.toolkit.agent_names import (
    NamedAgent,
    SettingsError,
    find_agent,
    load_settings,
    settings_path,
)

# The exit statuses of `accord session` (R-NAMED-01).
FAILED, USAGE, TIME_LIMIT, NO_SESSION, PERMISSION_DENIED, INTERRUPTED = 1, 2, 3, 4, 5, 130


class SessionsError(AccordError):
    """A persistent session cannot be used."""

    status = FAILED


class NoSession(SessionsError):
    """There is no session of this name here."""

    status = NO_SESSION


class StoreError(SessionsError):
    """The folder of the sessions cannot be used."""


class JournalError(StoreError):
    """The journal of a session cannot be written or read."""


class OwnerError(SessionsError):
    """The process that holds the agent cannot be started or reached, or has ended."""


class OwnerStarts(OwnerError):
    """The agent of the session is still starting."""


class LoginRequired(OwnerError):
    """The agent refuses to work without a login."""


# The folders of persistent sessions: only this user can enter them (R-NAMED-06).

SOCKET_BYTES = 99  # systems allow 104 or 108 bytes with the NUL
_STATE = "ACCORD_STATE"


def require_system() -> None:
    """Raise `StoreError` on systems without Unix sockets and `flock`."""
    if sys.platform == "win32":
        raise StoreError(
            "Persistent sessions need Unix sockets and file locks, which Python does not have on "
            "Windows: use WSL, or `accord ask --continue`"
        )


def state_folder() -> Path:
    """Return the folder of the records, in ACCORD_STATE or the platform's folder for state.

    Raises `StoreError` if it cannot be made, or if others can write to it.
    """
    require_system()
    named = os.environ.get(_STATE)
    base = Path(named).expanduser() if named else user_state_path("accord", appauthor=False)
    return _own_folder(base.absolute() / "named-sessions")


def runtime_folder() -> Path:
    """Return the folder of sockets and locks, in XDG_RUNTIME_DIR or the temporary folder."""
    require_system()
    named = os.environ.get("XDG_RUNTIME_DIR")
    if named and Path(named).is_dir():
        folder = Path(named) / "accord"
        if len(os.fsencode(folder)) + 1 + 16 + len(".sock") <= SOCKET_BYTES:
            return _own_folder(folder)
    return _own_folder(Path(tempfile.gettempdir()) / f"accord-{os.getuid()}")


def socket_path(record_id: str) -> Path:
    """Return where the owner of a record listens; below 100 bytes.

    Raises `StoreError` if the temporary folder has too long a path.
    """
    key = hashlib.sha256(f"{state_folder()}\0{record_id}".encode()).hexdigest()[:16]
    path = runtime_folder() / f"{key}.sock"
    if len(os.fsencode(path)) > SOCKET_BYTES:
        raise StoreError(
            f"Expected a path of at most {SOCKET_BYTES} bytes for the socket, got {path}: set "
            "XDG_RUNTIME_DIR or TMPDIR to a shorter path"
        )
    return path


def _own_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as exc:
        raise StoreError(f"Cannot make the folder {folder}: {exc.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"Expected a folder at {folder}, got another file or a link")
    if found.st_uid != os.geteuid():
        raise StoreError(f"The folder {folder} belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


# Locks that die with the process that holds them (R-NAMED-02).

if os.name != "nt":
    import fcntl


class Lock:
    """An exclusive lock on a file; the kernel frees it when the process ends, however it ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @staticmethod
    def take(path: Path, *, wait: bool = False) -> Lock | None:
        """Take the lock; None if another process holds it and `wait` is false."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as exc:
            raise StoreError(f"Cannot open the lock {path}: {exc.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(fd)
            if exc.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise StoreError(f"Cannot lock {path}: {exc.strerror}") from None
        return Lock(fd)

    def release(self) -> None:
        """Free the lock; the file stays, so that all use the same one."""
        os.close(self._fd)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock."""
    if not path.exists():
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def has_owner(record_id: str) -> bool:
    """Return whether a process owns the session."""
    return is_locked(socket_path(record_id).with_suffix(".lock"))


@contextmanager
def locked(path: Path) -> Generator[None, None, None]:
    """Hold a lock during the block, which must be short: others wait for it."""
    lock = Lock.take(path, wait=True)
    assert lock is not None, "it waits"
    try:
        yield
    finally:
        lock.release()


# A session is found by agent, directory and name (R-NAMED-01).


class Scope(Struct, frozen=True):
    """The key of an open session; at most one open session has it."""

    argv: tuple[str, ...]
    cwd: str
    name: str | None


def folders_upward(cwd: Path) -> Iterator[str]:
    """Yield a directory and those above it, up to the root of its git repository.

    Outside of a repository only the directory itself.
    """
    cwd = cwd.resolve()
    upward = [cwd, *cwd.parents]
    root = next((folder for folder in upward if (folder / ".git").exists()), cwd)
    for folder in upward:
        yield str(folder)
        if folder == root:
            return


Restored = Literal["new", "loaded", "resumed", "forked", "lost"]
_ID_BYTES = 8
_SCHEMA = "accord.session.v1"


class Approvals(Struct, frozen=True, omit_defaults=True):
    """How the permission requests of a turn are decided before a user is asked."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    yes: bool = False


class Record(Struct, kw_only=True, omit_defaults=True):
    """A session, as it is stored. Times are RFC 3339."""

    schema: str = _SCHEMA
    id: str
    name: str | None = None
    cwd: str
    agent: str  # as the user has named it
    argv: tuple[str, ...]
    env: dict[str, str | None] = {}
    created_at: str
    used_at: str
    closed: bool = False
    # Of the agent.
    protocol: Literal[1, 2] | None = None  # before the first start: what the user has chosen
    agent_session: str | None = None
    agent_info: str | None = None
    restored: Restored | None = None  # how the agent got its session at the last start
    title: str | None = None
    # What the session is opened with.
    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()
    values: dict[str, str | bool] = {}  # of the options when they were last seen, by id
    mode_option: str = ""  # the id of the option for the mode
    mcp_files: tuple[str, ...] = ()
    meta: dict[str, Any] | None = None  # sent as `_meta` when the agent opens its session
    terminals: bool = False
    budget: str | None = None  # of --budget: limits, or the absolute path of their file
    unmetered: tuple[str, ...] = ()
    approvals: Approvals = Approvals()
    ttl_s: float = 300.0  # 0: without limit
    # Of the last owner.
    owner: int | None = None
    last_exit: str | None = None
    imported_from: str | None = None
    forked_from: str | None = None  # the id of a record
    fork_of: str | None = None  # the agent's session to fork at the first start
    extra: dict[str, Any] = {}  # of an imported record

    @property
    def label(self) -> str:
        """The name for messages."""
        return self.name or "(no name)"

    @property
    def scope(self) -> Scope:
        """What the session is found by."""
        return Scope(self.argv, self.cwd, self.name)


class _Versioned(Struct):
    schema: str = _SCHEMA


def now() -> str:
    """Return the time, for people: nothing is computed with it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Store:
    """The records of this user."""

    def __init__(self) -> None:
        self.folder: Path = state_folder()
        self.unreadable: list[str] = []  # why, for records that the last iteration skipped

    def __iter__(self) -> Iterator[Record]:
        """Yield the records, the oldest first; what cannot be read is skipped."""
        found: list[Record] = []
        self.unreadable = []
        for path in self.folder.glob("*.json"):
            try:
                found.append(self.read(path.stem))
            except StoreError as exc:
                if path.exists():  # else another process has deleted it
                    self.unreadable.append(str(exc))
        yield from sorted(found, key=lambda record: (record.created_at, record.id))

    def record_path(self, record_id: str) -> Path:
        """Return the file of a record."""
        return self.folder / f"{record_id}.json"

    def journal_path(self, record_id: str) -> Path:
        """Return the journal of a record."""
        return self.folder / f"{record_id}.jsonl"

    def log_path(self, record_id: str) -> Path:
        """Return what the last owner has written to stderr."""
        return self.folder / f"{record_id}.log"

    def read(self, record_id: str) -> Record:
        """Return a record; raise `StoreError` if there is none that this version can read."""
        path = self.record_path(record_id)
        try:
            data = path.read_bytes()
            schema = msgspec.json.decode(data, type=_Versioned).schema
            if schema == _SCHEMA:
                return msgspec.json.decode(data, type=Record)
        except FileNotFoundError:
            raise StoreError(f"Unknown session {record_id}") from None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise StoreError(f"Cannot read the record {path}: {exc}") from None
        raise StoreError(
            f"Cannot read the record {path}: expected the format {_SCHEMA}, got "
            f"{one_line(schema, 40)}, which another version of Accord has written"
        )

    def write(self, record: Record) -> None:
        """Store a record; the old one stays if the new one cannot be written."""
        path = self.record_path(record.id)
        made = path.with_suffix(f".{os.getpid()}.new")
        try:
            fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(record), indent=1))
                file.flush()
                os.fsync(file.fileno())
            made.replace(path)
        except OSError as exc:
            with suppress(OSError):
                made.unlink()
            raise StoreError(f"Cannot write the record {path}: {exc.strerror}") from None

    def change(self, record_id: str, **changes: Any) -> Record:
        """Change fields of a record, and return it."""
        with locked(self.folder / "records.lock"):
            record = msgspec.structs.replace(self.read(record_id), **changes)
            self.write(record)
            return record

    def find_or_create(self, fresh: Record, *, replace: bool = False) -> tuple[Record, bool]:
        """Return the open session of the same scope, or store this one; and whether it is new.

        Of two processes that call this at once, one creates the session (R-NAMED-03). With
        `replace` the open session of this scope is closed and a new one is stored.
        """
        with locked(self.folder / "records.lock"):
            for record in self:
                if not record.closed and record.scope == fresh.scope:
                    if not replace:
                        return record, False
                    self.write(msgspec.structs.replace(record, closed=True))
            self.write(fresh)
            return fresh, True

    def delete(self, record_id: str) -> None:
        """Remove a record, its journal and its log. Raises `StoreError`."""
        for path in (self.record_path, self.journal_path, self.log_path):
            try:
                path(record_id).unlink(missing_ok=True)
            except OSError as exc:
                raise StoreError(f"Cannot delete {path(record_id)}: {exc.strerror}") from None

    @staticmethod
    def is_id(text: str) -> bool:
        """Return whether a text has the form of the id of a record."""
        return re.fullmatch(r"s-[0-9a-f]{16}", text) is not None

    @staticmethod
    def new_id() -> str:
        """Return the id of a new record, which is also its session id for clients."""
        return f"s-{os.urandom(_ID_BYTES).hex()}"


# The session that a user names.

_MOST_CHARACTERS = 64


class LookupFailed(SessionsError):
    """The words of the user do not name one session."""

    status = USAGE


def named_agent(given: str | None) -> NamedAgent:
    """Return the agent for a value of `--agent`; None is the default one."""
    try:
        return find_agent(given, load_settings())
    except (SettingsError, ValueError) as exc:
        raise LookupFailed(str(exc)) from None


def check_name(name: str | None) -> str | None:
    """Return a name; raise `LookupFailed` for one that could not be typed or shown."""
    if name is None:
        return None
    is_plain = one_line(name) == name == " ".join(name.split())
    if not name or len(name) > _MOST_CHARACTERS or not is_plain or name.startswith("-"):
        raise LookupFailed(
            f"Expected a name of at most {_MOST_CHARACTERS} visible characters, got {name!r}"
        )
    return name


def existing_session(store: Store, name: str | None, cwd: Path, agent: str | None = None) -> Record:
    """Return the open session of a name, in this directory or above it.

    Raises `NoSession` if there is none, `LookupFailed` if several agents have one. An id of a
    session is a name, too.
    """
    records = [*store]
    if name is not None:
        for record in records:
            if record.id == name:
                return record
        if Store.is_id(name) and store.record_path(name).exists():
            return store.read(name)  # which explains why it cannot be read
    argv = None if agent is None else named_agent(agent).argv
    found = _find(records, cwd, name, argv)
    if not found:
        more = _closed_text(records, name, cwd)
        if count := len(store.unreadable):
            more += f". {count} record{'s' * (count > 1)} cannot be read: see `accord session list`"
        raise NoSession(_none_text(name, cwd, agent) + more)
    if len(found) > 1:
        raise LookupFailed(f"Several agents have this session here: give {_choices(found)}")
    return found[0]


def new_record(
    name: str | None,
    cwd: Path,
    agent: NamedAgent,
    *,
    protocol: Any = None,
    model: str | None = None,
    mode: str | None = None,
    options: Sequence[str] = (),
    mcp_files: Sequence[Path] = (),
    meta: dict[str, Any] | None = None,
    terminals: bool = False,
    budget: str | None = None,
    unmetered: Sequence[str] = (),
    approvals: Approvals | None = None,
    ttl_s: float = 300.0,
) -> Record:
    """Return the record of a new session; raise `LookupFailed` for a remote agent."""
    entry = agent.entry
    if "://" in agent.argv[0]:
        raise LookupFailed("A persistent session needs an agent that is a program, not a URL")
    defaults = tuple(
        f"{key}={value if isinstance(value, str) else 'on' if value else 'off'}"
        for key, value in entry.options.items()
    )
    return Record(
        id=Store.new_id(),
        name=check_name(name),
        cwd=str(cwd.resolve()),
        agent=agent.name,
        argv=agent.argv,
        env=dict(entry.env),
        created_at=now(),
        used_at=now(),
        protocol=protocol or entry.protocol,
        model=model or entry.model,
        mode=mode or entry.mode,
        options=(*defaults, *options),
        mcp_files=tuple(str(file.absolute()) for file in mcp_files) or _default_mcp(entry.mcp),
        meta=meta,
        terminals=terminals,
        budget=budget,
        unmetered=tuple(unmetered),
        approvals=approvals or Approvals(),
        ttl_s=ttl_s,
    )


def _find(
    records: Iterable[Record], cwd: Path, name: str | None, argv: tuple[str, ...] | None
) -> list[Record]:
    """Return the open sessions of a name in the nearest directory; with `argv`, of that agent."""
    matching = [
        record
        for record in records
        if not record.closed and record.name == name and argv in (None, record.argv)
    ]
    for folder in folders_upward(cwd):
        found = [record for record in matching if record.cwd == folder]
        if found:
            return found
    return []


def _default_mcp(named: str | None) -> tuple[str, ...]:
    return () if named is None else (str(settings_path().parent / named),)


def _none_text(name: str | None, cwd: Path, agent: str | None) -> str:
    what = "no session without a name" if name is None else f"no session {name!r}"
    whose = "" if agent is None else f" of the agent {agent}"
    create = "accord session new" + ("" if name is None else f" -s {name}")
    where = cwd.absolute()
    return f"Found {what}{whose} in {where} or above it: create it with `{create}`"


def _closed_text(records: Iterable[Record], name: str | None, cwd: Path) -> str:
    folders = {*folders_upward(cwd)}
    closed = [r for r in records if r.closed and r.name == name and r.cwd in folders]
    if not closed:
        return ""
    last = max(closed, key=lambda record: record.used_at)
    return f". One was closed: `accord session history -s {last.id}` shows it"


def _choices(records: Sequence[Record]) -> str:
    names = sorted({record.agent for record in records})
    if len(names) == len(records):
        return f"--agent {' or '.join(names)}, or an id"
    ids = " or ".join(f"{record.id} ({record.agent})" for record in records)
    return f"-s {ids}"  # the same name has meant several commands


# The login of an agent that a session holds: its owner has no terminal, so the client runs it.


def login_words(record: Record) -> tuple[str, ...]:
    """Return the arguments of `accord` that log in to the agent of a session."""
    try:
        is_known = find_agent(record.agent, load_settings()).argv == tuple(record.argv)
    except (SettingsError, ValueError):
        is_known = False
    return ("agents", "login", record.agent if is_known else shlex.join(record.argv))


def refusal(record: Record, why: str) -> str:
    """Return what a user reads whose session needs a login."""
    return f"{why}: log in with `{shlex.join(['accord', *login_words(record)])}`"


def offer_login(error: LoginRequired, words: Sequence[str], cwd: str) -> bool:
    """Ask the user at the terminal whether to log in now; return whether that succeeded."""
    import subprocess

    click.echo(f"accord: {error}", err=True)
    if not click.confirm("Log in now?", default=True, err=True):
        return False
    command = [sys.executable, "-m", "accord", *words]
    return subprocess.run(command, cwd=cwd, check=False).returncode == 0
