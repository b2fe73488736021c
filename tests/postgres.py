"""A PostgreSQL server for tests, in a folder of its own, reached by a Unix socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

__all__ = ("PostgresServer", "require_program", "running_postgres")

_USER = "postgres"
_START_S = 30.0


class PostgresServer:
    """A server that can be stopped and started again."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = 0
        self._run("initdb", "-D", self._data, "-U", _USER, "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def dsn(self) -> str:
        """The address of the database."""
        return f"postgresql://{_USER}@/postgres?host={self.folder}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        # A kill of a server of Accord loses nothing that was written, with or without fsync.
        self._process = subprocess.Popen(
            [*_as_postgres(), str(self._programs / "postgres"), "-D", self._data,
             "-k", str(self.folder), "-c", "listen_addresses=", "-c", "fsync=off"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + _START_S
        while self._run("pg_isready", "-q", "-h", str(self.folder), check=False):
            assert self._process.poll() is None, "PostgreSQL has stopped"
            assert time.monotonic() < until, "PostgreSQL does not start"

    def stop(self) -> None:
        """Stop the server at once; its clients lose their connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    async def new_schema(self) -> str:
        """Return the address of a schema without tables."""
        self._schemas += 1
        name = f"test_{self._schemas}"
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(f"CREATE SCHEMA {name}")
        finally:
            await connection.close()
        return f"{self.dsn}&search_path={name}"

    def _run(self, program: str, *args: str, check: bool = True) -> int:
        done = subprocess.run(
            [*_as_postgres(), str(self._programs / program), *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done.returncode


@contextmanager
def running_postgres() -> Generator[PostgresServer, None, None]:
    """Start a server for the block; skip the test if PostgreSQL is not installed."""
    programs = _programs()
    if programs is None:
        missing("PostgreSQL")
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="accord-pg-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, _USER)
        server = PostgresServer(folder, programs)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def missing(what: str) -> None:
    """Skip a test that needs a program; fail where `.ci/run` should have installed it."""
    if os.environ.get("ACCORD_REQUIRE_SERVERS"):
        pytest.fail(f"{what} is not installed")
    pytest.skip(f"{what} is not installed")


def require_program(name: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        missing(name)
    assert found is not None
    return found


def _programs() -> Path | None:
    """Return the folder with the programs of PostgreSQL, of the newest version."""
    packaged = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    if packaged:
        return packaged[-1].parent
    found = shutil.which("initdb")
    return None if found is None else Path(found).parent


def _as_postgres() -> list[str]:
    """Return the start of a command: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
