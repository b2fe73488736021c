"""What travels between a proxy and the conductor: wrapped messages."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from accord.wire.base import Wire

__all__ = ("ProxySuccessorNotification", "ProxySuccessorRequest", "ProxySuccessorResponse")


class _Wrapped(Wire):
    """A message for the next component; `meta` belongs to this hop only."""

    __unstable__: ClassVar[bool] = True

    method: str
    params: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.params, str | int | float):
            raise ValueError("`params` must be an object or an array")


class ProxySuccessorRequest(_Wrapped):
    """A request for the next component, wrapped."""


class ProxySuccessorNotification(_Wrapped):
    """A notification for the next component, wrapped."""


# The wrapped result as it came: any JSON.
ProxySuccessorResponse: TypeAlias = Any
