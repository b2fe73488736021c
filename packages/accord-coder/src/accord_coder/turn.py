"""Runs one turn: the model answers and uses tools until it ends its turn.

`run_turn` is the loop. `run_tools` runs the tools of one answer: permission, tool call, result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from accord import (
    AuthRequired,
    ContentBlock,
    Cost,
    RemoteProtocolError,
    RequestError,
    StartError,
    TokenUsage,
    TransportError,
    Turn,
)
from accord.agent import WorkCancelled
from accord.installed import install_command
from accord.local.files import OutsideRoots
from accord_coder.models.base import (
    Answer,
    ContextOverflow,
    Finished,
    KeyRejected,
    Model,
    ModelError,
    Notice,
    Prompt,
    Request,
    Results,
    Text,
    Thought,
    ToolResult,
    ToolUse,
    repair,
)
from accord_coder.permissions.decision import PermissionDenied, enforce, evaluate
from accord_coder.session import (
    CoderSession,
    compact_messages,
    estimate_tokens,
    last_turns,
    nothing_to_drop,
    summarise,
)
from accord_coder.tool_results import Outcome, ToolFailed
from accord_coder.tools import Tool
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


# Compact the conversation above this share of the model's context.
_COMPACT_ABOVE = 0.8
_STOP_REASONS = {"max_tokens": "max_tokens", "refusal": "refusal"}


async def run_turn(
    turn: Turn,
    state: CoderSession,
    model: Model,
    instructions: str,
    content: tuple[ContentBlock, ...] | None = None,
    is_command: Callable[[tuple[ContentBlock, ...]], bool] = lambda _: False,
) -> str:
    """Run the model on a prompt, or on `content` instead of it; return the stop reason.

    What the user says meanwhile is in the next request, unless it is a slash command: that is a
    prompt after this one.
    """
    prompt = Prompt(turn.content if content is None else content)
    state.messages = repair(state.messages)
    state.messages.append(prompt)
    if turn.session.mcp_servers:
        await _connect_servers(turn, state)
    try:
        for _ in range(state.settings.max_requests):
            answer, reason = await _request_with_compaction(turn, state, model, instructions)
            if answer.text or answer.uses:
                state.messages.append(answer)
            if reason == "refusal":
                _drop_prompt(prompt, state)
            if answer.uses:
                state.messages.append(await run_tools(answer.uses, turn, state))
                _hear(turn, state, is_command)
            elif reason in _STOP_REASONS or not _hear(turn, state, is_command):
                return _STOP_REASONS.get(reason, "end_turn")
    except KeyRejected as error:
        raise AuthRequired(str(error)) from error
    except ModelError as error:
        raise RequestError(str(error)) from error
    return "max_turn_requests"


def _hear(
    turn: Turn, state: CoderSession, is_command: Callable[[tuple[ContentBlock, ...]], bool]
) -> bool:
    """Add what the user has said meanwhile to the conversation; return whether there was any."""
    said = turn.take_steering()
    heard = list(takewhile(lambda message: not is_command(message.content), said))
    state.messages += [Prompt(message.content) for message in heard]
    for message in said[len(heard) :]:
        turn.add_steering(message)
    return bool(heard)


def _drop_prompt(prompt: Prompt, state: CoderSession) -> None:
    """Drop a refused prompt and what followed it, so that the next prompt starts without them."""
    for at, message in enumerate(state.messages):
        if message is prompt:
            del state.messages[at:]
            return


async def _connect_servers(turn: Turn, state: CoderSession) -> None:
    """Connect to the MCP servers of the session; their package is slow to import."""
    try:
        import_module("accord_coder.tools.mcp_tool")
    except ImportError:
        if not state.lacks_mcp:
            state.lacks_mcp = True
            await turn.show_notice(
                f"MCP servers cannot be used: they require {install_command('coder')}.",
                severity="warning",
            )
        return
    state.mcp = await turn.session.connect_mcp()
    for name, why in state.mcp.failed.items():
        if name not in state.mcp_reported:
            state.mcp_reported.add(name)
            await turn.show_notice(
                f"The MCP server {name} cannot be used: {why}.", severity="warning"
            )


async def _request_with_compaction(
    turn: Turn, state: CoderSession, model: Model, instructions: str
) -> tuple[Answer, str]:
    """Request an answer; compact the conversation first if it is too long."""
    if state.mcp is not None:
        from accord_coder.tools.mcp_tool import McpTool, tools_of

        own = {name: tool for name, tool in state.tools.items() if not isinstance(tool, McpTool)}
        state.tools = tools_of(state.mcp.values()) | own  # the current ones of the servers
    if _estimate_context(state) > _COMPACT_ABOVE * model.context_size:
        await compact(turn, state, model)
    try:
        return await _request(turn, state, model, instructions)
    except ContextOverflow:
        if not await compact(turn, state, model):
            raise
    return await _request(turn, state, model, instructions)


def _estimate_context(state: CoderSession) -> int:
    """Return an estimate of the tokens that the next request takes."""
    if not state.context_used:  # not reported yet, for example in a loaded session
        return estimate_tokens(state.messages)
    new = takewhile(lambda message: not isinstance(message, Answer), reversed(state.messages))
    return state.context_used + estimate_tokens(list(new))


async def _request(
    turn: Turn, state: CoderSession, model: Model, instructions: str
) -> tuple[Answer, str]:
    """Stream the answer to the client; return it with its stop reason."""
    request = Request(
        instructions=instructions,
        messages=tuple(state.messages),
        tools=[tool.spec for tool in state.tools.values()],
        effort=state.effort,
    )
    texts: list[str] = []
    uses: list[ToolUse] = []
    finished: Finished | None = None
    turn.start_new_message()
    pieces = model.answer(request)
    try:
        async for piece in pieces:
            match piece:
                case Text(text):
                    texts.append(text)
                    await turn.say(text)
                case Thought(text):
                    await turn.think(text)
                case Notice(text):
                    await turn.show_notice(text.strip(), severity="warning")
                case ToolUse():
                    uses.append(piece)
                case Finished():
                    finished = piece
    except BaseException:
        if texts:  # the user has seen it, so it belongs to the conversation
            state.messages.append(Answer(text="".join(texts)))
        raise
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
    if finished is None:
        raise ModelError("The model's response ended without a stop reason.")
    await _report_usage(finished, turn, state, model)
    return _assemble_answer("".join(texts), uses, finished), finished.reason


def _assemble_answer(text: str, uses: list[ToolUse], finished: Finished) -> Answer:
    """Return the answer, without its tool uses if it was cut off during one."""
    if finished.reason in ("end", "tools"):
        return Answer(text=text, uses=tuple(uses), native=finished.native)
    return Answer(text=text, native=None if uses else finished.native)


async def _report_usage(finished: Finished, turn: Turn, state: CoderSession, model: Model) -> None:
    """Report the tokens and the cost of an answer, and the context usage."""
    if finished.tokens is not None:
        turn.token_usage = _add_usage(turn.token_usage, finished.tokens)
    if finished.cost is not None:
        before = 0.0 if state.cost is None else state.cost.amount
        state.cost = Cost(before + finished.cost.amount, finished.cost.currency)
    if finished.context is not None:
        state.context_used = finished.context
        await turn.set_context_usage(state.context_used, model.context_size, cost=state.cost)


def _add_usage(before: TokenUsage | None, more: TokenUsage) -> TokenUsage:
    if before is None:
        return more

    def both(one: int | None, other: int | None) -> int | None:
        return None if one is None and other is None else (one or 0) + (other or 0)

    return TokenUsage(
        total=before.total + more.total,
        input=before.input + more.input,
        output=before.output + more.output,
        thought=both(before.thought, more.thought),
        cached_read=both(before.cached_read, more.cached_read),
        cached_write=both(before.cached_write, more.cached_write),
    )


async def compact(turn: Turn, state: CoderSession, model: Model, *, hint: str = "") -> bool:
    """Replace the conversation, except for its end, by a summary; return False if not possible.

    The summary is stored with the compaction, so a loaded session continues from it.
    """
    messages = repair(state.messages)
    if nothing_to_drop(messages):
        return False
    if turn.client.version == 1:  # clients of version 1 might not show compactions
        await turn.think("Compacting the conversation.\n")
    async with turn.compaction() as shown:
        if not model.can_summarise:
            state.messages = last_turns(messages)
            return len(state.messages) < len(messages)
        try:
            summary = await summarise(messages, model, hint)
        except ModelError as error:
            await shown.fail(str(error))
            return False
        await shown.summary(summary.text)
        state.messages = compact_messages(messages, summary.text)
    state.context_used = estimate_tokens(state.messages)
    took = summary.finished
    if took is not None:
        after = Finished(
            reason="end", tokens=took.tokens, cost=took.cost, context=state.context_used
        )
        await _report_usage(after, turn, state, model)
    return True
