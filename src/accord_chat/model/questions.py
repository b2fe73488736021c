"""Questions of agents that wait for the user: permissions, forms, pages, logins."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeAlias, TypeVar

from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
from accord.client.events import Decision, PermissionRequest
from accord_chat.model.permission_memory import RememberedRule, suggested_rules

__all__ = ("FormQuestion", "PageQuestion", "PermissionQuestion", "Question")

T = TypeVar("T")


class _Waiting(Generic[T]):
    """A question with the future that its answer resolves."""

    def __init__(self, agent_name: str) -> None:
        self.agent_name = agent_name
        self._answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    @property
    def is_answered(self) -> bool:
        """Whether it needs no answer any more."""
        return self._answer.done()

    def answer(self, value: T) -> None:
        """Answer it; a second answer does nothing."""
        if not self._answer.done():
            self._answer.set_result(value)

    async def wait(self) -> T:
        """Wait for the answer."""
        return await self._answer


class PermissionQuestion(_Waiting[Decision]):
    """Whether the agent may do something."""

    def __init__(self, agent_name: str, request: PermissionRequest) -> None:
        super().__init__(agent_name)
        self.request = request
        self.suggestions = tuple(suggested_rules(agent_name, request))
        self.rule: RememberedRule | None = None  # that the user wants to be remembered


class FormQuestion(_Waiting[FormValues | None]):
    """A form to fill in; None declines it."""

    def __init__(self, agent_name: str, form: ElicitationForm) -> None:
        super().__init__(agent_name)
        self.form = form


class PageQuestion(_Waiting[bool]):
    """A URL to open."""

    def __init__(self, agent_name: str, page: UrlElicitationRequest) -> None:
        super().__init__(agent_name)
        self.page = page


Question: TypeAlias = PermissionQuestion | FormQuestion | PageQuestion
