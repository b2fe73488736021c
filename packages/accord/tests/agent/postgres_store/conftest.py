"""A PostgreSQL server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from postgres import PostgresServer, running_postgres


@pytest.fixture(scope="package")
def server() -> Generator[PostgresServer, None, None]:
    with running_postgres() as server:
        yield server


@pytest.fixture
async def dsn(server: PostgresServer) -> str:
    """The address of an empty schema."""
    return await server.new_schema()
