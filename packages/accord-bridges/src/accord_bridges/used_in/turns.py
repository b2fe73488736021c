"""A turn of an ACP agent, as its caller reads it.

The agents are served in a thread of their own, and a turn is a queue that its caller reads. It
contains what the agent needs from the caller, too: a permission (`Asked`), and a call of a tool of
the caller (`Called`). The agent waits for the answer, so a turn can be left and continued, as long
as the process lives.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

import accord
from accord.client.events import Event
from accord.client.permissions import AsyncPolicy

__all__ = (
    "AcpAgentError",
    "Asked",
    "Called",
    "Turn",
    "agents_loop",
    "answer_of",
    "there",
)

T = TypeVar("T")

_QUEUED = 1000  # items of a turn that wait for the caller; then the agent is not read any more
_TOGETHER_S = 0.02  # calls of tools that arrive within this time are answered together


class AcpAgentError(RuntimeError):
    """The agent could not be started, has ended, needs a login or failed; the text says which."""


class Asked:
    """A permission request; the agent waits for `answer`."""

    def __init__(self, request: accord.PermissionRequest, turn: Turn) -> None:
        self.request = request
        self.is_allowed: bool | None = None
        self._turn = turn
        self.decision: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def title(self) -> str:
        """What the agent wants to do, in one line."""
        request, call = self.request, self.request.tool_call
        return (call.title if call else "") or request.title or request.command or "?"

    def answer(self, decision: str) -> None:
        """Answer with a decision of a policy; what is not allowed is in `Turn.rejected`."""
        self.is_allowed = decision.startswith("allow")
        if not self.is_allowed:
            self._turn.rejected.append(self.title)
        _answer(self.decision, decision)

    async def decide(self) -> bool:
        """Answer by the policies of the agent; return whether one of them has decided."""
        decision = await self._turn.policy(self.request)
        if decision is None:
            return False
        if isinstance(decision, accord.PermissionOption):
            allows, always = decision.allows, decision.is_remembered
            decision = ("allow" if allows else "reject") + ("_always" if always else "")
        self.answer(decision)
        return True


class Called:
    """A call of a tool of the caller; the agent waits for `answer`."""

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any]) -> None:
        self.id, self.name, self.arguments = call_id, name, arguments
        self.result: asyncio.Future[tuple[str, bool]]
        self.result = asyncio.get_running_loop().create_future()

    def answer(self, text: str, *, is_error: bool = False) -> None:
        """Return the result to the agent."""
        _answer(self.result, (text, is_error))


Item: TypeAlias = Event | Asked | Called


class Turn:
    """A prompt that the agent works on; its caller reads `items` up to the end."""

    def __init__(self, session_id: str, policy: AsyncPolicy, cancel: Callable[[], object]) -> None:
        self.session_id = session_id
        self.policy = policy
        self.is_ended = False
        self.stop_reason: str = ""
        self.usage: accord.TokenUsage | None = None
        self.cost: float | None = None  # of this turn, in dollars
        self.rejected: list[str] = []  # titles of what was not allowed
        self.limit: str = ""  # the limit of the budget that it has reached
        self.error: AcpAgentError | None = None
        self.waiting: dict[str, Called] = {}  # calls that the agent waits for, by their ids
        self.context: dict[str, Any] = {}  # what the caller keeps with the turn
        self._cancel = cancel
        self._items: list[Item] = []
        self._is_left = False
        self._changed = asyncio.Event()  # of the items
        self._room = asyncio.Event()

    @property
    def not_allowed(self) -> str:
        """What was rejected, as a note for the user; empty if nothing was."""
        return f"[Not allowed: {'; '.join(self.rejected)}]" if self.rejected else ""

    @property
    def notes(self) -> str:
        """What was rejected, and why the agent stopped if it was not at its end."""
        stopped = ""
        if self.stop_reason not in ("end_turn", ""):
            stopped = f"[The agent stopped: {self.limit or self.stop_reason}]"
        return "\n\n".join(filter(None, (self.not_allowed, stopped)))

    async def read(self) -> Sequence[Item]:
        """Wait for items and return them, none after the end. Raises `AcpAgentError`."""
        items = await there(self._read())
        if not items and self.error is not None:
            raise self.error
        return items

    def cancel(self) -> None:
        """Cancel the turn, from any thread; a next turn of the session waits for its end."""
        agents_loop().call_soon_threadsafe(self.leave)

    # The rest runs in the thread of the agents.

    async def _read(self) -> Sequence[Item]:
        while not self._items and not self.is_ended:
            self._changed.clear()
            await self._changed.wait()
        if any(isinstance(item, Called) for item in self._items) and not self.is_ended:
            await asyncio.sleep(_TOGETHER_S)
        items, self._items = self._items, []
        self._room.set()
        return items

    async def put(self, item: Item) -> None:
        """Add an item; wait while the caller does not read."""
        while len(self._items) >= _QUEUED and not self._is_left:
            self._room.clear()
            await self._room.wait()
        if isinstance(item, Called):
            self.waiting[item.id] = item
        if not self._is_left:
            self._items.append(item)
            self._changed.set()
        elif isinstance(item, Asked):
            item.decision.set_result("cancel")
        elif isinstance(item, Called):
            item.result.set_result(("The caller has cancelled the turn.", True))

    def leave(self) -> None:
        """Drop what follows, answer what the agent waits for, and cancel the prompt."""
        if self.is_ended or self._is_left:
            return
        self._is_left = True
        self._room.set()
        for item in [*self._items, *self.waiting.values()]:
            future = getattr(item, "decision", None) or getattr(item, "result", None)
            if future is not None and not future.done():
                cancelled: Any = ("The caller has cancelled the turn.", True)
                future.set_result("cancel" if isinstance(item, Asked) else cancelled)
        self._cancel()

    def end(self, error: AcpAgentError | None) -> None:
        """Set the end: nothing more is added."""
        self.error, self.is_ended = error, True
        self._changed.set()


def answer_of(said: Sequence[accord.Text], turn: Turn) -> str:
    """Return what the agent has said as one text, with the notes of the turn."""
    text = ""
    last: str | None = None
    for part in said:
        text += ("\n\n" if text and part.message_id != last else "") + part.text
        last = part.message_id
    return "\n\n".join(filter(None, (text, turn.notes)))


# The thread of the agents.

_thread: list[asyncio.AbstractEventLoop] = []
_starting = threading.Lock()


def agents_loop() -> asyncio.AbstractEventLoop:
    with _starting:
        if not _thread:
            _thread.append(asyncio.new_event_loop())
            run = _thread[0].run_forever
            threading.Thread(target=run, name="accord agents", daemon=True).start()
        return _thread[0]


async def there(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the thread of the agents."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, agents_loop()))


def _answer(future: asyncio.Future[Any], value: object) -> None:
    def answer() -> None:
        if not future.done():
            future.set_result(value)

    agents_loop().call_soon_threadsafe(answer)
