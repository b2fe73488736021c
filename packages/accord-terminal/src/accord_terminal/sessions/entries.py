"""The entries of a journal: everything that happened in a session, in order."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from accord_terminal.sessions.records import Approvals, Restored

# Who has answered, if no client has.
BY_RULE = "a rule of the session"
NOT_ASKED = "no client that could ask a user"
TURN_ENDED = "the end of the turn"


class _Entry(Struct, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What all entries have: the sequence number, the time, the prompt whose turn it belongs to."""

    seq: int = 0
    at: str = ""
    prompt: str | None = None


class Updated(_Entry, tag="update"):
    """An update of the agent, as it was received; `session` is that of a subagent."""

    update: Raw
    session: str | None = None
    meta: Raw | UnsetType = UNSET


class Queued(_Entry, tag="queued"):
    """A prompt was submitted. `content` is in the form of the agent's protocol version.

    `detached` if no client waits for it, so that it runs also after the death of the owner.
    """

    content: Raw
    text: str  # its beginning, for lists
    by: str
    detached: bool = False
    approvals: Approvals = Approvals()


class Started(_Entry, tag="started"):
    """The turn of a prompt has begun."""

    by: str
    content: Raw


class Ended(_Entry, tag="ended"):
    """The turn of a prompt has ended; `error` if it failed, with the code of JSON-RPC.

    `stderr` has the last lines that the agent wrote in a failed turn.
    """

    stop_reason: str
    error: str | None = None
    code: int | None = None
    stderr: tuple[str, ...] = ()
    tokens: int | None = None


class Asked(_Entry, tag="asked"):
    """The agent asks for a permission, or for input."""

    request: str
    what: str  # permission, form, url
    title: str


class Answered(_Entry, tag="answered"):
    """A request of the agent has its answer; `by` is who answered first."""

    request: str
    by: str
    answer: str


class OptionsSet(_Entry, tag="options"):
    """A client has changed an option; `value` is the new one."""

    option: str
    value: str | bool
    by: str


class OwnerStarted(_Entry, tag="owner_started"):
    """A process has begun to hold the agent."""

    pid: int
    restored: Restored
    protocol: int
    agent: str
    details: dict[str, Any] = {}


class OwnerEnded(_Entry, tag="owner_ended"):
    """The process has let the agent go."""

    reason: str


Entry: TypeAlias = (
    Updated | Queued | Started | Ended | Asked | Answered | OptionsSet | OwnerStarted | OwnerEnded
)
