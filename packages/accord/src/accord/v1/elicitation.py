"""Elicitation: the agent asks the user for input, with a form or a URL (v1)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from accord.v1.ids import ElicitationId, RequestId, SessionId, ToolCallId, Uri
from accord.wire.base import (
    UNSET,
    ByShape,
    Int64,
    Lenient,
    LenientList,
    Open,
    Other,
    UInt32,
    UInt64,
    UnsetType,
    Wire,
    always,
    field,
)
from accord.wire.method import Method

__all__ = (
    "BooleanPropertySchema",
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
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "TitledMultiSelectItems",
)

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


METHODS: tuple[Method, ...] = (
    Method(
        name="elicitation/create",
        call="create_elicitation",
        params=CreateElicitationRequest,
        result=CreateElicitationResponse,
        to="client",
        gate="client.elicitation",
    ),
    Method(
        name="elicitation/complete",
        call="complete_elicitation",
        params=CompleteElicitationNotification,
        to="client",
        gate="client.elicitation.url",
    ),
)
