"""The interface of a stage: what stands between two neighbours of a chain sees and sends.

A chain has two ends, the client's connection and the agent's, and stages between them. Each stage
has a port to either side. The messages that pass are raw: a method, and params as JSON text. What
a stage does not change leaves it as the bytes that were received.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw, Struct, UnsetType

from accord.errors import RequestError
from accord.proxy.flow import Flow
from accord.proxy.runs import Run
from accord.text import lenient_json

Params: TypeAlias = Raw | UnsetType  # JSON text as received; UNSET: the message has no params


class Direction(Enum):
    """Where a message goes; a response goes the opposite way of its request."""

    TO_AGENT = "to agent"
    TO_CLIENT = "to client"

    # That of `Enum` is a function in Python, and every message that passes looks something up.
    if not TYPE_CHECKING:
        __hash__ = object.__hash__


def raw_json(value: Any) -> Raw:
    """Return builtin values as JSON text."""
    return Raw(lenient_json.dumps(value))


class RawResponse(Struct, frozen=True):
    """The response to a request: either `result` or `error`, as JSON text."""

    result: Raw | None = None
    error: Raw | None = None

    @staticmethod
    def of_result(value: Any) -> RawResponse:
        """Return the response for a result of builtin values."""
        return RawResponse(result=raw_json(value))

    @staticmethod
    def of_error(error: RequestError) -> RawResponse:
        """Return the response for an error."""
        body = {"code": error.code, "message": error.message}
        if error.data is not None:
            body["data"] = error.data
        return RawResponse(error=raw_json(body))

    def request_error(self) -> RequestError | None:
        """Return the error as an exception; None if the request succeeded."""
        if self.error is None:
            return None
        try:
            value = lenient_json.loads(bytes(self.error))
        except lenient_json.NotJson:
            value = None
        parts: dict[str, Any] = value if lenient_json.is_object(value) else {}
        code, message = lenient_json.whole(parts.get("code")), parts.get("message")
        if type(code) is not int or type(message) is not str:
            return RequestError.of(-32603, "Malformed error object", value)
        return RequestError.of(code, message, parts.get("data"))


class RawRequest:
    """A request on its way through a chain, until it is answered.

    To pass it on unchanged, pass on this object: the response and a cancellation find their way.
    To see or change the response, pass on what `derive` returns.
    """

    __slots__ = ("_answered", "_on_cancel", "is_answered", "is_cancelled", "method", "params")

    def __init__(
        self, method: str, params: Params, answered: Callable[[RawResponse], None]
    ) -> None:
        self.method: str = method
        self.params: Params = params
        self.is_answered: bool = False
        self.is_cancelled: bool = False  # the side that has sent it does not need it any more
        self._answered = answered
        self._on_cancel: Callable[[], object] | None = None

    def answer(self, response: RawResponse) -> None:
        """Respond; only the first response counts."""
        if not self.is_answered:
            self.is_answered = True
            self._on_cancel = None
            self._answered(response)

    def fail(self, error: RequestError) -> None:
        """Respond with an error."""
        self.answer(RawResponse.of_error(error))

    def cancel(self) -> None:
        """Cancel the request: called by what made it. A response is still expected."""
        if not self.is_answered and not self.is_cancelled:
            self.is_cancelled = True
            if self._on_cancel is not None:
                self._on_cancel()

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call this when the request is cancelled; immediately if it was.

        It replaces the callback of the previous owner: the one that passed the request on.
        """
        self._on_cancel = callback
        if self.is_cancelled:
            callback()

    def derive(
        self,
        answered: Callable[[RawResponse], None],
        *,
        method: str | None = None,
        params: Params | None = None,
    ) -> RawRequest:
        """Return a request to send instead of this one, whose response goes to `answered`.

        If this one is cancelled, so is the other. `answered` must answer this one in time.
        """
        derived = RawRequest(
            self.method if method is None else method,
            self.params if params is None else params,
            answered,
        )
        self.on_cancel(derived.cancel)
        return derived


class Port:
    """One side of a stage: messages that are sent here go to the neighbour on that side.

    The functions return immediately; the messages are written in this order.
    """

    __slots__ = ("notify", "notify_run", "request", "wait_for_room")

    def __init__(
        self,
        notify: Callable[[str, Params], None],
        request: Callable[[RawRequest], None],
        wait_for_room: Callable[[], Awaitable[None]],
        notify_run: Callable[[Run], None],
    ) -> None:
        #: `notify(method, params)` sends a notification.
        self.notify: Callable[[str, Params], None] = notify
        #: `request(request)` sends a request; `RawRequest.answer` will be called with the response.
        self.request: Callable[[RawRequest], None] = request
        #: Awaitable: returns when the connection that messages of this direction go to is not
        #: congested. For stages that send many messages of their own.
        self.wait_for_room: Callable[[], Awaitable[None]] = wait_for_room
        #: `notify_run(run)` sends notifications that were received together.
        self.notify_run: Callable[[Run], None] = notify_run


class Stage:
    """Receives every message that passes one place of a chain; by default it passes all on.

    The chain sets the ports and flows before the first message. The methods run on the event loop,
    must not block, and must not raise. One object serves one chain.
    """

    name: str = "proxy"  # for error messages and traces
    client: Port
    agent: Port
    flows: Mapping[Direction, Flow]  # to stop the source of a direction

    async def start(self) -> None:
        """Prepare for messages; called when the first `initialize` arrives, before it."""

    async def aclose(self) -> None:
        """Release everything; called once at the end of the chain."""

    def notification_from_client(self, method: str, params: Params) -> None:
        """Handle a notification on its way to the agent."""
        self.agent.notify(method, params)

    def run_from_client(self, run: Run) -> None:
        """Handle notifications that were received together; without an override, one by one."""
        if type(self).notification_from_client is Stage.notification_from_client:
            self.agent.notify_run(run)
            return
        for text in run.texts:
            self.notification_from_client(run.method, Raw(text))

    def request_from_client(self, request: RawRequest) -> None:
        """Handle a request on its way to the agent: pass it on, or answer it."""
        self.agent.request(request)

    def notification_from_agent(self, method: str, params: Params) -> None:
        """Handle a notification on its way to the client."""
        self.client.notify(method, params)

    def run_from_agent(self, run: Run) -> None:
        """Handle notifications that were received together; without an override, one by one."""
        if type(self).notification_from_agent is Stage.notification_from_agent:
            self.client.notify_run(run)
            return
        for text in run.texts:
            self.notification_from_agent(run.method, Raw(text))

    def request_from_agent(self, request: RawRequest) -> None:
        """Handle a request on its way to the client: pass it on, or answer it."""
        self.client.request(request)
