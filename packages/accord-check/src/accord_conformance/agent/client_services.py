"""The services of a client for agents of version 1: real files and terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from accord.errors import StartError
from accord.local.command import LocalCommand
from accord.local.files import OutsideRoots, Roots
from accord.text.lenient_json import is_array, is_object
from accord_conformance.harness.raw_connection import RawConnection
from accord_conformance.traffic.message import Request

_Handler: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ClientServices:
    """Serves `fs/` and `terminal/` inside `folder`; `aclose` stops running commands."""

    def __init__(self, connection: RawConnection, folder: Path) -> None:
        self._connection = connection
        self.folder = folder
        self._terminals: dict[str, LocalCommand] = {}
        self._made = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, _Handler] = {
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    def serve(self, call: Request) -> bool:
        """Respond to a request if it is one of these, perhaps later; return whether it is."""
        handler = self._handlers.get(call.method)
        if handler is None:
            return False
        task = asyncio.ensure_future(self._answer(handler, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def aclose(self) -> None:
        """Stop all commands and the requests that wait for them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._terminals:
            await self._terminals.popitem()[1].aclose()

    async def _answer(self, handler: _Handler, call: Request) -> None:
        params = call.params if is_object(call.params) else {}
        try:
            result = await handler(params)
        except _Refused as refused:
            self._connection.respond_error(call, refused.code, str(refused))
        except (OutsideRoots, OSError, UnicodeDecodeError) as error:
            code = -32002 if isinstance(error, FileNotFoundError) else -32603
            self._connection.respond_error(call, code, "The file cannot be used")
        except Exception:  # noqa: BLE001  # the agent gets a response in any case
            self._connection.record_kit_error()
            self._connection.respond_error(call, -32603, "Error in the conformance kit")
        else:
            self._connection.respond(call, result)

    def _roots(self) -> Roots:
        return Roots([str(self.folder)])

    async def _read(self, params: dict[str, Any]) -> Any:
        text = self._roots().read(_path(params))
        lines = text.splitlines(keepends=True)
        first = max((_number(params, "line") or 1) - 1, 0)
        limit = _number(params, "limit")
        last = len(lines) if limit is None else first + limit
        return {"content": "".join(lines[first:last])}

    async def _write(self, params: dict[str, Any]) -> Any:
        content = params.get("content")
        if not isinstance(content, str):
            raise _Refused(-32602, "Expected the content")
        self._roots().write(_path(params), content)
        return {}

    async def _create(self, params: dict[str, Any]) -> Any:
        given, cwd = params.get("args"), params.get("cwd")
        args = given if is_array(given) else []
        words = [str(word) for word in (params.get("command"), *args)]
        if not isinstance(params.get("command"), str) or "\0" in "".join(words):
            raise _Refused(-32602, "Expected a command")
        if cwd is not None and (not isinstance(cwd, str) or "\0" in cwd):
            raise _Refused(-32602, "Expected a directory")
        env = {
            str(entry.get("name")): str(entry.get("value")) for entry in _entries(params.get("env"))
        }
        try:
            command = LocalCommand(
                words,
                cwd=cwd or str(self.folder),
                env=env,
                output_bytes=_number(params, "outputByteLimit"),
            )
        except StartError:
            raise _Refused(-32603, "The command cannot be started") from None
        self._made += 1
        ident = f"terminal-{self._made}"
        self._terminals[ident] = command
        return {"terminalId": ident}

    async def _output(self, params: dict[str, Any]) -> Any:
        output = self._terminal(params).output
        text = output.text()
        exited = None if self._terminal(params).running else self._status(params)
        return {"output": text, "truncated": output.truncated, "exitStatus": exited}

    async def _wait(self, params: dict[str, Any]) -> Any:
        await self._terminal(params).wait()
        return self._status(params)

    async def _kill(self, params: dict[str, Any]) -> Any:
        await self._terminal(params).kill()
        return {}

    async def _release(self, params: dict[str, Any]) -> Any:
        command = self._terminal(params)
        del self._terminals[params["terminalId"]]
        await command.aclose()
        return {}

    def _status(self, params: dict[str, Any]) -> dict[str, Any]:
        code, signal = self._terminal(params).status()
        return {"exitCode": code, "signal": signal}

    def _terminal(self, params: dict[str, Any]) -> LocalCommand:
        command = self._terminals.get(str(params.get("terminalId")))
        if command is None:
            raise _Refused(-32602, "Unknown terminal")
        return command


def _number(params: dict[str, Any], key: str) -> int | None:
    value = params.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise _Refused(-32602, f"Expected a number as {key}")


def _path(params: dict[str, Any]) -> str:
    path = params.get("path")
    if not isinstance(path, str) or "\0" in path:
        raise _Refused(-32602, "Expected a path")
    return path


def _entries(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if is_object(entry)] if is_array(value) else []
