"""Encrypted connections, with certificates of an own CA."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

import accord
from accord.errors import TransportError
from accord.remote.server import SocketLimits
from remote.attackers import TOKEN, Recording
from remote.servers import served
from requirement import requirement


class Files:
    """A CA, and certificates of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.ca = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.ca)

    def certificate(self, *names: str, **options: Any) -> dict[str, Path]:
        """Write a certificate and its key; return them as options of a server."""
        made = self._ca.issue_cert(*names, **options)
        cert, key = self._folder / f"{names[0]}.pem", self._folder / f"{names[0]}.key"
        made.private_key_pem.write_to_path(key)
        cert.unlink(missing_ok=True)
        for part in made.cert_chain_pems:
            part.write_to_path(cert, append=True)
        return {"tls_cert": cert, "tls_key": key}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@asynccontextmanager
async def tls(**options: Any) -> AsyncGenerator[str, None]:
    async with served(accord.asgi(Recording, token=TOKEN), **options) as address:
        yield address.replace("127.0.0.1", "localhost")


async def turn(url: str, ca_file: Path | None) -> str:
    async with accord.connect(url, token=TOKEN, ca_file=ca_file) as agent:
        session = await agent.new_session("/")
        async with session.prompt("hello") as turn:
            await turn.wait()
        return turn.text


@requirement("R-SEC-11")
@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_turn_over_tls(files: Files, scheme: str) -> None:
    async with tls(**files.certificate("localhost")) as address:
        assert await turn(f"{scheme}://{address}", files.ca) == "hello!"


@requirement("R-SEC-11")
async def test_http2_is_negotiated(files: Files) -> None:
    trusted = ssl.create_default_context(cafile=files.ca)
    async with (
        tls(**files.certificate("localhost")) as address,
        httpx2.AsyncClient(http2=True, verify=trusted, trust_env=False) as client,
    ):
        response = await client.get(f"https://{address}/health")
        assert (response.http_version, response.status_code) == ("HTTP/2", 200)


@requirement("R-SEC-11")
@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_certificate_that_is_not_accepted_is_explained(
    files: Files, tmp_path: Path, scheme: str
) -> None:
    (tmp_path / "other").mkdir()
    other = Files(tmp_path / "other")
    expired = datetime(2020, 1, 1, tzinfo=UTC)
    cases: list[tuple[dict[str, Path], Path | None, str]] = [
        (files.certificate("localhost"), other.ca, r"certificate is not accepted: .*; pass the"),
        (files.certificate("localhost"), None, r"certificate is not accepted: .*ca_file=…"),
        (files.certificate("localhost", not_after=expired), files.ca, "it has expired"),
        (files.certificate("build-7.example"), files.ca, "for another host name"),
    ]
    for certificate, ca_file, why in cases:
        async with tls(**certificate) as address:
            with pytest.raises(TransportError, match=why) as failed:
                await turn(f"{scheme}://{address}", ca_file)
            assert f"Cannot connect to {scheme}://{address}/acp: " in str(failed.value)
            assert "_ssl.c" not in str(failed.value)


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_server_without_tls_is_explained(files: Files, scheme: str) -> None:
    async with tls() as address:
        with pytest.raises(TransportError, match="it does not use TLS: check the port"):
            await turn(f"{scheme}://{address}", files.ca)


@requirement("R-SEC-08")
async def test_tls_handshake_that_stops_ends_the_connection(
    files: Files,
) -> None:
    certificate = files.certificate("localhost")
    async with tls(**certificate, socket_limits=SocketLimits(head_s=0.2)) as address:
        reader, writer = await asyncio.open_connection("localhost", int(address.split(":")[1]))
        writer.write(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert await turn(f"wss://{address}", files.ca) == "hello!"
