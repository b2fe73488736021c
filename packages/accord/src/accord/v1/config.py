"""Config options: the settings of a session that the user can change (v1)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.v1.ids import (
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
)
from accord.wire.base import ByShape, Lenient, LenientList, OpenEnum, Wire
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
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
)

SessionConfigOptionCategory: TypeAlias = OpenEnum[
    Literal["mode", "model", "model_config", "thought_level"]
]


class SessionConfigOptionBase(Wire):
    """The fields of config options of every type."""

    id: SessionConfigId
    name: str
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | None] = None  # for its place on the screen


class SessionConfigSelectOption(Wire):
    """One value of an option."""

    value: SessionConfigValueId
    name: str
    description: Lenient[str | None] = None


class SessionConfigSelectGroup(Wire):
    """Values under a common heading."""

    group: SessionConfigGroupId
    name: str
    options: Lenient[LenientList[SessionConfigSelectOption]]


SessionConfigSelectOptions: TypeAlias = ByShape[
    list[SessionConfigSelectOption] | list[SessionConfigSelectGroup]
]


class SessionConfigSelect(SessionConfigOptionBase, tag_field="type", tag="select"):
    """An option whose value is one of several."""

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(SessionConfigOptionBase, tag_field="type", tag="boolean"):
    """An option that is on or off."""

    current_value: bool


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean


class SetSessionConfigOptionBase(Wire):
    """The session and the option to set."""

    session_id: SessionId
    config_id: SessionConfigId


class SetSessionConfigOptionBoolean(SetSessionConfigOptionBase, tag_field="type", tag="boolean"):
    """Sets a boolean option; a value of another type is an error (A-56)."""

    value: bool


class SetSessionConfigOptionId(SetSessionConfigOptionBase):
    """Sets an option to one of its values."""

    value: SessionConfigValueId


SetSessionConfigOptionRequest: TypeAlias = ByShape[
    SetSessionConfigOptionBoolean | SetSessionConfigOptionId
]


class SetSessionConfigOptionResponse(Wire):
    """All options with their current values."""

    config_options: Lenient[LenientList[SessionConfigOption]]


class ConfigOptionUpdate(Wire, tag_field="sessionUpdate", tag="config_option_update"):
    """The options changed; contains all of them."""

    config_options: Lenient[LenientList[SessionConfigOption]]


METHODS: tuple[Method, ...] = (
    Method(
        name="session/set_config_option",
        call="set_session_config_option",
        params=SetSessionConfigOptionRequest,
        result=SetSessionConfigOptionResponse,
        to="agent",  # if the setup response had `configOptions`, which is not a capability
    ),
)
