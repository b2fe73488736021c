"""The rules of a project that apply to this user.

A project of others can contain a file with rules. Its rules that reject always apply. Its rules
that allow apply only if this user accepted them: by "always", by `/permissions allow`, or by
`/permissions trust`. Accepted rules are stored one by one in the user's data directory, so that
others cannot allow anything by changing the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from accord_coder.directories import private_dir
from accord_coder.permissions.rules import Rule
from accord_coder.permissions.rules_file import InvalidRules, read_rules

# What changes rules is imported when the user changes one: tomlkit and filelock are slow to import.

log = logging.getLogger("accord_coder")


class EffectiveRules(Struct, frozen=True, kw_only=True):
    """The rules that apply, the allowing ones that are not trusted, and the error of the file."""

    rules: tuple[Rule, ...] = ()
    untrusted: tuple[Rule, ...] = ()
    error: str | None = None


class TrustStore:
    """The rules that this user accepted, by project; in a directory or, without one, in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, set[Rule]] = {}
        self._lock = threading.Lock()

    def rules_of(self, project: str) -> set[Rule]:
        """Return the rules that the user accepted for a project."""
        with self._lock:
            return self._rules_of(project)

    def change(self, project: str, *, add: Iterable[Rule] = (), drop: Iterable[Rule] = ()) -> None:
        """Add or remove accepted rules. If they cannot be stored, they stay in memory."""
        from accord_coder.directory_lock import lock_directory

        with self._lock:
            added, dropped = set(add), set(drop)
            if self._folder is not None:
                try:
                    with lock_directory(private_dir(self._folder)):
                        rules = (self._rules_of(project) | added) - dropped
                        self._store(self._folder / self._name(project), project, rules)
                except OSError as exc:
                    log.warning("! rules cannot be stored: %s", exc)
                else:
                    self._memory.pop(project, None)
                    return
            self._memory[project] = (self._rules_of(project) | added) - dropped

    @staticmethod
    def _store(path: Path, project: str, rules: set[Rule]) -> None:
        new = path.with_suffix(f".{os.getpid()}.new")
        ordered = sorted(rules, key=str)
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode({"project": project, "rules": ordered}))
        new.replace(path)

    def _rules_of(self, project: str) -> set[Rule]:
        found = set(self._memory.get(project, ()))
        if self._folder is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                data = (self._folder / self._name(project)).read_bytes()
                found |= set(msgspec.json.decode(data, type=_TrustedRules).rules)
        return found

    def _name(self, project: str) -> str:
        return f"{hashlib.sha256(os.fsencode(project)).hexdigest()[:32]}.json"


class _TrustedRules(Struct):
    project: str
    rules: list[Rule]


class ProjectRules:
    """Reads and changes the rules of one project. The methods block."""

    def __init__(self, project: str, trust: TrustStore) -> None:
        self.project = os.path.realpath(project)
        self._trust = trust
        self._unwritten: list[Rule] = []  # they could not be written to the file

    def read(self) -> EffectiveRules:
        """Return the current rules."""
        try:
            _, rules = read_rules(Path(self.project))
        except InvalidRules as exc:
            return EffectiveRules(rules=tuple(self._unwritten), error=str(exc))
        trusted = self._trust.rules_of(self.project)
        holds = [rule for rule in rules if rule.effect == "reject" or rule in trusted]
        return EffectiveRules(
            rules=(*holds, *self._unwritten),
            untrusted=tuple(rule for rule in rules if rule not in holds),
        )

    def add(self, rule: Rule) -> str | None:
        """Add a rule of the user. If it cannot be stored, return the reason; it stays in memory."""
        from accord_coder.permissions import rules_editor

        try:
            with rules_editor.lock_rules(Path(self.project)):
                text, rules = read_rules(Path(self.project))
                new = rules_editor.with_rule(text, rules, rule)
                rules_editor.write_rules_file(Path(self.project), new)
        except (InvalidRules, OSError) as exc:
            self._unwritten.append(rule)
            return str(exc)
        if rule.effect == "allow":
            self._trust.change(self.project, add=[rule])
        return None

    def remove(self, rule: Rule) -> None:
        """Remove a rule; raise `InvalidRules` or OSError if the file cannot be changed."""
        if rule in self._unwritten:
            self._unwritten.remove(rule)
            return
        from accord_coder.permissions import rules_editor

        with rules_editor.lock_rules(Path(self.project)):
            text, rules = read_rules(Path(self.project))
            new = rules_editor.without_rule(text, rules, rule)
            rules_editor.write_rules_file(Path(self.project), new)
        self._trust.change(self.project, drop=[rule])

    def trust_all(self) -> int:
        """Accept all allowing rules of the file; return their number."""
        untrusted = self.read().untrusted
        self._trust.change(self.project, add=untrusted)
        return len(untrusted)
