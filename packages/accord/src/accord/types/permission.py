"""Permission options."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.types.validation import ValidatedStruct

PermissionKind: TypeAlias = (
    Literal["allow_once", "allow_always", "reject_once", "reject_always"] | str
)


class PermissionOption(ValidatedStruct, frozen=True):
    """An option of a permission request (`v1.PermissionOption`, `v2.PermissionOption`)."""

    id: str
    name: str
    kind: PermissionKind

    @property
    def allows(self) -> bool:
        """Whether the option allows the action."""
        return self.kind in ("allow_once", "allow_always")

    @property
    def is_remembered(self) -> bool:
        """Whether the decision also applies to later requests."""
        return self.kind in ("allow_always", "reject_always")
