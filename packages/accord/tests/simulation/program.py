"""Programs of runs: the steps of clients, and the acts of the agent in their turns.

A program is plain data: it is generated from a seed, encoded as JSON, and minimized.
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


# Acts of the agent in a turn.


class Say(Struct, tag=True, omit_defaults=True):
    """Sends a message or thought in chunks."""

    pieces: int = 1
    size: int = 0  # of each chunk, in addition to its label
    thought: bool = False
    pause_s: float = 0.0


class Stream(Struct, tag=True, omit_defaults=True):
    """Streams text into the tool call."""

    pieces: int = 1
    size: int = 0
    pause_s: float = 0.0


class Diff(Struct, tag=True, omit_defaults=True):
    """Shows a diff in the tool call."""

    size: int = 0


class Ask(Struct, tag=True, omit_defaults=True):
    """Requests permission."""


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
)  # `Say` inside a tool call is a message next to it


class Tool(Struct, tag=True, omit_defaults=True):
    """A tool call."""

    acts: list[ToolAct] = []
    cancellable: bool = False


class Plan(Struct, tag=True, omit_defaults=True):
    """Shows a plan."""

    markdown: bool = False


class Title(Struct, tag=True, omit_defaults=True):
    """Sets the title of the session."""


class Notice(Struct, tag=True, omit_defaults=True):
    """Shows a notice."""


class Option(Struct, tag=True, omit_defaults=True):
    """Sets the value of an option."""

    value: str = "code"


class Elicit(Struct, tag=True, omit_defaults=True):
    """Sends a form."""


class Stubborn(Struct, tag=True, omit_defaults=True):
    """Waits, and continues for a while after a cancel."""

    seconds: float = 1.0
    pieces: int = 1


class Stop(Struct, tag=True, omit_defaults=True):
    """Ends the turn with this reason."""

    reason: str = "max_tokens"


class Background(Struct, tag=True, omit_defaults=True):
    """Starts background work that continues after the turn."""

    acts: list[ToolAct] = []


class Subagent(Struct, tag=True, omit_defaults=True):
    """Runs acts in a subagent."""

    acts: list[Say | Tool | Sleep] = []


class Parallel(Struct, tag=True, omit_defaults=True):
    """Runs acts concurrently."""

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


# Steps of a client.


class New(Struct, tag=True, omit_defaults=True):
    """Opens a session; the previous one stays open."""


class Close(Struct, tag=True, omit_defaults=True):
    """Closes the session."""


class Load(Struct, tag=True, omit_defaults=True):
    """Loads a stored session: its own last one, or that of another actor."""

    of: int | None = None
    replay: bool = True


class Fork(Struct, tag=True, omit_defaults=True):
    """Forks the session."""


class Delete(Struct, tag=True, omit_defaults=True):
    """Deletes the session."""


class ListSessions(Struct, tag=True, omit_defaults=True):
    """Lists the sessions."""


class Status(Struct, tag=True, omit_defaults=True):
    """Requests the status of the session."""


class Rename(Struct, tag=True, omit_defaults=True):
    """Sets the title of the session."""


class SetMode(Struct, tag=True, omit_defaults=True):
    """Sets the mode."""

    value: str = "code"


class Cancel(Struct, tag=True, omit_defaults=True):
    """Cancels the turn of its session, or of another actor's."""

    of: int | None = None


class CancelTool(Struct, tag=True, omit_defaults=True):
    """Cancels the first tool call that can be cancelled."""

    of: int | None = None


class Wait(Struct, tag=True, omit_defaults=True):
    """Waits for some virtual time."""

    seconds: float = 0.0


class Leave(Struct, tag=True, omit_defaults=True):
    """Closes the connection, whatever runs."""


class Inside(Struct, omit_defaults=True):
    """A step inside the loop over events, after a number of them."""

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
    """Prompts the session, and reads its events or does not."""

    acts: list[Act] = []
    size: int = 0  # of the prompt, in addition to its number
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
    """Runs steps one after the other, concurrently with other actors."""

    steps: list[Step] = []


class Client(Struct, omit_defaults=True):
    """A connection and its actors."""

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
    slow_user_s: float = 0.0  # before a response to a permission request
    asks_back: bool = False  # calls the agent before it responds
    actors: list[Actor] = []


class Store(Struct, omit_defaults=True):
    """The store of the agent."""

    fails_one_in: int = 0  # calls
    delay_s: float = 0.0


class Program(Struct, omit_defaults=True):
    """One run: the seed decides everything else."""

    seed: int
    clients: list[Client] = []
    store: Store | None = None
    unstable: bool = False
    waiting: int = 1024  # `Limits` of the agent
