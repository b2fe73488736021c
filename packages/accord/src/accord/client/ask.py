"""`accord.ask`: one prompt, for scripts and notebooks without an event loop of their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack

from msgspec import Struct

from accord.client.connect import AgentCommand, ConnectOptions, check_known, connect
from accord.client.permissions import Policy
from accord.client.transcript import Transcript
from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock
from accord.types.session import StopReason, TokenUsage
from accord.types.validation import require_type

if TYPE_CHECKING:
    from accord.client.budget import LimitReached, Spent

MAX_INTERRUPTS = 2  # then the agent's process is not waited for

# Arguments of `ask` itself; the first two may have been given by position.
_OWN = ("command", "prompt", "cwd", "permissions", "timeout_s", "tools")

T = TypeVar("T")


class AskResult(Struct, frozen=True, kw_only=True):
    """The result of `accord.ask`."""

    text: str
    stop_reason: StopReason
    transcript: Transcript
    token_usage: TokenUsage | None = None
    limit: LimitReached | None = None
    """The limit of the budget that the turn has reached."""
    spent: Spent | None = None
    """What the turn has used, if it had a budget."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<AskResult {excerpt(self.text, 60)!r}, {excerpt(self.stop_reason, 60)}>"

    if not TYPE_CHECKING:  # type checkers should reject it

        def __await__(self) -> NoReturn:
            raise TypeError(
                "accord.ask(…) is not awaited: it returns the result, and blocks an event loop;"
                " in coroutines use `async with accord.connect(…) as agent:`"
            )

    def _repr_markdown_(self) -> str:
        ended = "" if self.stop_reason == "end_turn" else f"\n\n*Stopped: {self.stop_reason}*"
        return self.text + ended


def ask(
    command: AgentCommand,
    prompt: ContentBlock | Sequence[ContentBlock],
    *,
    cwd: str | os.PathLike[str] = ".",
    permissions: Policy | Sequence[Policy] | None = None,
    tools: Iterable[object] = (),
    timeout_s: float | None = None,
    **options: Unpack[ConnectOptions],
) -> AskResult:
    """Start an agent, run one turn in a new session in `cwd`, and stop the agent.

        result = accord.ask("opencode acp", "What does this project do?")
        print(result)

    If an event loop is running, it is blocked until then. After `timeout_s` the turn is cancelled
    and `TimeoutError` is raised; the agent has 10 s to end the turn. Ctrl-C cancels the turn and
    raises `KeyboardInterrupt`; a second Ctrl-C does not wait for the end of the turn. `connect`
    documents `options` and the other errors, `ConnectedAgent.new_session` `tools`.
    """
    check_known("ask", options, (*_OWN, *ConnectOptions.__annotations__))
    require_type("ask(timeout_s=…)", timeout_s, int, float, type(None))
    contents: list[ContentBlock] = []
    if isinstance(prompt, Sequence) and not isinstance(prompt, str | bytes):
        contents += prompt
    else:
        contents.append(prompt)

    async def run() -> AskResult:
        async with (
            _time_limit(timeout_s),
            connect(command, permissions=permissions, **options) as agent,
        ):
            session = await agent.new_session(cwd, tools=tools)
            async with session.prompt(*contents) as turn:
                stop_reason = await turn.wait()
            return AskResult(
                text=turn.text,
                stop_reason=stop_reason,
                transcript=session.transcript,
                token_usage=turn.token_usage,
                limit=turn.limit,
                spent=turn.spent,
            )

    return _wait_for(run())


@contextlib.asynccontextmanager
async def _time_limit(timeout_s: float | None) -> AsyncGenerator[None, None]:
    """Limit the time of a block, with an error that says what it was about."""
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError:
        if timeout_s is None or not limit.expired():
            raise
        raise TimeoutError(f"The turn did not end within {timeout_s:g} s: cancelled") from None


def _wait_for(work: Coroutine[Any, Any, T]) -> T:
    if not _loop_runs():
        return asyncio.run(work)
    # In a notebook: its event loop is blocked by this call.
    running: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]]
    running = concurrent.futures.Future()
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
    interrupts = 0

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        running.set_result((asyncio.get_running_loop(), task))
        return await work

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(main()))
        except BaseException as exc:  # noqa: BLE001  # raised in the thread that waits
            outcome.set_exception(exc)

    def cancel(_: object) -> None:
        loop, task = running.result()
        with contextlib.suppress(RuntimeError):  # it has just ended
            loop.call_soon_threadsafe(task.cancel)

    def interrupted(_number: int, _frame: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > MAX_INTERRUPTS:
            raise KeyboardInterrupt
        running.add_done_callback(cancel)  # first the turn, then the wait for its end

    thread = threading.Thread(target=run, name="accord ask")
    thread.start()
    with _on_interrupt(interrupted):
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt:  # from another handler
                if interrupts >= MAX_INTERRUPTS:
                    raise
                interrupted(0, None)
    if interrupts:
        raise KeyboardInterrupt
    return outcome.result()


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextlib.contextmanager
def _on_interrupt(handle: Callable[[int, object], None]) -> Generator[None, None, None]:
    """Handle Ctrl-C in the block, if Python or the blocked event loop would handle it."""
    previous = signal.getsignal(signal.SIGINT)
    owner = getattr(previous, "func", previous)  # `asyncio.run` installs a partial
    is_replaceable = previous is signal.default_int_handler or (
        callable(owner) and str(getattr(owner, "__module__", "")).startswith("asyncio")
    )
    if not is_replaceable or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
