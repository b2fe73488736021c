"""What an agent of version 2 asks of its client: permission and forms."""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
)

from msgspec import (
    Meta,
)

from accord.v2.content import (
    AbsolutePath,
    ElicitationId,
    PermissionOptionId,
    Regex,
    RequestId,
    SessionId,
    TerminalId,
    ToolCallId,
    Uri,
)
from accord.v2.updates import (
    ToolCallDetails,
)
from accord.wire.base import (
    UNSET,
    ByShape,
    Int64,
    Lenient,
    LenientList,
    Open,
    OpenEnum,
    Other,
    UInt32,
    UInt64,
    UnsetType,
    Wire,
)
from accord.wire.protocol import (
    Method,
)

__all__ = (
    "BooleanPropertySchema",
    "CancelledPermissionOutcome",
    "CommandPermissionSubject",
    "CompleteElicitationNotification",
    "CreateElicitationBase",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
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
    "IntegerPropertySchema",
    "MultiSelectItems",
    "MultiSelectPropertySchema",
    "NumberPropertySchema",
    "PermissionOption",
    "PermissionOptionKind",
    "PropertySchemaBase",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "RequestPermissionSubject",
    "SelectedPermissionOutcome",
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "TitledMultiSelectItems",
    "ToolCallPermissionSubject",
)


# Permission requests: the agent asks the user before it acts.

PermissionOptionKind: TypeAlias = OpenEnum[
    Literal["allow_once", "allow_always", "reject_once", "reject_always"]
]


class PermissionOption(Wire):
    """An option that the user can select."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class ToolCallPermissionSubject(Wire, tag_field="type", tag="tool_call"):
    """The request is about a tool call; `tool_call` is applied like an update."""

    tool_call: ToolCallDetails


class CommandPermissionSubject(Wire, tag_field="type", tag="command"):
    """The request is about a command."""

    command: str
    cwd: AbsolutePath
    tool_call_id: Lenient[ToolCallId | None] = None
    terminal_id: Lenient[TerminalId | None] = None


RequestPermissionSubject: TypeAlias = Open[ToolCallPermissionSubject | CommandPermissionSubject]


class RequestPermissionRequest(Wire):
    """Asks the user to select one of the options."""

    session_id: SessionId
    title: str
    description: Lenient[str | None] = None
    subject: RequestPermissionSubject | None = None
    options: Annotated[list[PermissionOption], Meta(min_length=1)]


class CancelledPermissionOutcome(Wire, tag_field="outcome", tag="cancelled"):
    """The request was cancelled."""


class SelectedPermissionOutcome(Wire, tag_field="outcome", tag="selected"):
    """The user selected an option."""

    option_id: PermissionOptionId


# An outcome that is not known is never an approval.
RequestPermissionOutcome: TypeAlias = Open[CancelledPermissionOutcome | SelectedPermissionOutcome]


class RequestPermissionResponse(Wire):
    """The user's decision."""

    outcome: RequestPermissionOutcome


# Elicitation: the agent asks the user for input, with a form or a URL.

# Only a hint for the form.
StringFormat: TypeAlias = OpenEnum[Literal["email", "uri", "date", "date-time"]]


class EnumOption(Wire):
    """A choice with its label."""

    const: str
    title: str
    description: Lenient[str | None] = None


class PropertySchemaBase(Wire):
    """The labels of a form field."""

    title: Lenient[str | None] = None
    description: Lenient[str | None] = None


class StringPropertySchema(PropertySchemaBase, tag_field="type", tag="string"):
    """A text field; with `enum` or `one_of`, a choice."""

    min_length: UInt32 | None = None
    max_length: UInt32 | None = None
    pattern: Regex | None = None
    format: StringFormat | None = None
    default: Lenient[str | None] = None
    enum: Annotated[list[str], Meta(min_length=1)] | None = None
    one_of: Annotated[list[EnumOption], Meta(min_length=1)] | None = None


class NumberPropertySchema(PropertySchemaBase, tag_field="type", tag="number"):
    """A number."""

    minimum: float | None = None
    maximum: float | None = None
    default: Lenient[float | None] = None


class IntegerPropertySchema(PropertySchemaBase, tag_field="type", tag="integer"):
    """A whole number."""

    minimum: Int64 | None = None
    maximum: Int64 | None = None
    default: Lenient[Int64 | None] = None


class BooleanPropertySchema(PropertySchemaBase, tag_field="type", tag="boolean"):
    """Yes or no."""

    default: Lenient[bool | None] = None


class StringMultiSelectItems(Wire, tag_field="type", tag="string"):
    """The choices."""

    enum: Annotated[list[str], Meta(min_length=1)]


class TitledMultiSelectItems(Wire):
    """The choices, with their labels."""

    any_of: Annotated[list[EnumOption], Meta(min_length=1)]


MultiSelectItems: TypeAlias = Open[ByShape[StringMultiSelectItems | TitledMultiSelectItems]]


class MultiSelectPropertySchema(PropertySchemaBase, tag_field="type", tag="array"):
    """A field for several choices."""

    min_items: UInt64 | None = None
    max_items: UInt64 | None = None
    items: MultiSelectItems
    default: Lenient[LenientList[str] | None] = None


# A type that is not known is never shown as one that is.
ElicitationPropertySchema: TypeAlias = Open[
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
]

ElicitationSchemaType: TypeAlias = Literal["object"]


class ElicitationSchema(Wire):
    """A form: its fields by name, and the names of the required ones."""

    type: ElicitationSchemaType
    title: Lenient[str | None] = None
    properties: dict[str, ElicitationPropertySchema]
    required: list[str] | None = None
    description: Lenient[str | None] = None


class CreateElicitationBase(Wire):
    """The fields of every elicitation: a message, and a session or a pending request."""

    __one_of__: ClassVar[frozenset[str]] = frozenset({"sessionId", "requestId"})

    message: str
    session_id: SessionId | UnsetType = UNSET
    tool_call_id: Lenient[ToolCallId | None] = None
    request_id: RequestId | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.session_id is UNSET) == (self.request_id is UNSET):
            raise ValueError("Expected exactly one of `sessionId` and `requestId`")


class ElicitationFormMode(CreateElicitationBase, tag_field="mode", tag="form"):
    """Asks the user to fill in a form."""

    requested_schema: ElicitationSchema


class ElicitationUrlMode(CreateElicitationBase, tag_field="mode", tag="url"):
    """Asks the user to open a URL."""

    elicitation_id: ElicitationId
    url: Uri


# A mode that is not known is never shown as one that is.
CreateElicitationRequest: TypeAlias = Annotated[
    Open[ElicitationFormMode | ElicitationUrlMode], Other(CreateElicitationBase)
]

# A string, a number, a boolean or a list of strings; other JSON is kept.
ElicitationContentValue: TypeAlias = Any


class ElicitationAcceptAction(Wire, tag_field="action", tag="accept"):
    """The user accepted."""

    content: dict[str, ElicitationContentValue] | None = None


class ElicitationDeclineAction(Wire, tag_field="action", tag="decline"):
    """The user declined."""


class ElicitationCancelAction(Wire, tag_field="action", tag="cancel"):
    """The user cancelled."""


# An action that is not known is handled as cancel.
CreateElicitationResponse: TypeAlias = Open[
    ElicitationAcceptAction | ElicitationDeclineAction | ElicitationCancelAction
]


class CompleteElicitationNotification(Wire):
    """The interaction at the URL is complete."""

    elicitation_id: ElicitationId


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
)
