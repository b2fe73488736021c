"""Three servers behind HAProxy, with PostgreSQL: real programs on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from free_ports import free_ports
from postgres import PostgresServer, require_program, running_postgres
from remote.many_servers.page import agent_module, haproxy_config, serve_arguments

__all__ = ("SIGCONT", "SIGSTOP", "SIGTERM", "TOKEN", "Cluster", "ServerProcess", "running_cluster")

SIGCONT, SIGSTOP, SIGTERM = signal.SIGCONT, signal.SIGSTOP, signal.SIGTERM

TOKEN = "a-token-that-is-long-enough-for-a-test"
_START_S = 30.0
_POLL_S = 0.05  # until a program answers


class ServerProcess:
    """A server of the page, which can be killed and started again."""

    def __init__(self, folder: Path, port: int, dsn: str) -> None:
        self.port = port
        self._folder = folder
        self._dsn = dsn
        self._process: asyncio.subprocess.Process | None = None
        self.is_ready = False

    async def start(self) -> None:
        """Start the server, and wait until it is ready."""
        arguments = serve_arguments("127.0.0.1", self.port, self._folder / "token")
        log = (self._folder / f"server-{self.port}.log").open("ab")
        with log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "accord",
                *arguments,
                cwd=self._folder,
                env={**os.environ, "SESSIONS": self._dsn},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        await until_ready(self.port)
        self.is_ready = True

    def send(self, number: int) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the end of the process; return its status."""
        assert self._process is not None
        async with asyncio.timeout(60):
            return await self._process.wait()

    async def kill(self) -> None:
        """Kill the process."""
        self.is_ready = False
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Cluster:
    """The servers, and the address of HAProxy."""

    def __init__(
        self, address: str, certificate: Path, servers: list[ServerProcess], dsn: str, folder: Path
    ) -> None:
        self.address = address
        self.certificate = certificate
        self.servers = servers
        self.dsn = dsn
        self._folder = folder

    def logs(self) -> str:
        """Return what the servers have logged."""
        texts = (path.read_text("utf-8") for path in sorted(self._folder.glob("server-*.log")))
        return "\n".join(texts)


@asynccontextmanager
async def running_cluster(folder: Path) -> AsyncGenerator[Cluster, None]:
    """Start PostgreSQL, three servers and HAProxy; skip the test if one is not installed."""
    haproxy, openssl = require_program("haproxy"), require_program("openssl")
    with running_postgres() as postgres:
        async with _running(folder, haproxy, openssl, postgres) as cluster:
            yield cluster


@asynccontextmanager
async def _running(
    folder: Path, haproxy: str, openssl: str, postgres: PostgresServer
) -> AsyncGenerator[Cluster, None]:
    (folder / "counter.py").write_text(agent_module(), "utf-8")
    (folder / "token").write_text(TOKEN, "utf-8")
    (folder / "token").chmod(0o600)
    certificate, bundle = _make_certificate(folder, openssl)
    *ports, public = free_ports(4)
    config = folder / "haproxy.cfg"
    addresses = [f"127.0.0.1:{port}" for port in ports]
    config.write_text(haproxy_config(f"127.0.0.1:{public}", bundle, addresses), "utf-8")
    _check_config(haproxy, config)

    dsn = await postgres.new_schema()
    servers = [ServerProcess(folder, port, dsn) for port in ports]
    balancer = None
    try:
        await asyncio.gather(*(server.start() for server in servers))
        balancer = await asyncio.create_subprocess_exec(
            haproxy,
            "-db",
            "-f",
            str(config),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await until_ready(public, certificate)
        yield Cluster(f"localhost:{public}", certificate, servers, dsn, folder)
    finally:
        if balancer is not None:
            if balancer.returncode is None:
                balancer.kill()
            await balancer.wait()
        for server in servers:
            await server.kill()


async def until_ready(port: int, certificate: Path | None = None) -> None:
    """Wait until `/ready` has status 200; bounded."""
    context = None if certificate is None else ssl.create_default_context(cafile=str(certificate))
    async with asyncio.timeout(_START_S):
        while True:
            try:
                reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
                try:
                    request = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                    writer.write(request)
                    if (await reader.readline()).startswith(b"HTTP/1.1 200"):
                        return
                finally:
                    writer.close()
            except OSError:
                pass
            await asyncio.sleep(_POLL_S)


def _check_config(haproxy: str, config: Path) -> None:
    """Check that HAProxy accepts its configuration, without a warning."""
    checked = subprocess.run([haproxy, "-c", "-f", str(config)], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr.decode()
    assert b"[WARNING]" not in checked.stderr, checked.stderr.decode()


def _make_certificate(folder: Path, openssl: str) -> tuple[Path, Path]:
    """Return a certificate for localhost, and a file with it and its key."""
    certificate, key, bundle = folder / "cert.pem", folder / "key.pem", folder / "agents.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    bundle.write_bytes(certificate.read_bytes() + key.read_bytes())
    return certificate, bundle
