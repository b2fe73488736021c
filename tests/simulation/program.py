"""Programs that a run plays: what clients do, and what the agent does in their turns.

A program is plain data: it is generated from a seed, written as JSON, and made smaller.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from simulation.network import Network

__all__ = (
    "Act",
    "Actor",
    "Ask",
    "Background",
    "Cancel",
    "CancelTool",
    "Client",
    "Close",
    "Delete",
    "Diff",
    "Elicit",
    "Extension",
    "Fail",
    "Fork",
    "Inside",
    "Leave",
    "ListSessions",
    "Load",
    "New",
    "Notice",
    "Option",
    "Parallel",
    "Plan",
    "Program",
    "Prompt",
    "Raise",
    "Read",
    "Rename",
    "Run",
    "Say",
    "SetMode",
    "Sleep",
    "Status",
    "Step",
    "Stop",
    "Store",
    "Stream",
    "Stubborn",
    "Subagent",
    "Title",
    "Tool",
    "Wait",
    "Write",
)


# What the agent does in a turn.


class Say(Struct, tag=True, omit_defaults=True):
    """Says or thinks a message in pieces."""

    pieces: int = 1
    size: int = 0  # of each, besides its label
    thought: bool = False
    pause_s: float = 0.0


class Stream(Struct, tag=True, omit_defaults=True):
    """Streams text into the tool call."""

    pieces: int = 1
    size: int = 0
    pause_s: float = 0.0


class Diff(Struct, tag=True, omit_defaults=True):
    """Shows a change in the tool call."""

    size: int = 0


class Ask(Struct, tag=True, omit_defaults=True):
    """Asks the user for permission."""


class Read(Struct, tag=True, omit_defaults=True):
    """Reads a file of this size through the client."""

    size: int = 10


class Write(Struct, tag=True, omit_defaults=True):
    """Writes a file of this size through the client."""

    size: int = 10


class Run(Struct, tag=True, omit_defaults=True):
    """Runs a simulated command."""

    seconds: float = 0.1
    lines: int = 1
    timeout_s: float | None = None


class Sleep(Struct, tag=True, omit_defaults=True):
    """Waits for some virtual time."""

    seconds: float = 0.0


class Fail(Struct, tag=True, omit_defaults=True):
    """Ends the tool call as failed."""


class Raise(Struct, tag=True, omit_defaults=True):
    """Raises an error: one for the client, or a mistake of the agent."""

    mistake: bool = False


class Extension(Struct, tag=True, omit_defaults=True):
    """Calls an extension method of the client, or notifies it."""

    notify: bool = False
    size: int = 0


ToolAct = (
    Say | Stream | Diff | Ask | Read | Write | Run | Sleep | Fail | Raise | Extension
)  # `Say` inside of a tool call is speech beside it


class Tool(Struct, tag=True, omit_defaults=True):
    """A tool call."""

    acts: list[ToolAct] = []
    cancellable: bool = False


class Plan(Struct, tag=True, omit_defaults=True):
    """Shows a plan."""

    markdown: bool = False


class Title(Struct, tag=True, omit_defaults=True):
    """Gives the session a title."""


class Notice(Struct, tag=True, omit_defaults=True):
    """Shows a notice."""


class Option(Struct, tag=True, omit_defaults=True):
    """Changes the value of an option."""

    value: str = "code"


class Elicit(Struct, tag=True, omit_defaults=True):
    """Asks the user to fill in a form."""


class Stubborn(Struct, tag=True, omit_defaults=True):
    """Waits, and goes on for a while after a cancel."""

    seconds: float = 1.0
    pieces: int = 1


class Stop(Struct, tag=True, omit_defaults=True):
    """Ends the turn for this reason."""

    reason: str = "max_tokens"


class Background(Struct, tag=True, omit_defaults=True):
    """Begins work that goes on when the turn is over."""

    acts: list[ToolAct] = []


class Subagent(Struct, tag=True, omit_defaults=True):
    """Lets a subagent do something."""

    acts: list[Say | Tool | Sleep] = []


class Parallel(Struct, tag=True, omit_defaults=True):
    """Does several things at once."""

    branches: list[list[Say | Tool | Sleep | Plan]] = []


Act = (
    Say
    | Tool
    | Plan
    | Title
    | Notice
    | Option
    | Elicit
    | Stubborn
    | Stop
    | Background
    | Subagent
    | Parallel
    | Sleep
    | Raise
    | Extension
)


# What a client does.


class New(Struct, tag=True, omit_defaults=True):
    """Opens a session; the one before stays open."""


class Close(Struct, tag=True, omit_defaults=True):
    """Closes the session."""


class Load(Struct, tag=True, omit_defaults=True):
    """Opens a stored session: its own last one, or that of another actor."""

    of: int | None = None
    replay: bool = True


class Fork(Struct, tag=True, omit_defaults=True):
    """Opens a copy of the session."""


class Delete(Struct, tag=True, omit_defaults=True):
    """Deletes the session."""


class ListSessions(Struct, tag=True, omit_defaults=True):
    """Lists the sessions."""


class Status(Struct, tag=True, omit_defaults=True):
    """Asks whether the session is open."""


class Rename(Struct, tag=True, omit_defaults=True):
    """Gives the session a title."""


class SetMode(Struct, tag=True, omit_defaults=True):
    """Sets the mode."""

    value: str = "code"


class Cancel(Struct, tag=True, omit_defaults=True):
    """Cancels what runs in the session, or in that of another actor."""

    of: int | None = None


class CancelTool(Struct, tag=True, omit_defaults=True):
    """Cancels the first tool call that can be cancelled."""

    of: int | None = None


class Wait(Struct, tag=True, omit_defaults=True):
    """Waits for some virtual time."""

    seconds: float = 0.0


class Leave(Struct, tag=True, omit_defaults=True):
    """Leaves the connection, whatever runs."""


class Inside(Struct, omit_defaults=True):
    """A step inside the loop over events: when so many have come."""

    at: int
    step: (
        New
        | Close
        | Load
        | Fork
        | ListSessions
        | Status
        | Rename
        | SetMode
        | Cancel
        | CancelTool
        | Wait
        | Extension
        | Prompt
    )


class Prompt(Struct, tag=True, omit_defaults=True):
    """Prompts the session and takes its events, or does not."""

    acts: list[Act] = []
    size: int = 0  # of the prompt, besides its number
    take: Literal["events", "wait", "nothing"] = "events"
    pace_s: float = 0.0  # after each event
    paced: int = 10  # events
    inside: list[Inside] = []
    cancel_at: int | None = None  # an event
    cancel_after_s: float | None = None
    leave_at: int | None = None  # an event: by an exception
    drop_after_s: float | None = None  # cancels the task of the client


Step = (
    New
    | Close
    | Load
    | Fork
    | Delete
    | ListSessions
    | Status
    | Rename
    | SetMode
    | Cancel
    | CancelTool
    | Wait
    | Leave
    | Extension
    | Prompt
)


class Actor(Struct, omit_defaults=True):
    """Does one step after the other, beside other actors."""

    steps: list[Step] = []


class Client(Struct, omit_defaults=True):
    """A connection and all that is done over it."""

    versions: tuple[Literal[1, 2], ...] = (1, 2)
    files: bool = False
    terminals: bool = False
    forms: bool = False
    unstable: bool = False
    network: Network = field(default_factory=Network)
    starts_after_s: float = 0.0
    waiting: int = 1024  # `Limits`
    waiting_bytes: int = 8 * 1024 * 1024
    max_waiting: int = 65_536
    slow_user_s: float = 0.0  # before a permission request is answered
    asks_back: bool = False  # calls the agent before it answers
    actors: list[Actor] = []


class Store(Struct, omit_defaults=True):
    """Where the agent keeps sessions."""

    fails_one_in: int = 0  # calls
    delay_s: float = 0.0


class Program(Struct, omit_defaults=True):
    """One run: the seed decides about everything that the rest does not say."""

    seed: int
    clients: list[Client] = []
    store: Store | None = None
    unstable: bool = False
    waiting: int = 1024  # `Limits` of the agent
