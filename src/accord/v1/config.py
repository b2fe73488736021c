"""Config options: what the user can choose in a session (v1)."""

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
    """What options of every type have."""

    id: SessionConfigId
    name: str
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | None] = None  # for its place on the screen


class SessionConfigSelectOption(Wire):
    """One value to choose."""

    value: SessionConfigValueId
    name: str
    description: Lenient[str | None] = None


class SessionConfigSelectGroup(Wire):
    """Values shown together under a name."""

    group: SessionConfigGroupId
    name: str
    options: Lenient[LenientList[SessionConfigSelectOption]]


SessionConfigSelectOptions: TypeAlias = ByShape[
    list[SessionConfigSelectOption] | list[SessionConfigSelectGroup]
]


class SessionConfigSelect(SessionConfigOptionBase, tag_field="type", tag="select"):
    """An option with one of several values."""

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(SessionConfigOptionBase, tag_field="type", tag="boolean"):
    """An option that is on or off."""

    current_value: bool


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean


class SetSessionConfigOptionBase(Wire):
    """Which option of which session to set."""

    session_id: SessionId
    config_id: SessionConfigId


class SetSessionConfigOptionBoolean(SetSessionConfigOptionBase, tag_field="type", tag="boolean"):
    """Switch an option on or off; a value of another type is an error (A-56)."""

    value: bool


class SetSessionConfigOptionId(SetSessionConfigOptionBase):
    """Choose one of the values of an option."""

    value: SessionConfigValueId


SetSessionConfigOptionRequest: TypeAlias = ByShape[
    SetSessionConfigOptionBoolean | SetSessionConfigOptionId
]


class SetSessionConfigOptionResponse(Wire):
    """All options as they are now."""

    config_options: Lenient[LenientList[SessionConfigOption]]


class ConfigOptionUpdate(Wire, tag_field="sessionUpdate", tag="config_option_update"):
    """The options changed: here are all of them."""

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
