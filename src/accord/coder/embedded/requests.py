"""Which plain requests are understood."""

from __future__ import annotations

from accord.coder.embedded.recipe import Recipe, Say, Use

__all__ = ("recipe_for",)


def recipe_for(prompt: str) -> Recipe:
    """Return how to do what a prompt says."""
    word, _, rest = prompt.strip().partition(" ")
    if word.lower() == "read":
        return _read(rest)
    return _unknown()


def _read(path: str) -> Recipe:
    result = yield Use("read", {"path": path})
    assert result is not None
    if result.failed:
        yield Say(f"I cannot read {path}: {result.text}")
    else:
        yield Say(f"{path} has {len(result.text.splitlines())} lines.")


def _unknown() -> Recipe:
    yield Say("I am not a language model.")
