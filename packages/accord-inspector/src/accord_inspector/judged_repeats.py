"""Finds messages that differ from the one before in a text only, so that they break no rule."""

from __future__ import annotations

import re

from msgspec import UNSET

from accord_trace.records import Record

_CHUNK = b'_chunk"'
_TEXT = re.compile(rb'"text": ?"')
# A text without characters that rules are about: control characters, escapes, surrogates.
_PLAIN = re.compile(rb"(?:[ !#-\[\]-~]|[\xc3-\xdf][\x80-\xbf]|[\xe3-\xec][\x80-\xbf]{2})+\"").match
_ALIKE = 2  # messages that are judged before the next ones of their form are skipped

_Form = tuple[str, bytes, bytes]


class Repeats:
    """The form of the newest messages of a connection: all of a message except its text.

    In a stream of chunks, rules look at the form of a message, and at what came before. Two chunks
    of one form leave the judges in the same state, and so does the next one.
    """

    def __init__(self) -> None:
        self._form: _Form | None = None
        self._alike = 0  # messages of this form, one after the other, that break no rule

    def is_repeated(self, record: Record) -> bool:
        """Return whether a message, the next one of its connection, needs no judgement."""
        form = _form_of(record)
        if form is None or form != self._form:
            self._form, self._alike = form, 0
            return False
        return self._alike >= _ALIKE

    def judged(self, *, is_broken: bool) -> None:
        """Note what was found about the message that `is_repeated` was asked about."""
        self._alike = 0 if is_broken else self._alike + 1


def _form_of(record: Record) -> _Form | None:
    """Return all of a chunk except its text; None for other messages."""
    if record.type != "notification" or record.params is UNSET:
        return None
    frame = bytes(record.params) if record.raw is UNSET else record.frame
    found = _TEXT.search(frame)
    if found is None or _CHUNK not in frame:
        return None
    text = _PLAIN(frame, found.end())
    if text is None:
        return None
    return record.dir, frame[: found.end()], frame[text.end() :]
