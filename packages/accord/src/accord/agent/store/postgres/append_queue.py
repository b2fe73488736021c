"""Appends entries of many sessions with one statement at a time."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from accord.agent.store.postgres.database import Database
from accord.errors import SessionTaken, StoreUnavailable

_BATCH_BYTES = 4 << 20
_ATTEMPTS = 5  # for a session whose position was not known

# A row of `input` per session; `stored` numbers the entries from the count of the session on.
# PostgreSQL repeats the conditions of the update if it had to wait for another writer. An owner
# also checks the count: a statement that was delayed in the network does nothing when it arrives.
_APPEND = """
WITH input AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS input (id, fence, before, count, append)
), changed AS (
    UPDATE accord_sessions AS s
    SET entries = s.entries + input.count, last_append = input.append
    FROM input
    WHERE s.id = input.id AND s.last_append <> input.append
        AND CASE WHEN input.fence IS NULL THEN s.owner IS NULL
            ELSE s.fence = input.fence AND s.entries = input.before END
    RETURNING s.id, s.entries - input.count AS before
), stored AS (
    INSERT INTO accord_entries (session_id, number, entry)
    SELECT changed.id, changed.before + added.position, added.entry
    FROM unnest($6::text[], $7::bigint[], $8::bytea[]) AS added (id, position, entry)
    JOIN changed ON changed.id = added.id
)
SELECT id FROM changed
"""
_STATE = "SELECT id, last_append, fence, entries FROM accord_sessions WHERE id = ANY($1::text[])"


class Position(Struct, eq=False):
    """Where the owner of a session appends: its fence, and the number of entries."""

    fence: int
    count: int


class _Append(Struct):
    session_id: str
    position: Position | None
    entries: Sequence[bytes]
    done: asyncio.Future[None]


class _Batch(Struct):
    """What one statement appends to one session."""

    position: Position | None
    append: int
    entries: list[bytes]
    done: list[asyncio.Future[None]]


class AppendQueue:
    """Appends entries; while a statement runs, the next ones are collected."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Append] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def append(
        self, session_id: str, position: Position | None, entries: Sequence[bytes]
    ) -> None:
        """Append entries, durably when this returns; `position` is that of the owner.

        Raises KeyError for an unknown session, `SessionTaken` if its fence is another one, and
        `StoreUnavailable`. Without a position, the session must not have an owner.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Append(session_id, position, entries, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="accord store: append")
        await done

    async def aclose(self) -> None:
        """Wait until everything is written, or has failed."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        batches: dict[str, _Batch] = {}
        try:
            while self._waiting:
                batches = self._take()
                await self._write_batches(batches)
        finally:
            self._writing = None
            for batch in batches.values():  # only if the task was cancelled
                for done in batch.done:
                    done.cancel()
            while self._waiting:
                self._waiting.popleft().done.cancel()

    def _take(self) -> dict[str, _Batch]:
        """Return waiting entries by session."""
        batches: dict[str, _Batch] = {}
        size = 0
        while self._waiting and size < _BATCH_BYTES:
            first = self._waiting[0]
            batch = batches.get(first.session_id)
            if batch is None:
                batch = batches[first.session_id] = _Batch(first.position, append_id(), [], [])
            elif batch.position is not first.position:
                break  # the session has another owner of this process
            self._waiting.popleft()
            batch.entries += first.entries
            batch.done.append(first.done)
            size += sum(map(len, first.entries))
        return batches

    async def _write_batches(self, batches: dict[str, _Batch]) -> None:
        async def work(connection: Any) -> dict[str, Exception]:
            return await _append(connection, batches)

        failed: dict[str, Exception] = {}
        error: Exception | None = None
        try:
            failed = await self._database.run(work)
        except Exception as exc:  # noqa: BLE001  # of any kind: the callers raise it
            error = exc
        for session_id, batch in batches.items():
            found = error or failed.get(session_id)
            for done in batch.done:
                if done.done():
                    continue  # the caller was cancelled
                if found is None:
                    done.set_result(None)
                else:
                    done.set_exception(found)
        batches.clear()


async def _append(connection: Any, batches: dict[str, _Batch]) -> dict[str, Exception]:
    """Append batches; return the errors of sessions that rejected them."""
    errors: dict[str, Exception] = {}
    rest = batches
    for _ in range(_ATTEMPTS):
        rest = await _append_once(connection, rest, errors)
        if not rest:
            break
    return errors | {session_id: StoreUnavailable() for session_id in rest}


async def _append_once(
    connection: Any, batches: dict[str, _Batch], errors: dict[str, Exception]
) -> dict[str, _Batch]:
    """Append batches; return those whose position was wrong, and is corrected now."""
    positions = [batch.position for batch in batches.values()]
    parts = [
        (session_id, position, entry)
        for session_id, batch in batches.items()
        for position, entry in enumerate(batch.entries)
    ]
    rows = await connection.fetch(
        _APPEND,
        list(batches),
        [None if position is None else position.fence for position in positions],
        [None if position is None else position.count for position in positions],
        [len(batch.entries) for batch in batches.values()],
        [batch.append for batch in batches.values()],
        [part[0] for part in parts],
        [part[1] for part in parts],
        [part[2] for part in parts],
    )
    done: set[str] = {row[0] for row in rows}
    for session_id in done:
        batch = batches[session_id]
        if batch.position is not None:
            batch.position.count += len(batch.entries)
    rest = [session_id for session_id in batches if session_id not in done]
    if not rest:
        return {}
    state = {row[0]: tuple(row)[1:] for row in await connection.fetch(_STATE, rest)}
    again: dict[str, _Batch] = {}
    for session_id in rest:
        batch = batches[session_id]
        if session_id not in state:
            errors[session_id] = KeyError(session_id)
            continue
        last_append, fence, entries = state[session_id]
        is_stored = last_append == batch.append  # by an attempt whose connection was lost
        if batch.position is not None and batch.position.fence == fence:
            # An append that failed because its connection was lost has been stored after all.
            batch.position.count = entries
            if not is_stored:
                again[session_id] = batch
        elif not is_stored:
            errors[session_id] = SessionTaken(data={"sessionId": session_id})
    return again


def append_id() -> int:
    """Return a random id for a batch of entries."""
    return secrets.randbits(63)
