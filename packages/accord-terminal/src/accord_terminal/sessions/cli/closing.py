"""Closes a session whose owner runs, and waits for the end of the owner."""

from __future__ import annotations

import asyncio

from accord.errors import AccordError
from accord.transports.stdio import PipeTransport
from accord_terminal.sessions.errors import OwnerStarts, SessionsError
from accord_terminal.sessions.named import joined_session
from accord_terminal.sessions.owners import end_start, has_owner, running_owner
from accord_terminal.sessions.records import Record, Store

_END_S = 10.0
_PAUSE_S = 0.02


async def close_owner(record: Record) -> None:
    """Close a session, also while its agent starts.

    Raises `SessionsError` if its owner does not end.
    """
    try:
        opened = await running_owner(record)
        if opened is not None:
            fd = opened.detach()
            async with joined_session(Store().read(record.id), PipeTransport(fd, fd)) as shared:
                await shared.close()
    except OwnerStarts:
        await end_start(record.id)
    except AccordError as exc:
        if has_owner(record.id) and not isinstance(exc, SessionsError):
            raise SessionsError(str(exc)) from None
    loop = asyncio.get_running_loop()
    until = loop.time() + _END_S
    while has_owner(record.id):
        if loop.time() > until:
            raise SessionsError("The owner of the session has not ended: see `accord session show`")
        await asyncio.sleep(_PAUSE_S)
