"""What every tool is: a name, a form that models fill in, what it touches, and what it does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from accord import ToolCallLocation
from accord_coder.models.base import ToolSpec
from accord_coder.tools.result import Access, Outcome, ToolFailed

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.tools.context import ToolContext

__all__ = ("Tool",)

F = TypeVar("F", bound=Struct)


class Tool(ABC, Generic[F]):
    """One thing that models can do. `takes` is the form, whose `Meta` describes its fields."""

    name: str
    kind: str  # of the protocol's kinds of tools
    description: str
    arguments_type: type[F]
    parallel: bool = False  # may run beside others
    cancellable: bool = False  # the user may stop it alone, where the client can say so

    @property
    def spec(self) -> ToolSpec:
        """How models are told of it."""
        schema = msgspec.json.schema(self.arguments_type, ref_template="#/$defs/{name}")
        definitions = schema.pop("$defs", {})
        body: dict[str, Any] = definitions.pop(self.arguments_type.__name__)
        body.pop("title", None)
        if definitions:
            body["$defs"] = definitions
        return ToolSpec(self.name, self.description, body)

    def parse(self, arguments: str) -> F:
        """Return the form filled in; raise `ToolFailed` naming what is wrong and where."""
        try:
            return msgspec.json.decode(arguments or "{}", type=self.arguments_type, strict=False)
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise ToolFailed(f"The arguments of {self.name} are not valid: {exc}") from exc

    @abstractmethod
    def title(self, args: F, context: ToolContext) -> str:
        """Return what the user sees of it, in a line."""

    def locations(self, args: F, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the places that it works at, for editors that follow along."""
        return ()

    @abstractmethod
    def access(self, args: F, context: ToolContext) -> Access:
        """Return what it touches; permission is decided by that, before `run`."""

    async def preview(self, args: F, call: ToolCallHandle, context: ToolContext) -> None:
        """Show what will happen, a diff say, before permission is asked; touches nothing."""

    @abstractmethod
    async def run(self, args: F, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Do it; raise `ToolFailed`."""
