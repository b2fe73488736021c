"""A prompt on its way through a proxy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock, require_content, require_contents, text_of


class ProxyTurn:
    """A prompt that a proxy can change, answer, or pass on, and the turn that follows."""

    def __init__(
        self,
        session_id: str,
        cwd: str,
        content: tuple[ContentBlock, ...],
        meta: dict[str, Any] | None,
        say: Callable[[ContentBlock], Awaitable[None]],
    ) -> None:
        self.session_id = session_id
        """The session of the turn."""
        self.cwd = cwd
        """The working directory of the session; empty if the proxy has not seen its start."""
        self.content: tuple[ContentBlock, ...] = content
        """The prompt, with the changes of this proxy."""
        self.meta = meta
        """The `_meta` of the prompt."""
        self._say = say

    def __repr__(self) -> str:
        session = excerpt(self.session_id, 60)
        return f"<ProxyTurn of session {session!r}: {excerpt(self.text, 60)!r}>"

    @property
    def text(self) -> str:
        """The text of the prompt; links and resources become Markdown links."""
        return text_of(self.content)

    @property
    def command(self) -> str | None:
        """The name of the slash command that the prompt calls, without the slash, or None."""
        first = self.content[0] if self.content else None
        if not isinstance(first, str) or not first.startswith("/") or first[1:2].isspace():
            return None
        return first[1:].split(maxsplit=1)[0] if len(first) > 1 else None

    @property
    def argument(self) -> str:
        """The text after the slash command; empty if there is none."""
        name = self.command
        return "" if name is None else self.text[len(name) + 1 :].strip()

    def prepend(self, *content: ContentBlock) -> None:
        """Insert content before the prompt.

        An agent finds a slash command only at the beginning: check `command` before.
        """
        require_contents("turn.prepend(…)", content)
        self.content = (*content, *self.content)

    def append(self, *content: ContentBlock) -> None:
        """Add content after the prompt."""
        require_contents("turn.append(…)", content)
        self.content = (*self.content, *content)

    def replace(self, *content: ContentBlock) -> None:
        """Replace the whole prompt."""
        require_contents("turn.replace(…)", content)
        self.content = content

    async def say(self, content: ContentBlock) -> None:
        """Send text or other content to the client, as a message of the agent."""
        require_content("turn.say(…)", content)
        await self._say(content)
