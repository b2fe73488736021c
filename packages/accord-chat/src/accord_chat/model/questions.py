"""Questions of agents that wait for the user: permissions, forms, pages, logins."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
from accord.client.events import Decision, PermissionRequest
from accord.types.permission import PermissionOption
from accord_chat.model.saved import RememberedRule, suggested_rules

_LETTERS = {"allow_once": "y", "allow_always": "a", "reject_once": "n", "reject_always": "d"}

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

    async def until_answered(self) -> None:
        """Wait until it needs no answer any more."""
        await asyncio.wait([self._answer])


class PermissionQuestion(_Waiting[Decision]):
    """Whether the agent may do something."""

    def __init__(self, agent_name: str, request: PermissionRequest) -> None:
        super().__init__(agent_name)
        self.request = request
        self.suggestions = tuple(suggested_rules(agent_name, request))
        self.rule: RememberedRule | None = None  # that the user wants to be remembered

    def remembering(self) -> Iterator[tuple[str, RememberedRule]]:
        """Yield the rules that can be remembered, with their keys."""
        rules = self.suggestions
        yield from zip("rf", rules, strict=False)
        if rules:
            yield "x", RememberedRule(rules[0].agent, rules[0].rule, "reject")


class FormQuestion(_Waiting[FormValues | None]):
    """A form to fill in; None declines it."""

    def __init__(self, agent_name: str, form: ElicitationForm) -> None:
        super().__init__(agent_name)
        self.form = form


class LoginQuestion(FormQuestion):
    """The form to choose an auth method, with what the choice of each does, by its id."""

    def __init__(self, agent_name: str, form: ElicitationForm, details: Mapping[str, str]) -> None:
        super().__init__(agent_name, form)
        self.details = details


class PageQuestion(_Waiting[bool]):
    """A URL to open."""

    def __init__(self, agent_name: str, page: UrlElicitationRequest) -> None:
        super().__init__(agent_name)
        self.page = page


Question: TypeAlias = PermissionQuestion | FormQuestion | PageQuestion


def option_keys(options: Iterable[PermissionOption]) -> Iterator[str]:
    """Yield a key for each option: the letter of its kind, or its number."""
    taken: set[str] = set()
    for number, option in enumerate(options, 1):
        letter = _LETTERS.get(option.kind, "")
        if letter and letter not in taken:
            taken.add(letter)
            yield letter
        elif number < 10:
            yield str(number)
        else:
            yield f"no key {number}"
