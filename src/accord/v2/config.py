"""Config options: what the user may choose in a session (v2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from accord.v2.ids import SessionConfigGroupId, SessionConfigId, SessionConfigValueId, SessionId
from accord.wire.base import ByShape, Lenient, LenientList, Open, OpenEnum, Other, Wire
from accord.wire.method import Method

__all__ = (
    "ConfigOptionUpdate",
    "SessionConfigBoolean",
    "SessionConfigOption",
    "SessionConfigOptionBase",
    "SessionConfigOptionCategory",
    "SessionConfigSelect",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionConfigSelectOptions",
    "SetSessionConfigOptionBase",
    "SetSessionConfigOptionBoolean",
    "SetSessionConfigOptionId",
    "SetSessionConfigOptionOther",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
)

SessionConfigOptionCategory: TypeAlias = OpenEnum[
    Literal["mode", "model", "model_config", "thought_level"]
]


class SessionConfigSelectOption(Wire):
    """One value to choose."""

    value: SessionConfigValueId
    name: str
    description: Lenient[str | None] = None


class SessionConfigSelectGroup(Wire):
    """Values under a common heading."""

    group_id: SessionConfigGroupId
    name: str
    options: Lenient[Annotated[LenientList[SessionConfigSelectOption], Meta(min_length=1)]]


SessionConfigSelectOptions: TypeAlias = ByShape[
    Annotated[list[SessionConfigSelectOption], Meta(min_length=1)]
    | Annotated[list[SessionConfigSelectGroup], Meta(min_length=1)]
]


class SessionConfigOptionBase(Wire):
    """What every config option carries, of whatever type; `category` only helps to display it."""

    config_id: SessionConfigId
    name: str
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | None] = None


class SessionConfigSelect(SessionConfigOptionBase, tag_field="type", tag="select"):
    """One value out of several; values are unique across groups."""

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(SessionConfigOptionBase, tag_field="type", tag="boolean"):
    """On or off."""

    current_value: bool


SessionConfigOption: TypeAlias = Annotated[
    Open[SessionConfigSelect | SessionConfigBoolean], Other(SessionConfigOptionBase)
]


class SetSessionConfigOptionBase(Wire):
    """What every request to set a config option carries."""

    session_id: SessionId
    config_id: SessionConfigId


class SetSessionConfigOptionId(SetSessionConfigOptionBase, tag_field="type", tag="id"):
    """Chooses a value of a select option."""

    value: SessionConfigValueId


class SetSessionConfigOptionBoolean(SetSessionConfigOptionBase, tag_field="type", tag="boolean"):
    """Switches a boolean option."""

    value: bool


class SetSessionConfigOptionOther(SetSessionConfigOptionBase):
    """The other required fields of a value of an unknown type."""

    value: Any


SetSessionConfigOptionRequest: TypeAlias = Annotated[
    Open[SetSessionConfigOptionId | SetSessionConfigOptionBoolean],
    Other(SetSessionConfigOptionOther),
]


class SetSessionConfigOptionResponse(Wire):
    """All options, with the change applied."""

    config_options: LenientList[SessionConfigOption]


class ConfigOptionUpdate(Wire, tag_field="sessionUpdate", tag="config_option_update"):
    """All config options as they are now."""

    config_options: LenientList[SessionConfigOption]


METHODS: tuple[Method, ...] = (
    Method(
        name="session/set_config_option",
        call="set_session_config_option",
        params=SetSessionConfigOptionRequest,
        result=SetSessionConfigOptionResponse,
        to="agent",
        gate="agent.session",
    ),
)
