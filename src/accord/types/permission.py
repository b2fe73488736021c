"""Asking the user whether something may be done."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.types.validation import ValidatedStruct

__all__ = ("PermissionKind", "PermissionOption")

PermissionKind: TypeAlias = (
    Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str
)


class PermissionOption(ValidatedStruct, frozen=True):
    """One answer that the user can give."""

    id: str
    name: str
    kind: PermissionKind

    @property
    def allows(self) -> bool:
        """Whether to choose it is to allow."""
        return self.kind in ("allow_once", "allow_always")

    @property
    def is_remembered(self) -> bool:
        """Whether it holds for the same kind of thing later."""
        return self.kind in ("allow_always", "reject_always")
