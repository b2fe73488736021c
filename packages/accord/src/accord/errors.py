"""All errors that Accord raises, and their JSON-RPC codes."""

from __future__ import annotations

from typing import Any, ClassVar

from accord.text.excerpt import excerpt, visible

__all__ = (
    "AccordError",
    "AuthRequired",
    "BacklogExceeded",
    "BudgetExceeded",
    "CancelTimeout",
    "ConnectionClosed",
    "ConnectionLost",
    "ConnectionRefused",
    "DecodeError",
    "FileChanged",
    "FrameTooLarge",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "McpBackendFailed",
    "McpLimitExceeded",
    "McpServerError",
    "McpServerUnavailable",
    "MethodNotFound",
    "NotOffered",
    "ParseError",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestError",
    "ResourceNotFound",
    "SessionTaken",
    "StartError",
    "SteerTimeout",
    "StoreUnavailable",
    "TransportError",
    "TurnInterrupted",
    "UnmeteredAgent",
    "UnsupportedVersion",
    "VersionNotOffered",
)

_MAX_MESSAGE = 1000  # characters of a peer's message


class AccordError(Exception):
    """Base class of all errors of this package.

    An error of an agent that `connect` has started as a process has the last lines that the agent
    wrote, as a note and in `stderr`: at most 20, without escape sequences and secrets.
    """

    stderr: str | None = None
    """The last lines of the agent's stderr, if they are known, and not passed to `on_stderr`."""
    stdout: str | None = None
    """The last lines on stdout of an agent that has not sent any message."""


class ProtocolError(AccordError):
    """A protocol violation, by this side or by the peer (see the subclasses)."""


class LocalProtocolError(ProtocolError):
    """This side tried to violate the protocol; nothing was sent."""


class NotOffered(LocalProtocolError):
    """The peer does not have the capability that this call needs; `gate` names it."""

    def __init__(self, method: str, gate: str) -> None:
        super().__init__(f"{method} needs {gate}, which the peer did not offer")
        self.method = method
        self.gate = gate


class FrameTooLarge(LocalProtocolError):
    """A message exceeds the size limit of frames; nothing was sent."""

    def __init__(self, method: str, size_bytes: int, limit_bytes: int) -> None:
        what = "A result" if not method else excerpt(method)
        super().__init__(
            f"{what} takes {size_bytes} bytes, more than a frame may have: "
            f"the limit is {limit_bytes} (frame_bytes of the transport)"
        )
        self.method = method
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol; `raw` is what it sent."""

    def __init__(self, message: str, *, raw: Any = None) -> None:
        super().__init__(message)
        self.raw = raw


class CancelTimeout(RemoteProtocolError):
    """The agent did not end a turn in time after it was cancelled."""


class SteerTimeout(RemoteProtocolError):
    """The agent did not say in time what became of a message; it may have it."""


class BudgetExceeded(AccordError):
    """A budget leaves nothing for a prompt, which was not sent; `limit` is a `LimitReached`."""

    def __init__(self, message: str, limit: Any = None) -> None:
        super().__init__(message)
        self.limit = limit


class UnmeteredAgent(AccordError):
    """A budget limits what the agent is not known to report."""


class UnsupportedVersion(RemoteProtocolError):
    """The peer does not support a protocol version of this side."""


class DecodeError(AccordError, ValueError):
    """A value does not fit a type; `path` is its place, from the root."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message: str = excerpt(message)
        self.path = path

    def within(self, step: str | int) -> DecodeError:
        """Return the error with a path that starts one level above."""
        return DecodeError(self.message, (step, *self.path))

    @property
    def where(self) -> str:
        """The path as text: `$.update.content[2].text`."""
        return "$" + "".join(
            f"[{step}]" if isinstance(step, int) else f".{excerpt(step)}" for step in self.path
        )

    def __str__(self) -> str:
        return f"{self.message} at {self.where}"


class RequestError(AccordError):
    """A JSON-RPC error: raise it in a handler to send it; a call raises the one it received.

    `origin` is the connection that it was received on, None if it was created here. If a handler
    does not catch an error that its peer has sent, that peer gets `Internal error`, because the
    code is about another request. Any other peer gets the error unchanged.
    """

    origin: object = None
    default_code: ClassVar[int] = -32603
    default_message: ClassVar[str] = "Internal error"

    def __init__(
        self, message: str | None = None, *, code: int | None = None, data: Any = None
    ) -> None:
        self.code: int = self.default_code if code is None else code
        self.message: str = self.default_message if message is None else message
        self.data = data
        super().__init__(self.message)

    @property
    def reason(self) -> str | None:
        """The reason in `data` in addition to the message, as one line; None if there is none."""
        if self.data is None:
            return None
        from accord.text.reason import reason_of

        return reason_of(self.message, self.data)

    @property
    def text(self) -> str:
        """The message and the reason, shortened, with control characters escaped."""
        message = visible(excerpt(self.message, _MAX_MESSAGE))
        if (reason := self.reason) is None:
            return message
        return f"{message.rstrip('.: ')}: {reason}" if message else reason

    def __str__(self) -> str:
        return f"{self.text} ({self.code})"

    @staticmethod
    def of(code: int, message: str, data: Any = None) -> RequestError:
        """Return the error as an instance of the class for its code."""
        cls = _BY_CODE.get(code, RequestError)
        return cls(message, code=code, data=data)


class ParseError(RequestError):
    """The frame was not JSON."""

    default_code = -32700
    default_message = "Parse error"


class InvalidRequest(RequestError):
    """The JSON was not a JSON-RPC message, or arrived at the wrong time."""

    default_code = -32600
    default_message = "Invalid request"


class MethodNotFound(RequestError):
    """The method does not exist or is not served."""

    default_code = -32601
    default_message = "Method not found"


class InvalidParams(RequestError):
    """The params do not fit the method."""

    default_code = -32602
    default_message = "Invalid params"


class InternalError(RequestError):
    """The handler failed."""

    default_code = -32603
    default_message = "Internal error"


class RequestCancelled(RequestError):
    """The request was cancelled before it finished."""

    default_code = -32800
    default_message = "Request cancelled"


class AuthRequired(RequestError):
    """The user must log in first."""

    default_code = -32000
    default_message = "Authentication required"


class ResourceNotFound(RequestError):
    """A session, file or terminal does not exist."""

    default_code = -32002
    default_message = "Resource not found"


class SessionTaken(InvalidRequest):
    """Another server has opened the session; nothing more is stored or sent here."""

    default_message = "This session was opened on another server"


class StoreUnavailable(InternalError):
    """The database of the sessions, or the file of what was spent, cannot be reached."""

    default_message = "Sessions cannot be stored at the moment"


class FileChanged(InternalError):
    """A file is no longer as the user has seen it in a proposed change; nothing was written."""


class VersionNotOffered(RequestError):
    """The client requests an older protocol version than the agent supports (v2)."""

    default_code = -32022
    default_message = "Unsupported protocol version"


class McpLimitExceeded(RequestError):
    """Too many requests to an MCP server over ACP are active (R-MOA-12)."""

    default_code = -33000
    default_message = "Too many requests to the MCP server"


class McpServerUnavailable(RequestError):
    """No MCP server with this id is provided over the connection (R-MOA-12)."""

    default_code = -33001
    default_message = "The MCP server is not available"


class McpBackendFailed(RequestError):
    """An MCP server over ACP gave no valid outcome (R-MOA-12)."""

    default_code = -33002
    default_message = "The MCP server failed"


_BY_CODE: dict[int, type[RequestError]] = {
    cls.default_code: cls
    for cls in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        RequestCancelled,
        AuthRequired,
        ResourceNotFound,
        VersionNotOffered,
        McpLimitExceeded,
        McpServerUnavailable,
        McpBackendFailed,
    )
}


class McpServerError(AccordError):
    """An MCP server refused a request or cannot be used; `code` is the server's own, if any."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class BacklogExceeded(AccordError):
    """A session's messages arrive faster than they are handled; `limit` names the `Limits` field.

    The messages up to the bound are still delivered; the ones after it are dropped.
    """

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class TransportError(AccordError):
    """The transport to the peer failed."""


class ConnectionRefused(TransportError):
    """The server refused the connection; `status` is its HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_final(self) -> bool:
        """Whether another attempt with the same token is refused, too: status 401 or 403."""
        return self.status in (401, 403)


class ConnectionClosed(TransportError):
    """This side closed the connection."""


class ConnectionLost(TransportError):
    """The peer ended the connection; for a subprocess with its exit and the end of its stderr."""

    def __init__(
        self, message: str, *, exit_status: int | None = None, stderr: str | None = None
    ) -> None:
        super().__init__(message)
        self.exit_status = exit_status
        self.stderr: str | None = stderr


class TurnInterrupted(ConnectionLost):
    """The connection was lost during a turn, and then established again.

    `in_history` is whether the agent's history contains the prompt, `agent_works` whether the
    agent still works on it; both are None if it is not known. Nothing was sent again.
    """

    def __init__(
        self, loss: str, *, in_history: bool | None = None, agent_works: bool | None = None
    ) -> None:
        history = {
            True: "the agent's history contains the prompt",
            False: "the agent's history does not contain the prompt",
            None: "it is not known whether the agent has received the prompt",
        }[in_history]
        works = {
            True: "and the agent still works",
            False: "and the agent does not work any more",
            None: "and the agent may still work on it",
        }[agent_works]
        super().__init__(
            f"{loss.rstrip('.')}; the connection was established again: {history}, {works}"
        )
        self.in_history = in_history
        self.agent_works = agent_works


class StartError(TransportError):
    """The peer could not be started; the message names the command and the reason.

    `searched` is the value of PATH if no folder in it has the command. The message ends with it;
    `shared` is the message for peers, which does not have it.
    """

    def __init__(self, message: str, *, searched: str | None = None) -> None:
        super().__init__(message if searched is None else f"{message} ({searched})")
        self.shared: str = message
        self.searched: str | None = searched
