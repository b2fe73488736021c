"""Appends entries of many sessions with one statement at a time."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from accord.agent.store.postgres.database import Database
from accord.errors import SessionTaken

__all__ = ("AppendQueue", "append_id")

_BATCH_BYTES = 4 << 20

# A row of `input` per session; `stored` numbers the entries from the count of the session on.
# PostgreSQL repeats the conditions of the update if it had to wait for another writer.
_APPEND = """
WITH input AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS input (id, fence, count, append)
), changed AS (
    UPDATE accord_sessions AS s
    SET entries = s.entries + input.count, last_append = input.append
    FROM input
    WHERE s.id = input.id AND s.last_append <> input.append
        AND CASE WHEN input.fence IS NULL THEN s.owner IS NULL ELSE s.fence = input.fence END
    RETURNING s.id, s.entries - input.count AS before
), stored AS (
    INSERT INTO accord_entries (session_id, number, entry)
    SELECT changed.id, changed.before + added.position, added.entry
    FROM unnest($5::text[], $6::bigint[], $7::bytea[]) AS added (id, position, entry)
    JOIN changed ON changed.id = added.id
)
SELECT id FROM changed
"""
_STATE = "SELECT id, last_append FROM accord_sessions WHERE id = ANY($1::text[])"


class _Append(Struct):
    session_id: str
    fence: int | None
    entries: Sequence[bytes]
    done: asyncio.Future[None]


class _Batch(Struct):
    """What one statement appends to one session."""

    fence: int | None
    append: int
    entries: list[bytes]
    done: list[asyncio.Future[None]]


class AppendQueue:
    """Appends entries; while a statement runs, the next ones are collected."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Append] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def append(self, session_id: str, fence: int | None, entries: Sequence[bytes]) -> None:
        """Append entries, durably when this returns.

        Raises KeyError for an unknown session, `SessionTaken` if its fence is another one, and
        `StoreUnavailable`. Without a fence, the session must not have an owner.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Append(session_id, fence, entries, done))
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
                batch = batches[first.session_id] = _Batch(first.fence, append_id(), [], [])
            elif batch.fence != first.fence:
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
    parts = [
        (session_id, position, entry)
        for session_id, batch in batches.items()
        for position, entry in enumerate(batch.entries)
    ]
    rows = await connection.fetch(
        _APPEND,
        list(batches),
        [batch.fence for batch in batches.values()],
        [len(batch.entries) for batch in batches.values()],
        [batch.append for batch in batches.values()],
        [part[0] for part in parts],
        [part[1] for part in parts],
        [part[2] for part in parts],
    )
    rest = batches.keys() - {row[0] for row in rows}
    if not rest:
        return {}
    # Unknown, owned by another, or stored by an attempt whose connection was lost.
    state: dict[str, int] = {row[0]: row[1] for row in await connection.fetch(_STATE, list(rest))}
    errors: dict[str, Exception] = {}
    for session_id in rest:
        if session_id not in state:
            errors[session_id] = KeyError(session_id)
        elif state[session_id] != batches[session_id].append:
            errors[session_id] = SessionTaken(data={"sessionId": session_id})
    return errors


def append_id() -> int:
    """Return a random id for a batch of entries."""
    return secrets.randbits(63)
