"""The tables of stored sessions in PostgreSQL."""

from __future__ import annotations

from typing import Any

_VERSION = 1
_LOCK = "accord: create the tables"

# `fence` grows with each owner of a session. `last_append` is the random id of the last batch of
# entries: after a lost connection, it shows whether the batch was stored. Text is compared by
# bytes, as in other stores.
_TABLES = """
CREATE TABLE accord_version (version integer NOT NULL);
CREATE TABLE accord_servers (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE TABLE accord_sessions (
    id text COLLATE "C" PRIMARY KEY,
    cwd text COLLATE "C" NOT NULL,
    additional text NOT NULL,
    title text,
    title_is_users boolean NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    archived boolean NOT NULL,
    principal text COLLATE "C",
    entries bigint NOT NULL DEFAULT 0,
    last_append bigint NOT NULL,
    owner integer,
    fence bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX accord_sessions_by_time ON accord_sessions (updated_at DESC, id DESC);
CREATE TABLE accord_entries (
    session_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    entry bytea NOT NULL,
    PRIMARY KEY (session_id, number)
);
"""


async def create_tables(connection: Any) -> None:
    """Create the tables if they do not exist; raise `ValueError` for those of a newer Accord."""
    if await _version(connection) is not None:
        return
    async with connection.transaction():
        # Only one server creates them; the others wait.
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", _LOCK)
        if await _version(connection) is None:
            await connection.execute(_TABLES)
            await connection.execute("INSERT INTO accord_version VALUES ($1)", _VERSION)


async def _version(connection: Any) -> int | None:
    # `to_regclass` would be shorter, and may not see a table that another server has just created.
    if not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_class"
        " WHERE relname = 'accord_version' AND pg_table_is_visible(oid))"
    ):
        return None
    version = await connection.fetchval("SELECT version FROM accord_version")
    if version > _VERSION:
        raise ValueError(
            f"The tables have version {version}, created by a newer Accord: expected {_VERSION}"
        )
    return version
