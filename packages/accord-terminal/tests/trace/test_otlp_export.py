"""`accord trace export --format otlp`: lines of JSON, and a collector."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from accord.program import COMMANDS, load_command
from accord_terminal.click_group import main
from sample_recordings import Writer, one_turn

SECRET = "my private text"


def talk(version: int = 1) -> Writer:
    """Return one turn with a tool call that asks for permission, and one that fails."""
    talk = Writer()
    info = {"name": "painter", "version": "2"}
    key = "agentInfo" if version == 1 else "info"
    talk.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": version})
    talk.to_client(0.1, id=0, result={"protocolVersion": version, key: info})
    talk.to_agent(0.2, id=1, method="session/new", params={"cwd": "/x"})
    talk.to_client(0.5, id=1, result={"sessionId": "s"})
    prompt = {
        "sessionId": "s",
        "prompt": [{"type": "text", "text": SECRET}],
        "_meta": {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"},
    }
    talk.to_agent(1.0, id=2, method="session/prompt", params=prompt)
    chunk = {"content": {"type": "text", "text": f"I say {SECRET}"}}
    talk.update(1.5, sessionUpdate="agent_message_chunk", **chunk)
    begun = {"title": SECRET, "kind": "edit", "status": "pending", "rawInput": {"path": SECRET}}
    talk.update(2.0, sessionUpdate="tool_call", toolCallId="t", name="write_file", **begun)
    asked = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []}
    talk.to_client(2.1, id=7, method="session/request_permission", params=asked)
    outcome = {"outcome": "selected", "optionId": "allow"}
    talk.to_agent(4.1, id=7, result={"outcome": outcome})
    talk.to_client(4.2, id=8, method="fs/read_text_file", params={"sessionId": "s", "path": SECRET})
    talk.to_agent(4.3, id=8, error={"code": -32002, "message": SECRET})
    talk.update(4.5, sessionUpdate="tool_call_update", toolCallId="t", status="failed")
    talk.update(4.6, sessionUpdate="tool_call", toolCallId="u", title="x", kind="read")
    talk.update(4.7, sessionUpdate="plan", entries=[])
    usage = {"inputTokens": 10, "outputTokens": 20, "cachedReadTokens": 5, "totalTokens": 30}
    if version == 1:
        talk.to_client(5.0, id=2, result={"stopReason": "end_turn", "usage": usage})
    else:
        talk.to_client(1.1, id=2, result={"messageId": "m"})
        idle = {"state": "idle", "stopReason": "end_turn", "usage": usage}
        talk.update(5.0, sessionUpdate="state_update", **idle)
    talk.to_agent(6.0, id=3, method="session/prompt", params={"sessionId": "s", "prompt": []})
    talk.to_client(6.5, id=3, error={"code": -32603, "message": SECRET})
    talk.to_agent(7.0, id=4, method="session/prompt", params={"sessionId": "s", "prompt": []})
    talk.to_agent(7.5, method="session/cancel", params={"sessionId": "s"})
    return talk


def export(*words: str) -> int:
    return main(["trace", "export", "--format", "otlp", *words], COMMANDS, load_command)


def test_json_is_that_of_the_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = talk().save(tmp_path / "r.acp.jsonl")
    assert export(str(path)) == 0
    sent = [span for line in capsys.readouterr().out.splitlines() for span in of_json(line)]
    turn = next(span for span in sent if span["startTimeUnixNano"] == "1777629601000000000")
    assert turn["endTimeUnixNano"] == "1777629605000000000"  # 2026-05-01T10:00:05Z
    assert turn["kind"] == 3
    assert turn["links"] == [{"traceId": "ab" * 16, "spanId": "cd" * 8}]
    failed = [span for span in sent if span.get("status", {}).get("code") == 2]
    assert len(failed) == 3


def of_json(line: str) -> list[dict[str, Any]]:
    [resource] = json.loads(line)["resourceSpans"]
    names = [one["value"]["stringValue"] for one in resource["resource"]["attributes"]]
    assert names[0] == "accord"
    return resource["scopeSpans"][0]["spans"]


class Collector(ThreadingHTTPServer):
    """Receives OTLP over HTTP, as protobuf."""

    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.status = status
        self.received: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Receiver(BaseHTTPRequestHandler):
    server: Collector  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.paths.append(self.path)
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # of the base class
        pass


@pytest.fixture(params=[200])
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    with Collector(request.param) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_collector_receives_the_same_spans(
    tmp_path: Path, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    path = talk().save(tmp_path / "r.acp.jsonl")
    assert export("--endpoint", collector.url, str(path)) == 0
    assert capsys.readouterr().out == f"9 spans sent to {collector.url}\n"
    assert collector.paths == ["/v1/traces"]
    [message] = collector.received
    assert SECRET.encode() not in message.SerializeToString()
    received = message.resource_spans[0].scope_spans[0].spans
    assert export(str(path)) == 0
    written = [span for line in capsys.readouterr().out.splitlines() for span in of_json(line)]
    for one, other in zip(received, written, strict=True):
        assert one.trace_id.hex() == other["traceId"]
        assert one.span_id.hex() == other["spanId"]
        assert one.parent_span_id.hex() == other.get("parentSpanId", "")
        assert one.name == other["name"]
        assert one.kind == other["kind"]
        assert str(one.start_time_unix_nano) == other["startTimeUnixNano"]
        assert str(one.end_time_unix_nano) == other["endTimeUnixNano"]
        assert [item.key for item in one.attributes] == [
            item["key"] for item in other["attributes"]
        ]
        assert [event.name for event in one.events] == [
            event["name"] for event in other.get("events", [])
        ]
        assert one.status.code == other.get("status", {}).get("code", 0)
        assert [link.span_id.hex() for link in one.links] == [
            link["spanId"] for link in other.get("links", [])
        ]


@pytest.mark.parametrize("collector", [400], indirect=True)
def test_collector_that_refuses_is_an_error(
    tmp_path: Path, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    assert export("--endpoint", f"{collector.url}/custom", str(path)) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "did not accept the spans" in line
    assert line.endswith("code: 400, reason: Bad Request")
    assert collector.paths == ["/custom"]


def test_scheme_of_the_collector_can_be_in_capitals(tmp_path: Path, collector: Collector) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    assert export("--endpoint", f"HTTP{collector.url.removeprefix('http')}", str(path)) == 0
    assert collector.paths == ["/v1/traces"]


def test_collector_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    with socket.socket() as bound:  # nobody listens
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        words = ["trace", "export", "--format", "otlp", "--endpoint", url, str(path)]
        done = subprocess.run(
            [sys.executable, "-m", "accord", *words],
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "2"},
        )
    why = "did not accept the spans: it cannot be reached"
    assert done.stderr == f"Error: The collector at {url}/v1/traces {why}\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--format", "md", "--content"],
        ["--endpoint", "http://x", "-o", "y"],
        ["--endpoint", "localhost:4318"],
    ],
    ids=["content", "both", "endpoint"],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    assert export(*words, str(path)) == 2
    assert "endpoint" in capsys.readouterr().err
