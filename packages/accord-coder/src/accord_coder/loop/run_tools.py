"""Runs the tools that a model requests: permission, tool call, result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from accord import (
    ContentBlock,
    RemoteProtocolError,
    RequestError,
    StartError,
    TransportError,
    Turn,
)
from accord.agent import WorkCancelled
from accord.local.files import OutsideRoots
from accord_coder.loop.coder_session import CoderSession
from accord_coder.messages import Results, ToolResult, ToolUse
from accord_coder.permissions.gate import PermissionDenied, enforce, evaluate
from accord_coder.tool_results import Outcome, ToolFailed
from accord_coder.tools.base import Tool
from accord_coder.wildcards import PatternTooLong

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle


log = logging.getLogger("accord_coder")

_MAX_PATH_CHARACTERS = 4096  # PATH_MAX of Linux: links in longer paths are not resolved


async def run_tools(uses: Sequence[ToolUse], turn: Turn, state: CoderSession) -> Results:
    """Run the tools in order; consecutive read-only tools run concurrently."""
    results: list[ToolResult] = []
    at = 0
    while at < len(uses):
        end = at + 1
        while (
            end < len(uses)
            and _is_parallel(uses[end - 1], state)
            and _is_parallel(uses[end], state)
        ):
            end += 1
        results += await _run_parallel(uses[at:end], turn, state)
        at = end
    return Results(tuple(results))


async def _run_parallel(
    uses: Sequence[ToolUse], turn: Turn, state: CoderSession
) -> list[ToolResult]:
    if len(uses) == 1:
        return [await _run_tool(uses[0], turn, state)]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run_tool(use, turn, state)) for use in uses]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None  # the client has disconnected
    return [task.result() for task in tasks]


def _is_parallel(use: ToolUse, state: CoderSession) -> bool:
    tool = state.tools.get(use.name)
    return tool is not None and tool.parallel


async def _run_tool(use: ToolUse, turn: Turn, state: CoderSession) -> ToolResult:
    tool = state.tools.get(use.name)
    try:
        if tool is None:
            known = ", ".join(sorted(state.tools))
            raise ToolFailed(f"Unknown tool {use.name}: expected one of {known}.")
        args = tool.parse(use.arguments)
    except ToolFailed as error:
        async with turn.tool(use.name, name=use.name, raw_input=_json(use.arguments)) as call:
            await call.set_raw_output({"error": str(error)})
            await call.fail(str(error))
        return _result(use, (str(error),), failed=True)
    try:
        return await _run_parsed(tool, args, use, turn, state)
    except WorkCancelled:
        return _result(use, ("The user cancelled it.",), failed=True)


async def _run_parsed(
    tool: Tool[Any], args: Any, use: ToolUse, turn: Turn, state: CoderSession
) -> ToolResult:
    async with turn.tool(
        tool.title(args, state),
        kind=tool.kind,
        name=tool.name,
        locations=tool.locations(args, state),
        raw_input=_json(use.arguments),
        cancellable=tool.cancellable,
    ) as call:
        try:
            access = tool.access(args, state)
            if any("\0" in text for text in (*access.paths, access.subject)):
                raise ToolFailed("Arguments must not contain NUL characters.")
            if any(len(path) > _MAX_PATH_CHARACTERS for path in access.paths):
                raise ToolFailed(f"A path is longer than {_MAX_PATH_CHARACTERS} characters.")
            # Permission is evaluated before the preview, which reveals the content of files.
            judged = await evaluate(access, state)
            await tool.preview(args, call, state)
            if judged.asks:
                state.files.forget_previews()
            await enforce(judged, call, state)
            outcome = await tool.run(args, call, state)
        except PermissionDenied as error:
            await call.deny(str(error), raw_output={"error": str(error)})
            return _result(use, (str(error),), failed=True)
        except StartError as error:
            return await _report_failure(str(error), call, use)
        except TransportError:
            raise  # the client has disconnected
        except Exception as error:
            if turn.session.closed:
                raise  # nothing can be reported in a closed session
            return await _report_failure(_error_text(error, tool), call, use)
        await call.set_raw_output(_raw_output(outcome))
        if outcome.failed:
            await call.fail()
        return _result(use, outcome.content, failed=outcome.failed)


async def _report_failure(why: str, call: ToolCallHandle, use: ToolUse) -> ToolResult:
    await call.set_raw_output({"error": why})
    await call.fail(why)
    return _result(use, (why,), failed=True)


def _error_text(error: Exception, tool: Tool[Any]) -> str:
    """Return the error text for the model and the user."""
    match error:
        case ToolFailed() | OutsideRoots() | PatternTooLong():
            return str(error)
        case FileNotFoundError(filename=str() as path):
            return f"The file {path} does not exist."
        case OSError(strerror=str() as reason, filename=str() as path):
            return f"{path}: {reason}."
        case OSError(strerror=str() as reason):
            return f"{tool.name} failed: {reason}."
        case RequestError():
            return f"{tool.name} failed: the client responded {error.text}"
        case RemoteProtocolError():
            return f"{tool.name} failed: the client violated the protocol. {error}"
        case _:
            log.error("! the tool %s failed", tool.name, exc_info=error)
            return f"{tool.name} failed because of a bug in it."


def _raw_output(outcome: Outcome) -> dict[str, Any]:
    text = "\n".join(part for part in outcome.content if isinstance(part, str))
    return {"output": text, **(outcome.raw or {})}


def _result(use: ToolUse, content: tuple[ContentBlock, ...], *, failed: bool) -> ToolResult:
    return ToolResult(use.id, use.name, content, failed)


def _json(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return {"arguments": arguments}
