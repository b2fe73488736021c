"""`--model local`: model servers on this machine, over HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")

import msgspec

import accord
from accord_coder.models import selection
from accord_coder.models.base import ModelError
from accord_coder.models.selection import (
    SERVERS,
    LocalServer,
    find_local_models,
    pick_local_model,
)
from accord_coder.settings import Settings
from coder.harness import coder_session
from coder.models.provider import Says, serve_provider


@asynccontextmanager
async def serving(body: bytes, status: str = "200 OK") -> AsyncGenerator[str, None]:
    """Answer every request with a body; yield the base URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n" % (status.encode(), len(body)))
        writer.write(b"Location: http://127.0.0.1:9/\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def models(*names: str) -> bytes:
    return msgspec.json.encode({"object": "list", "data": [{"id": name} for name in names]})


@pytest.fixture
def silent() -> LocalServer:
    """Return a server at a port where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return LocalServer("Silent", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")


def test_servers_are_queried_at_their_default_ports_on_this_machine() -> None:
    assert [(server.name, server.base_url) for server in SERVERS] == [
        ("Ollama", "http://127.0.0.1:11434/v1"),
        ("llama.cpp", "http://127.0.0.1:8080/v1"),
        ("LM Studio", "http://127.0.0.1:1234/v1"),
        ("vLLM", "http://127.0.0.1:8000/v1"),
    ]


async def test_first_model_by_name_of_the_first_server_is_picked(silent: LocalServer) -> None:
    async with (
        serving(models()) as empty,
        serving(models("qwen3", "llama4", "all-embed")) as one,
        serving(models("aaa")) as other,
    ):
        servers = [silent, LocalServer("A", empty), LocalServer("B", one), LocalServer("C", other)]
        found = await find_local_models(servers)
        assert [(model.server.name, model.name) for model in found] == [
            ("B", "all-embed"),
            ("B", "llama4"),
            ("B", "qwen3"),
            ("C", "aaa"),
        ]
        assert (await pick_local_model("local", servers)).name == "llama4"
        assert (await pick_local_model("local:qwen3", servers)).server.name == "B"
        assert (await pick_local_model("local:aaa", servers)).server.name == "C"
        with pytest.raises(ModelError, match=r"'gpt'.*local:llama4, local:qwen3, local:aaa"):
            await pick_local_model("local:gpt", servers)


async def test_missing_server_is_explained(silent: LocalServer) -> None:
    with pytest.raises(ModelError) as caught:
        await pick_local_model("local", [silent])
    for part in ("No local model server responded", silent.base_url, "ollama serve", "--base-url"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>", "200 OK"),
        (b'{"data": 1}', "200 OK"),
        (models("x"), "404 Not Found"),
        (models("x"), "302 Found"),
        (b'{"data": [{"id": "x"}], "y": "' + b"y" * 5_000_000 + b'"}', "200 OK"),
    ],
    ids=["html", "shape", "404", "redirect", "large"],
)
async def test_other_programs_on_the_port_are_skipped(body: bytes, status: str) -> None:
    async with serving(body, status) as url:
        assert await find_local_models([LocalServer("Other", url)]) == []


async def test_server_that_does_not_respond_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_TIMEOUT_S", 0.1)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        assert await find_local_models([LocalServer("Silent", url)]) == []


async def test_turn_runs_with_a_model_of_a_local_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    answers = (Says(uses=[("read", {"path": "a.txt"})]), Says("Done."))
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(serve_provider(*answers))
        provider.models = ("zeta", "alpha")
        monkeypatch.setattr(
            "accord_coder.models.selection.SERVERS", (LocalServer("Mine", provider.url),)
        )
        harness = await stack.enter_async_context(
            coder_session(cwd=tmp_path, settings=Settings(model="local"))
        )
        (option,) = (
            option for option in harness.session.transcript.options if option.id == "model"
        )
        assert isinstance(option, accord.SelectOption)
        assert option.value == "local"
        offered = [choice.value for choice in option.choices]
        assert offered[0] == "local"
        assert {"local:alpha", "local:zeta", "demo"} <= set(offered)
        assert (await harness.prompt("Read it")).endswith("Done.")
        assert harness.call.title == "Read a.txt"
        assert provider.requests[0].body["model"] == "alpha"


async def test_prompt_without_a_local_server_says_how_to_start_one(
    silent: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord_coder.models.selection.SERVERS", (silent,))
    async with coder_session(cwd=tmp_path, settings=Settings(model="local")) as harness:
        with pytest.raises(accord.RequestError, match="No local model server responded"):
            await harness.prompt("Hello")


async def test_command_line_uses_the_server_at_base_url(tmp_path: Path) -> None:
    async with serve_provider(Says("Good morning.")) as provider:
        provider.models = ("tiny",)
        agent = [sys.executable, "-m", "accord", "agent", "--model", "local"]
        async with (
            asyncio.timeout(50),
            accord.connect([*agent, "--base-url", provider.url]) as connected,
        ):
            session = await connected.new_session(cwd=tmp_path)
            async with session.prompt("Hello") as turn:
                async for _ in turn:
                    pass
    assert turn.text == "Good morning."
    assert provider.requests[0].body["model"] == "tiny"
