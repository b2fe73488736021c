"""Ids and directories of a recording, and those of the live side: replaced both ways."""

from __future__ import annotations

import re
from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_trace.comparing import id_kind

_DIRECTORIES = ("cwd", "additionalDirectories")
_ABSOLUTE = re.compile(r"(?:/|\\\\|[A-Za-z]:[\\/])[^\0]")


class ValueMap:
    """The live values for ids and directories of the recording.

    Ids are replaced where they are the value of a field for them, directories in every text: with
    everything below them. Each session has its own directories, because two sessions may have the
    same in one place and different ones in the other.
    """

    def __init__(self) -> None:
        self._live: dict[tuple[str, str], str] = {}
        self._recorded: dict[tuple[str, str], str] = {}
        self._live_paths: dict[str | None, dict[str, str]] = {}
        self._recorded_paths: dict[str | None, dict[str, str]] = {}
        self._patterns: dict[tuple[bool, str | None], re.Pattern[str] | None] = {}

    def bind_id(self, kind: str, recorded: str, live: str) -> bool:
        """Pair two ids; return False if either is paired with another one already."""
        known = self._live.get((kind, recorded)), self._recorded.get((kind, live))
        if known == (None, None):
            if recorded == live:
                return True
            self._live[kind, recorded] = live
            self._recorded[kind, live] = recorded
            return True
        return known == (live, recorded)

    def bind_directories(self, session: str | None, recorded: Any, live: Any) -> None:
        """Pair the directories in the params of a recorded and a live request."""
        if not is_object(recorded) or not is_object(live):
            return
        for key in _DIRECTORIES:
            pairs = zip(_texts(recorded.get(key)), _texts(live.get(key)), strict=False)
            for old, new in pairs:
                self._bind_path(session, old, new)

    def may_change(self, frame: bytes, session: str | None) -> bool:
        """Return whether a recorded frame may contain what differs on the live side."""
        texts = [*self._paths(True, session), *(recorded for _, recorded in self._live)]
        # A frame with escapes may spell them in another way.
        return bool(texts) and (b"\\" in frame or any(one.encode() in frame for one in texts))

    def live_id(self, kind: str, recorded: str) -> str | None:
        """Return the live id for a recorded one; None if there is none yet."""
        return self._live.get((kind, recorded))

    def recorded_id(self, kind: str, live: str) -> str | None:
        """Return the recorded id for a live one; None if there is none yet."""
        return self._recorded.get((kind, live))

    def bind_ids_of(self, recorded: Any, live: Any) -> None:
        """Bind the ids that two messages have in the same places."""
        if is_object(recorded) and is_object(live):
            for key, old in recorded.items():
                new = live.get(key)
                kind = id_kind(key)
                if kind is None:
                    self.bind_ids_of(old, new)
                elif isinstance(old, str) and isinstance(new, str):
                    self.bind_id(kind, old, new)
        elif is_array(recorded) and is_array(live):
            for old, new in zip(recorded, live, strict=False):
                self.bind_ids_of(old, new)

    def to_live(self, value: Any, session: str | None) -> Any:
        """Return a recorded value with live ids and directories; `session` is the recorded one."""
        return self._mapped(value, self._live, self._pattern(True, session))

    def to_recorded(self, value: Any, session: str | None) -> Any:
        """Return a live value with recorded ids and directories; `session` is the recorded one."""
        return self._mapped(value, self._recorded, self._pattern(False, session))

    def _bind_path(self, session: str | None, recorded: str, live: str) -> None:
        old, new = _trimmed(recorded), _trimmed(live)
        if _ABSOLUTE.match(old) is None or _ABSOLUTE.match(new) is None or old == new:
            return
        for place in (session, None):  # of a message without a session, the first one's
            self._live_paths.setdefault(place, {}).setdefault(old, new)
            self._recorded_paths.setdefault(place, {}).setdefault(new, old)
        self._patterns.clear()

    def _paths(self, to_live: bool, session: str | None) -> dict[str, str]:
        by_session = self._live_paths if to_live else self._recorded_paths
        return by_session.get(session) or by_session.get(None) or {}

    def _pattern(self, to_live: bool, session: str | None) -> _Paths | None:
        key = (to_live, session)
        paths = self._paths(to_live, session)
        if not paths:
            return None
        if key not in self._patterns:
            words = "|".join(map(re.escape, sorted(paths, key=len, reverse=True)))
            # Whole components only: /project is not in /my/project-2 nor in /project.bak.
            self._patterns[key] = re.compile(rf"(?<![\w.~-])(?:{words})(?![\w~-]|\.\w)")
        pattern = self._patterns[key]
        return None if pattern is None else _Paths(pattern, paths)

    def _mapped(self, value: Any, ids: dict[tuple[str, str], str], paths: _Paths | None) -> Any:
        if not ids and paths is None:
            return value
        return _mapped(value, ids, paths, "", 0)


class _Paths:
    """Replaces directories in a text."""

    def __init__(self, pattern: re.Pattern[str], paths: dict[str, str]) -> None:
        self._pattern = pattern
        self._paths = paths

    def replaced(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._paths[match[0]], text)


def _mapped(
    value: Any, ids: dict[tuple[str, str], str], paths: _Paths | None, key: str, depth: int
) -> Any:
    if isinstance(value, str):
        kind = id_kind(key)
        if kind is not None and (kind, value) in ids:
            return ids[kind, value]
        return value if paths is None else paths.replaced(value)
    if depth > 100:
        return value
    if is_object(value):
        return {name: _mapped(item, ids, paths, name, depth + 1) for name, item in value.items()}
    if is_array(value):
        return [_mapped(item, ids, paths, key, depth + 1) for item in value]
    return value


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if is_array(value) else []


def _trimmed(path: str) -> str:
    return path.rstrip("/\\") or path
