"""The prompts that wait while the agent works, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

from accord_chat.model.attachments import Attachment


class QueuedPrompt(Struct, frozen=True):
    """A prompt as the user typed it; mentions of files are resolved when it is sent."""

    number: int
    text: str
    images: tuple[Attachment, ...] = ()


class PromptQueue:
    """Prompts in the order in which they are sent; each can be taken out until then."""

    def __init__(self) -> None:
        self._prompts: deque[QueuedPrompt] = deque()
        self._last_number = 0
        self._is_held = False

    def __len__(self) -> int:
        return len(self._prompts)

    def __iter__(self) -> Iterator[QueuedPrompt]:
        return iter(tuple(self._prompts))

    def add(self, text: str, images: Iterable[Attachment] = ()) -> QueuedPrompt:
        """Add a prompt at the end."""
        self._last_number += 1
        prompt = QueuedPrompt(self._last_number, text, tuple(images))
        self._prompts.append(prompt)
        self._is_held = False
        return prompt

    def put_back(self, prompt: QueuedPrompt) -> None:
        """Put a prompt that was not sent at the beginning again."""
        self._prompts.appendleft(prompt)

    def hold(self) -> None:
        """Let the prompts wait until the user adds another one."""
        self._is_held = True

    def take_next(self) -> QueuedPrompt | None:
        """Remove and return the first prompt; None if there is none, or they are held."""
        return self._prompts.popleft() if self._prompts and not self._is_held else None

    def withdraw(self, number: int) -> QueuedPrompt | None:
        """Remove and return one prompt; None if it was already sent."""
        for prompt in self._prompts:
            if prompt.number == number:
                self._prompts.remove(prompt)
                return prompt
        return None

    def withdraw_last(self) -> QueuedPrompt | None:
        """Remove and return the prompt that was added last."""
        return self._prompts.pop() if self._prompts else None
