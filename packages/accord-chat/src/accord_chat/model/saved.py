"""What survives the program: the open sessions of a folder with their drafts, and permissions.

`SavedChats` keeps the sessions, drafts and queued prompts of a folder, `PermissionMemory` what
the user wants to be remembered, by agent, tool and path, and `Choices` what Enter does. A file is
replaced as a whole; the first two are put aside if they cannot be read.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct
from platformdirs import user_state_path

from accord.client.events import PermissionRequest
from accord.client.permissions import allows, command_of, denies
from accord.text.excerpt import visible
from accord.types.tool_calls import Diff

_VERSION = 1


class SavedTab(Struct, kw_only=True):
    """One session, as it was when the program ended."""

    agent: str  # as given to --agent
    session_id: str | None = None  # None if it cannot be opened again
    title: str = ""
    options: dict[str, str | bool] = {}  # their values, by id
    draft: str = ""
    queue: list[str] = []
    images: list[str] = []  # paths of the images of the draft and the queue
    lost_images: int = 0  # of the clipboard, which are not kept


class SavedChat(Struct, kw_only=True):
    """The open sessions of one folder."""

    version: int = _VERSION
    tabs: list[SavedTab] = []
    active: int = 0


class _Versioned(Struct):
    version: int = _VERSION


class SavedChats:
    """The file of one folder, and its lock: only one program at a time has the chat of a folder."""

    def __init__(self, folder: Path, state: Path | None = None) -> None:
        place = state or user_state_path("accord", appauthor=False) / "chat"
        name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:24]
        self.path = place / f"{name}.json"
        self._lock = FileLock(place / f"{name}.lock", mode=0o600)
        self.is_held = False
        self.problem: str | None = None  # why nothing is saved
        self._is_lost_by_saving = False  # what cannot be read, and could not be put aside
        self._put_aside = ""

    def acquire(self) -> bool:
        """Take the lock; return whether no other program has it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire(timeout=0)
        except Timeout:
            self.problem = "Another accord chat runs in this folder"
            return False
        except OSError as error:
            self.problem = f"{self.path.parent}: {error.strerror}"
            return False
        self.is_held, self.problem = True, None
        return True

    def release(self) -> None:
        """Give the lock back."""
        if self.is_held:
            self.is_held = False
            self._lock.release()

    def load(self) -> SavedChat:
        """Return what was saved; an empty chat if there is nothing.

        A file that cannot be read, or that a newer version has written, is put aside.
        """
        try:
            data = self.path.read_bytes()
            if msgspec.json.decode(data, type=_Versioned).version != _VERSION:
                raise msgspec.ValidationError("another version of Accord has written it")
            return msgspec.json.decode(data, type=SavedChat)
        except FileNotFoundError:
            return SavedChat()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._keep_unreadable(_why_unreadable(error))
            return SavedChat()

    def _keep_unreadable(self, why: str) -> None:
        try:
            aside = _move_aside(self.path)
        except OSError as error:
            self._is_lost_by_saving = True
            self.problem = f"{self.path} cannot be read ({why}), nor renamed: {error.strerror}"
        else:
            self._put_aside = (
                f"What was open here cannot be read ({why}). Nothing of it is deleted: {aside}"
            )

    def take_remark(self) -> str:
        """Return, once, what was put aside; an empty text if nothing was."""
        remark, self._put_aside = self._put_aside, ""
        return remark

    def save(self, chat: SavedChat) -> None:
        """Replace the file, mode 0600; without the lock nothing is written."""
        if not self.is_held or self._is_lost_by_saving:
            return
        try:
            replace_file(self.path, msgspec.json.encode(chat))
            self.problem = None
        except OSError as error:  # a full disk must not end the chat
            self.problem = f"{self.path.parent}: {error.strerror}"


class _Choices(Struct, omit_defaults=True):
    enter: Literal["queue", "steer"] = "queue"


class Choices:
    """What the user has chosen for all chats; several programs share the file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "choices.json"
        self._choices = _Choices()
        with suppress(OSError, msgspec.MsgspecError):  # the file has nothing that is missed
            self._choices = msgspec.json.decode(self._path.read_bytes(), type=_Choices)

    @property
    def enter(self) -> Literal["queue", "steer"]:
        """What Enter does with a prompt while the agent works."""
        return self._choices.enter

    def switch_enter(self) -> None:
        """Let Enter do the other thing from now on. Raises `OSError` if that is not kept."""
        self._choices.enter = "queue" if self._choices.enter == "steer" else "steer"
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(self._path, msgspec.json.encode(self._choices))


LOCK_S = 5.0
# A rule for all calls of these kinds changes nothing outside of the agent.
_HARMLESS_KINDS = ("think", "switch_mode")


class RememberedRule(Struct, frozen=True):
    """A decision for an agent; the rule is one of `--allow` and `--deny`."""

    agent: str
    rule: str
    decision: Literal["allow", "reject"] = "allow"

    @property
    def summary(self) -> str:
        """The rule for the user."""
        kind, _, pattern = self.rule.partition(":")
        return visible(f"{kind} {_unescaped(pattern)}".strip())


class PermissionMemory:
    """The rules in a file for this user only; several programs share it."""

    def __init__(self, state: Path | None = None) -> None:
        folder = state or user_state_path("accord", appauthor=False) / "chat"
        self.path = folder / "permissions.json"
        self.problem: str | None = None  # why the rules could not be read the last time
        self._lock = FileLock(folder / "permissions.lock", mode=0o600)

    def rules(self) -> list[RememberedRule]:
        """Return all rules, the latest last; none if the file cannot be read."""
        self.problem = None
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[RememberedRule])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.problem = f"{self.path} cannot be read: {_why_unreadable(error)}"
            return []

    def decide(self, agent: str, request: PermissionRequest) -> RememberedRule | None:
        """Return the rule that decides a request of an agent: a rejection before an approval."""
        mine = [rule for rule in self.rules() if rule.agent == agent]
        for rule in mine:
            if rule.decision == "reject" and denies(rule.rule, request):
                return rule
        for rule in mine:
            if rule.decision == "allow" and allows(rule.rule, request):
                return rule
        return None

    def remember(self, rule: RememberedRule) -> Path | None:
        """Add a rule. Rules that cannot be read are put aside; return where they are.

        Raises `OSError` if it cannot be stored.
        """
        return self._change(lambda rules: [*(one for one in rules if one != rule), rule])

    def forget(self, rule: RememberedRule) -> None:
        """Remove a rule. Raises `OSError` if that cannot be stored."""
        self._change(lambda rules: [one for one in rules if one != rule])

    def _change(
        self, change: Callable[[list[RememberedRule]], list[RememberedRule]]
    ) -> Path | None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with self._lock.acquire(timeout=LOCK_S):
                rules = self.rules()
                aside = None if self.problem is None else _move_aside(self.path)
                replace_file(self.path, msgspec.json.encode(change(rules)))
                return aside
        except Timeout:
            raise TimeoutError(f"{self.path} is locked by another program") from None


def suggested_rules(agent: str, request: PermissionRequest) -> Iterator[RememberedRule]:
    """Yield the rules that would allow a request from now on, the narrowest first."""
    for rule in _rules(request):
        if allows(rule, request):
            yield RememberedRule(agent, rule)


def _rules(request: PermissionRequest) -> Iterator[str]:
    call, command = request.tool_call, command_of(request)
    kind = "execute" if call is None else str(call.kind)
    if command is not None:
        yield f"execute:{glob.escape(command)}"
        return
    if call is None:
        return
    paths = {place.path for place in call.locations}
    for part in call.content:
        if isinstance(part, Diff):
            paths |= {part.path, *part.others}
    absolute = {os.path.normpath(os.path.join(request.cwd, path)) for path in paths}  # noqa: PTH118
    if len(absolute) == 1:
        yield f"{kind}:{glob.escape(next(iter(absolute)))}"
    if absolute:
        yield f"{kind}:{glob.escape(os.path.normpath(request.cwd))}/*"
    elif kind in _HARMLESS_KINDS:
        yield kind


def _unescaped(pattern: str) -> str:
    """Return a pattern without the brackets that `glob.escape` writes."""
    for special in "*?[":
        pattern = pattern.replace(f"[{special}]", special)
    return pattern


def _move_aside(path: Path) -> Path:
    """Give a file another name in its folder; return the new path. Raises `OSError`."""
    for number in itertools.count(1):
        aside = path.with_name(f"{path.name}.unreadable-{number}")
        if not os.path.lexists(aside):
            path.rename(aside)
            return aside
    raise AssertionError


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file that only the user can read. Raises `OSError`; then the old one stays."""
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def _why_unreadable(error: OSError | msgspec.MsgspecError | UnicodeDecodeError) -> str:
    """Return the reason for the user, without the path."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    return str(error)
