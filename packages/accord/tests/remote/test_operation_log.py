"""The access log: what each line has, and what no line has."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Agent, Turn
from accord.errors import TransportError
from accord.remote.access_log import LogFormatter
from event_loop import Changing
from needs import needs
from remote.test_websocket import TOKEN, serving
from requirement import requirement

SECRET = "a-payload-of-this-test"


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(turn.text)


class Lines(logging.Handler, Changing):
    """The fields of the access log."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        Changing.__init__(self)
        self.formatter = LogFormatter(as_json=True)
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(self.format(record))
        self.changed.set()

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self.text)
        return [line for line in lines if line.get("event") == name]


@pytest.fixture
def lines() -> Generator[Lines]:
    handler = Lines()
    log = logging.getLogger("accord")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


async def _ask(url: str, token: str | None = TOKEN) -> None:
    async with accord.connect(url, token=token) as client:
        session = await client.new_session("/")
        async with session.prompt(SECRET) as turn:
            await turn.wait()
        assert turn.text == SECRET


@requirement("R-SEC-10")
@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_connection_has_a_line_at_its_start_and_end(lines: Lines, scheme: str) -> None:
    async with serving(Echo) as url:
        await _ask(url.replace("ws", scheme, 1))
        await lines.until(lambda: lines.events("close"))
    (opened,), (closed,) = lines.events("open"), lines.events("close")
    assert opened["principal"] == "token"
    assert opened["transport"] == {"ws": "websocket", "http": "http"}[scheme]
    assert closed["connection"] == opened["connection"]
    assert len(closed["connection"]) == 8  # the whole id would be a secret
    assert closed["turns"] == 1
    assert closed["received_messages"] == 3
    assert closed["sent_messages"] >= 4
    assert closed["received_bytes"] > 100
    assert closed["by"] == "client"
    assert closed["code"] == 1000
    assert 0 <= closed["duration_s"] < 60
    if scheme == "http":
        requests = lines.events("request")
        assert {line["status"] for line in requests} == {200, 202}
        assert {line["method"] for line in requests} == {"POST", "GET", "DELETE"}
        with_id = [line for line in requests if "connection" in line]
        assert {line["connection"] for line in with_id} == {opened["connection"]}
    for secret in (SECRET, TOKEN, "Bearer"):
        assert secret not in "".join(lines.text)


@requirement("R-SEC-10", "R-SEC-12")
async def test_refused_request_has_a_line_without_its_query(lines: Lines) -> None:
    async with serving(Echo) as url:
        with pytest.raises(TransportError):
            await _ask(f"{url}/acp?token=a-secret-query", token="a-wrong-token-of-this-test")
        with pytest.raises(TransportError):
            await _ask(f"{url}/%0aopen%20principal=root%1b[31m")
    first, second = lines.events("request")
    assert (first["status"], first["path"]) == (401, "/acp")
    assert second["status"] == 404
    assert first["client"] == second["client"] == "127.0.0.1"
    text = "".join(lines.text)
    assert "secret-query" not in text
    assert "wrong-token" not in text
    assert "\n" not in second["path"]
    assert "\x1b" not in second["path"]


def test_line_of_text_has_one_field_per_name() -> None:
    record = logging.makeLogRecord({"msg": "%s", "args": ('open principal="a b"',)})
    record.created = 0.25
    text = LogFormatter(as_json=False).format(record)
    assert text == '1970-01-01T00:00:00.250Z open principal="a b"'


@needs("accord_terminal")
def test_program_logs_as_json(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(
        "from accord import Agent\n\n\nclass Hello(Agent):\n"
        "    async def prompt(self, turn):\n        await turn.say(turn.text)\n"
    )
    token = "a-token-of-a-test-of-the-log"
    command = [sys.executable, "-m", "accord", "serve", "--port", "0", "--log-format", "json"]
    with subprocess.Popen(
        [*command, "hello:Hello"],
        cwd=tmp_path,
        env={**os.environ, "ACCORD_TOKEN": token},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[2]
            assert accord.ask(url, SECRET, token=token).text == SECRET
            process.terminate()
            rest = process.stderr.read().splitlines()
        finally:
            process.kill()
    lines = [json.loads(line) for line in rest]
    assert [line["event"] for line in lines if "event" in line] == ["open", "close"]
    assert all(line["time"].endswith("Z") and line["level"] == "info" for line in lines)
    assert not any(secret in line for line in rest for secret in (SECRET, token))
