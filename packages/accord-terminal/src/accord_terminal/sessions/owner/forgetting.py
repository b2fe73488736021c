"""Bounds transcripts that are not read: the journal on the disk has the conversation."""

from __future__ import annotations

from collections.abc import Iterable

from accord.client.transcript import Transcript, forget_items

_KEPT = 64  # items: an update can change one of the last
_KEPT_CHARACTERS = 4_000_000  # of messages: with more, none is kept
_EVERY = 256  # updates


class Forgetting:
    """Counts the updates of a session, and forgets all but the end of its transcript."""

    def __init__(self) -> None:
        self._updates = 0

    def updated(self, transcripts: Iterable[Transcript]) -> None:
        """Take notice of an update; the transcripts are looked at now and then."""
        self._updates += 1
        if self._updates % _EVERY == 0:
            for transcript in transcripts:
                forget_items(transcript, _KEPT)
                if sum(len(message.text) for message in transcript.messages) > _KEPT_CHARACTERS:
                    forget_items(transcript, 0)
