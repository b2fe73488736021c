"""Config options: the settings of a session that the user can change (v2)."""

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
    """One value of an option."""

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
    """The fields of config options of every type; `category` is only a hint for display."""

    config_id: SessionConfigId
    name: str
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | None] = None


class SessionConfigSelect(SessionConfigOptionBase, tag_field="type", tag="select"):
    """A choice of one value; values are unique across groups."""

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(SessionConfigOptionBase, tag_field="type", tag="boolean"):
    """A boolean option."""

    current_value: bool


SessionConfigOption: TypeAlias = Annotated[
    Open[SessionConfigSelect | SessionConfigBoolean], Other(SessionConfigOptionBase)
]


class SetSessionConfigOptionBase(Wire):
    """The fields of every request that sets a config option."""

    session_id: SessionId
    config_id: SessionConfigId


class SetSessionConfigOptionId(SetSessionConfigOptionBase, tag_field="type", tag="id"):
    """Sets a select option."""

    value: SessionConfigValueId


class SetSessionConfigOptionBoolean(SetSessionConfigOptionBase, tag_field="type", tag="boolean"):
    """Sets a boolean option."""

    value: bool


class SetSessionConfigOptionOther(SetSessionConfigOptionBase):
    """The other required fields of a value of an unknown type."""

    value: Any


SetSessionConfigOptionRequest: TypeAlias = Annotated[
    Open[SetSessionConfigOptionId | SetSessionConfigOptionBoolean],
    Other(SetSessionConfigOptionOther),
]


class SetSessionConfigOptionResponse(Wire):
    """All options, including the change."""

    config_options: LenientList[SessionConfigOption]


class ConfigOptionUpdate(Wire, tag_field="sessionUpdate", tag="config_option_update"):
    """All config options with their current values."""

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
