"""Files, terminals and forms for the independent client."""

from __future__ import annotations

import codecs
import itertools
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from peer import INTERNAL, NOT_FOUND, PARAMS, Refused

Json = Any


def absolute(params: dict[str, Json], key: str) -> Path:
    value = params.get(key)
    if not isinstance(value, str) or "\0" in value or not Path(value).is_absolute():
        raise Refused(PARAMS, f"Expected an absolute path as {key}")
    return Path(value)


def number(params: dict[str, Json], key: str, bits: int) -> int | None:
    value = params.get(key)
    if value is not None and (type(value) is not int or not 0 <= value < 2**bits):
        raise Refused(PARAMS, f"Expected a number as {key}")
    return value


class Files:
    """Text files inside one directory."""

    def __init__(self, root: str) -> None:
        self.root = Path(root).resolve()

    def inside(self, params: dict[str, Json]) -> Path:
        path = absolute(params, "path").resolve()
        if not path.is_relative_to(self.root):
            raise Refused(PARAMS, "The path is outside of the session's directories")
        return path

    def read(self, params: dict[str, Json]) -> Json:
        line, limit = number(params, "line", 32), number(params, "limit", 32)
        try:
            text = self.inside(params).read_bytes().decode()
        except FileNotFoundError:
            raise Refused(NOT_FOUND, "No such file") from None
        except (OSError, UnicodeDecodeError):
            raise Refused(INTERNAL, "The file cannot be read") from None
        lines = text.splitlines(keepends=True)[max((line or 1) - 1, 0) :]
        return {"content": "".join(lines if limit is None else lines[:limit])}

    def write(self, params: dict[str, Json]) -> Json:
        content = params.get("content")
        if not isinstance(content, str):
            raise Refused(PARAMS, "Expected a string as content")
        path = self.inside(params)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())
        except (OSError, UnicodeEncodeError):
            raise Refused(INTERNAL, "The file cannot be written") from None
        return {}


class Terminal:
    """A command and its output."""

    def __init__(self, process: subprocess.Popen[bytes], limit: int | None) -> None:
        self.process = process
        self.limit = limit
        self.data = b""
        self.truncated = False
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout
        while piece := os.read(self.process.stdout.fileno(), 65536):
            with self.lock:
                self.data += piece
                if self.limit is not None and len(self.data) > self.limit:
                    self.truncated = True
                    self.data = self.data[len(self.data) - self.limit :]
                    while self.data and self.data[0] & 0xC0 == 0x80:  # inside a character
                        self.data = self.data[1:]
        self.process.wait()

    def status(self) -> Json:
        code = self.process.returncode
        if code < 0:
            return {"exitCode": None, "signal": signal.Signals(-code).name}
        return {"exitCode": code, "signal": None}

    def output(self) -> Json:
        exited = self.process.poll() is not None
        if exited:
            self.reader.join(5)
        with self.lock:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            shown = {"output": decoder.decode(self.data, final=exited)}
        shown |= {"truncated": self.truncated}
        return shown | ({"exitStatus": self.status()} if exited else {})

    def wait(self) -> Json:
        self.process.wait()
        return self.status()

    def kill(self) -> Json:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        return {}


class Terminals:
    """The commands of the agent."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.numbers = itertools.count(1)
        self.running: dict[tuple[str, str], Terminal] = {}

    def create(self, params: dict[str, Json]) -> Json:
        command, args, env = params.get("command"), params.get("args"), params.get("env")
        args, env = args if args is not None else [], env if env is not None else []
        if not isinstance(command, str) or not isinstance(args, list):
            raise Refused(PARAMS, "Malformed command")
        if not all(isinstance(value, str) for value in args) or not isinstance(env, list):
            raise Refused(PARAMS, "Malformed arguments")
        more: dict[str, str] = {}
        for pair in env:
            if not isinstance(pair, dict) or not all(
                isinstance(pair.get(key), str) for key in ("name", "value")
            ):
                raise Refused(PARAMS, "Malformed variable")
            more[pair["name"]] = pair["value"]
        limit = number(params, "outputByteLimit", 64)
        cwd = self.cwd if params.get("cwd") is None else str(absolute(params, "cwd"))
        try:
            process = subprocess.Popen(
                [command, *args],
                cwd=cwd,
                env=os.environ | more,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError):
            raise Refused(INTERNAL, "The command cannot be started") from None
        name = f"terminal-{next(self.numbers)}"
        self.running[params["sessionId"], name] = Terminal(process, limit)
        return {"terminalId": name}

    def find(self, params: dict[str, Json]) -> Terminal:
        name = params.get("terminalId")
        if not isinstance(name, str):
            raise Refused(PARAMS, "Expected a string as terminalId")
        terminal = self.running.get((params["sessionId"], name))
        if terminal is None:
            raise Refused(NOT_FOUND, "No such terminal")
        return terminal

    def release(self, params: dict[str, Json]) -> Json:
        terminal = self.find(params)
        del self.running[params["sessionId"], params["terminalId"]]
        return terminal.kill()

    def end(self) -> None:
        for terminal in self.running.values():
            terminal.kill()


def fill(schema: Json, version: int) -> dict[str, Json] | None:
    """Return the values for a form, or None if it has an unknown field."""
    if not isinstance(schema, dict):
        raise Refused(PARAMS, "Expected a schema")
    if version == 2 and (schema.get("type") != "object" or "properties" not in schema):
        raise Refused(PARAMS, "Malformed schema")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise Refused(PARAMS, "Malformed schema")
    required = schema.get("required")
    if required is not None and not isinstance(required, list):
        raise Refused(PARAMS, "Malformed schema")
    content: dict[str, Json] = {}
    for name, field in properties.items():
        if not isinstance(field, dict) or not isinstance(field.get("type"), str):
            raise Refused(PARAMS, "Malformed property")
        value = _value(field)
        if value is not None:
            content[name] = value
        elif name in (required or []):
            return None
    return content


def _value(field: dict[str, Json]) -> Json:
    kind, default = field["type"], field.get("default")
    wanted = {"string": str, "number": (int, float), "integer": int, "boolean": bool, "array": list}
    if kind in wanted and isinstance(default, wanted[kind]):
        return default
    match kind:
        case "string":
            return _text(field)
        case "number" | "integer":
            return field["minimum"] if field.get("minimum") is not None else 0
        case "boolean":
            return False
        case "array":
            items = field.get("items")
            choices = _choices(items) if isinstance(items, dict) else []
            return choices[: max(field.get("minItems") or 0, 0)] if choices else None
    return None


def _choices(field: dict[str, Json]) -> list[Json]:
    listed = field.get("oneOf") or field.get("anyOf")
    return [item["const"] for item in listed] if listed else field.get("enum") or []


def _text(field: dict[str, Json]) -> str | None:
    choices = _choices(field)
    if choices:
        return choices[0]
    known = {"email": "ada@example.com", "uri": "https://example.com", "date": "2026-01-01"}
    known["date-time"] = "2026-01-01T00:00:00Z"
    if isinstance(field.get("format"), str) and field["format"] in known:
        return known[field["format"]]
    if field.get("pattern"):
        return None  # do not invent a text that might not be valid
    return "hello".ljust(field.get("minLength") or 0, "o")[: field.get("maxLength")]
