"""The options of a session in the chat: those of its setup, and later those that the user saw."""

from __future__ import annotations

from collections.abc import Mapping

import click

from accord.client.session import ClientSession
from accord.client.transcript import Transcript
from accord_chat.model.timeline import Severity
from accord_chat.source import SharedSession, Source
from accord_terminal.toolkit.session_setup import (
    apply_session_options,
    option_values,
    restore_session_options,
)


class SessionOptions:
    """What the options of a session have to be when its agent is started again.

    Agents load a session with their default values: one that was read-only could then write.
    """

    def __init__(self, values: Mapping[str, str | bool] | None) -> None:
        """`values` are those of the last start of the program."""
        self._saved = dict(values or {})
        self._mode_id = ""  # of the option for the mode; not saved
        self._is_opened = False
        self.has_lost_mode = False
        """Whether the mode before could not be set: the agent may do more than the user expects."""

    def values(self, transcript: Transcript) -> dict[str, str | bool]:
        """Return the values that the user has seen last."""
        if transcript.mode_option is not None:
            self._mode_id = transcript.mode_option.id
        return self._saved | option_values(transcript.options)

    async def prepare(
        self,
        session: ClientSession,
        source: Source,
        seen: Mapping[str, str | bool],
        *,
        is_new: bool,
    ) -> list[tuple[str, Severity]]:
        """Set the options of a session that has just been opened; return remarks about it.

        `seen` are the values before. Those of a server or a shared session stay, because other
        clients may have changed them.
        """
        setup, given = source.setup, source.setup.given
        remarks: list[tuple[str, Severity]] = []
        if is_new:
            remarks += await _apply(session, setup.model, setup.mode, setup.options)
        if not source.is_remote and not isinstance(source, SharedSession):
            done = await restore_session_options(session, seen, self._mode_id)
            self._saved |= done.not_set
            self.has_lost_mode = bool(done.lost_mode)
            remarks.extend((f"Set again: {text}", "info") for text in done.restored)
            remarks.extend((f"Not as before: {text}", "warning") for text in done.failed)
        if not self._is_opened and (seen or not is_new):
            problems = await _apply(session, given.model, given.mode, given.options)
            remarks += problems
            if given.mode is not None:
                self.has_lost_mode = bool(problems)
        self._is_opened = True
        return remarks


async def _apply(
    session: ClientSession, model: str | None, mode: str | None, options: tuple[str, ...]
) -> list[tuple[str, Severity]]:
    try:
        await apply_session_options(session, model=model, mode=mode, options=options)
    except click.UsageError as error:
        return [(error.format_message(), "warning")]
    return []
