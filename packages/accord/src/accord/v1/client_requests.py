"""What an agent of version 1 asks of its client: permission, forms, files and terminals."""

from __future__ import annotations

from typing import (
    Annotated,
    ClassVar,
    Literal,
    TypeAlias,
)

from accord.v1.content import (
    ElicitationId,
    PermissionOptionId,
    RequestId,
    SessionId,
    TerminalId,
    ToolCallId,
    Uri,
)
from accord.v1.updates import (
    ToolCallDetails,
)
from accord.wire.base import (
    UNSET,
    Bare,
    ByShape,
    Int64,
    Lenient,
    LenientList,
    NullAsEmpty,
    Open,
    Other,
    UInt32,
    UInt64,
    UnsetType,
    Wire,
    always,
    field,
)
from accord.wire.protocol import (
    Method,
)

__all__ = (
    "BooleanPropertySchema",
    "CancelledPermissionOutcome",
    "CompleteElicitationNotification",
    "CreateElicitationBase",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "ElicitationAcceptAction",
    "ElicitationCancelAction",
    "ElicitationContentValue",
    "ElicitationDeclineAction",
    "ElicitationFormMode",
    "ElicitationPropertySchema",
    "ElicitationSchema",
    "ElicitationSchemaType",
    "ElicitationUrlMode",
    "EnumOption",
    "EnvVariable",
    "IntegerPropertySchema",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "MultiSelectItems",
    "MultiSelectPropertySchema",
    "NumberPropertySchema",
    "PermissionOption",
    "PermissionOptionKind",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "SelectedPermissionOutcome",
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "TerminalExitStatus",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "TitledMultiSelectItems",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
)


# Permission requests: the agent asks the user about a tool call.

PermissionOptionKind: TypeAlias = Literal[
    "allow_once", "allow_always", "reject_once", "reject_always"
]


class PermissionOption(Wire):
    """An option that the user can select; `kind` is a hint for its appearance."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(Wire):
    """Asks the user about a tool call, which may be new to the client."""

    session_id: SessionId
    tool_call: ToolCallDetails
    options: list[PermissionOption]


class CancelledPermissionOutcome(Bare, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before the user answered."""


class SelectedPermissionOutcome(Wire, tag_field="outcome", tag="selected"):
    """The user selected an option."""

    option_id: PermissionOptionId


RequestPermissionOutcome: TypeAlias = CancelledPermissionOutcome | SelectedPermissionOutcome


class RequestPermissionResponse(Wire):
    """The outcome of a permission request."""

    outcome: RequestPermissionOutcome


# Elicitation: the agent asks the user for input, with a form or a URL.

ElicitationSchemaType: TypeAlias = Literal["object"]
StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"]


class EnumOption(Wire):
    """A choice with its title."""

    const: str
    title: str
    description: Lenient[str | None] = None


class StringPropertySchema(Wire, tag_field="type", tag="string"):
    """A text field; with `enum` or `one_of`, a choice."""

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    min_length: UInt32 | None = None
    max_length: UInt32 | None = None
    pattern: str | None = None
    format: StringFormat | None = None
    default: Lenient[str | None] = None
    enum: list[str] | None = None
    one_of: list[EnumOption] | None = None


class NumberPropertySchema(Wire, tag_field="type", tag="number"):
    """A number field."""

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    minimum: float | None = None
    maximum: float | None = None
    default: Lenient[float | None] = None


class IntegerPropertySchema(Wire, tag_field="type", tag="integer"):
    """An integer field."""

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    minimum: Int64 | None = None
    maximum: Int64 | None = None
    default: Lenient[Int64 | None] = None


class BooleanPropertySchema(Wire, tag_field="type", tag="boolean"):
    """A checkbox."""

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    default: Lenient[bool | None] = None


class StringMultiSelectItems(Wire, tag_field="type", tag="string"):
    """The choices."""

    enum: list[str]


class TitledMultiSelectItems(Wire):
    """The choices, each with its title."""

    any_of: list[EnumOption]


MultiSelectItems: TypeAlias = Open[ByShape[StringMultiSelectItems | TitledMultiSelectItems]]


class MultiSelectPropertySchema(Wire, tag_field="type", tag="array"):
    """A field for several choices."""

    items: MultiSelectItems
    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    min_items: UInt64 | None = None
    max_items: UInt64 | None = None
    default: Lenient[LenientList[str] | None] = None


ElicitationPropertySchema: TypeAlias = Open[
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
]


def _no_properties() -> dict[str, ElicitationPropertySchema]:
    return {}


class ElicitationSchema(Wire):
    """A flat form with one property for each field."""

    type: Lenient[ElicitationSchemaType] = always("object")
    title: Lenient[str | None] = None
    properties: dict[str, ElicitationPropertySchema] = field(default_factory=_no_properties)
    required: list[str] | None = None
    description: Lenient[str | None] = None


class CreateElicitationBase(Wire):
    """The fields of every mode: a text for the user, and the session or request it belongs to.

    An id that does not decode is ignored if the other one is present; the session's id wins.
    """

    __any_of__: ClassVar[frozenset[str]] = frozenset({"sessionId", "requestId"})

    message: str
    session_id: Lenient[SessionId | UnsetType] = UNSET
    tool_call_id: Lenient[ToolCallId | None] = None  # with a session only
    request_id: Lenient[RequestId | UnsetType] = UNSET  # null is an id

    def __post_init__(self) -> None:
        if self.session_id is UNSET and self.request_id is UNSET:
            raise ValueError("Expected `sessionId` or `requestId`")


class ElicitationFormMode(CreateElicitationBase, tag_field="mode", tag="form"):
    """Asks with a form."""

    requested_schema: ElicitationSchema


class ElicitationUrlMode(CreateElicitationBase, tag_field="mode", tag="url"):
    """Asks with a URL; `elicitation/complete` reports when the user is done there."""

    elicitation_id: ElicitationId
    url: Uri


CreateElicitationRequest: TypeAlias = Annotated[
    Open[ElicitationFormMode | ElicitationUrlMode], Other(CreateElicitationBase)
]

# A whole number is an `int` of any size: beyond int64 the schema takes it for a float.
ElicitationContentValue: TypeAlias = str | int | float | bool | list[str]


class ElicitationAcceptAction(Wire, tag_field="action", tag="accept"):
    """The user accepted; `content` has the values of the form."""

    content: dict[str, ElicitationContentValue] | None = None


class ElicitationDeclineAction(Wire, tag_field="action", tag="decline"):
    """The user declined."""


class ElicitationCancelAction(Wire, tag_field="action", tag="cancel"):
    """The user cancelled."""


CreateElicitationResponse: TypeAlias = Open[
    ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction
]


class CompleteElicitationNotification(Wire):
    """The user is done at the URL."""

    elicitation_id: ElicitationId


# Files of the client, including unsaved changes in the editor.


class ReadTextFileRequest(Wire):
    """Reads a text file, or `limit` of its lines, starting at `line`."""

    session_id: SessionId
    path: str  # absolute
    line: UInt32 | None = None  # the first line is 1
    limit: UInt32 | None = None


class ReadTextFileResponse(Wire):
    """The requested text."""

    content: str


class WriteTextFileRequest(Wire):
    """Replaces the text of a file, or creates a file."""

    session_id: SessionId
    path: str  # absolute
    content: str


class WriteTextFileResponse(Wire):
    """The file is written."""


# Terminals that the client runs for the agent.


class EnvVariable(Wire):
    """An environment variable, added to the existing ones."""

    name: str
    value: str


class CreateTerminalRequest(Wire):
    """Starts a command without a shell, and does not wait for it."""

    session_id: SessionId
    command: str
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[list[EnvVariable]] = []
    cwd: str | None = None
    output_byte_limit: UInt64 | None = None  # of what is kept: the end


class CreateTerminalResponse(Wire):
    """The command runs, or has run; its terminal exists until it is released."""

    terminal_id: TerminalId


class TerminalOutputRequest(Wire):
    """Asks for the output of a terminal so far."""

    session_id: SessionId
    terminal_id: TerminalId


class TerminalExitStatus(Wire):
    """How a command ended: with an exit code or by a signal."""

    exit_code: Lenient[UInt32 | None] = None
    signal: Lenient[str | None] = None


class TerminalOutputResponse(Wire):
    """The output of a terminal, without its beginning if `truncated`."""

    output: str
    truncated: bool
    exit_status: Lenient[TerminalExitStatus | None] = None  # None: it still runs


class WaitForTerminalExitRequest(Wire):
    """Asks for a response when a command ends."""

    session_id: SessionId
    terminal_id: TerminalId


class WaitForTerminalExitResponse(Wire):
    """A command ended: with an exit code or by a signal."""

    exit_code: Lenient[UInt32 | None] = None
    signal: Lenient[str | None] = None


class KillTerminalRequest(Wire):
    """Ends a command; its terminal can still be read."""

    session_id: SessionId
    terminal_id: TerminalId


class KillTerminalResponse(Wire):
    """The command has ended."""


class ReleaseTerminalRequest(Wire):
    """Ends a command if it still runs, and releases its terminal."""

    session_id: SessionId
    terminal_id: TerminalId


class ReleaseTerminalResponse(Wire):
    """The terminal's id is now invalid."""


METHODS: tuple[Method, ...] = (
    Method(
        name="session/request_permission",
        call="request_permission",
        doc="Let the user decide on an operation.",
        caller_doc="Ask the user to decide on an operation.",
        params=RequestPermissionRequest,
        result=RequestPermissionResponse,
        to="client",
    ),
    Method(
        name="elicitation/create",
        call="create_elicitation",
        doc="Ask the user for input, by a form or a URL.",
        params=CreateElicitationRequest,
        result=CreateElicitationResponse,
        to="client",
        gate="client.elicitation",
    ),
    Method(
        name="elicitation/complete",
        call="complete_elicitation",
        doc="Handle the end of an elicitation by URL.",
        caller_doc="Report the end of an elicitation by URL.",
        params=CompleteElicitationNotification,
        to="client",
        gate="client.elicitation.url",
    ),
    Method(
        name="fs/read_text_file",
        call="read_text_file",
        doc="Read a file, unsaved changes included.",
        caller_doc="Read a file of the client, unsaved changes included.",
        params=ReadTextFileRequest,
        result=ReadTextFileResponse,
        to="client",
        gate="client.fs.read_text_file",
    ),
    Method(
        name="fs/write_text_file",
        call="write_text_file",
        doc="Write a file; it is created when missing.",
        params=WriteTextFileRequest,
        result=WriteTextFileResponse,
        to="client",
        gate="client.fs.write_text_file",
    ),
    Method(
        name="terminal/create",
        call="create_terminal",
        doc="Start a command; return the id of its terminal immediately.",
        caller_doc="Start a command in the client; return the id of its terminal immediately.",
        params=CreateTerminalRequest,
        result=CreateTerminalResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/output",
        call="terminal_output",
        doc="Return what a terminal has printed so far.",
        caller_doc="Return what a terminal of the client has printed so far.",
        params=TerminalOutputRequest,
        result=TerminalOutputResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/wait_for_exit",
        call="wait_for_terminal_exit",
        doc="Return when the command of a terminal has ended.",
        params=WaitForTerminalExitRequest,
        result=WaitForTerminalExitResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/kill",
        call="kill_terminal",
        doc="End the command of a terminal; the terminal stays.",
        params=KillTerminalRequest,
        result=KillTerminalResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/release",
        call="release_terminal",
        doc="End the command of a terminal and free it.",
        params=ReleaseTerminalRequest,
        result=ReleaseTerminalResponse,
        to="client",
        gate="client.terminal",
    ),
)
