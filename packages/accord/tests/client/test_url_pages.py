"""URL elicitations: limits on their number, time and length."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import InvalidParams
from accord.agent import toolbox
from accord.client import elicitation
from accord.client.elicitation import (
    MAX_PAGES,
    MAX_URL_CHARS,
    OpenUrlElicitations,
    UrlElicitationRequest,
)
from client.test_handlers import BOTH, Speaker, working


def _page(page_id: str, url: str = "https://example.com") -> UrlElicitationRequest:
    return UrlElicitationRequest(message="Look", url=url, id=page_id, done=asyncio.Event())


async def test_oldest_open_pages_are_dropped() -> None:
    opened = OpenUrlElicitations()
    made = [_page(f"e{number}") for number in range(10 * MAX_PAGES)]
    for page in made:
        assert opened.add(page)
        opened.answered(page, agreed=True)
    assert len(opened._open) == MAX_PAGES
    for page in made:
        opened.complete(page.id)
    assert [page.done.is_set() for page in made] == [False] * 9 * MAX_PAGES + [True] * MAX_PAGES
    assert not opened._open


async def test_url_elicitation_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = OpenUrlElicitations()
    monkeypatch.setattr(elicitation, "PAGE_LIFETIME_S", 0.0)
    old = _page("old")
    opened.add(old)
    opened.answered(old, agreed=True)
    opened.add(_page("new"))
    opened.complete("old")
    assert not old.done.is_set()


async def test_declined_page_is_dropped() -> None:
    opened = OpenUrlElicitations()
    page = _page("e1")
    opened.add(page)
    opened.answered(page, agreed=False)
    assert not opened._open


async def test_user_is_asked_about_a_few_pages_at_a_time() -> None:
    opened = OpenUrlElicitations()
    made = [_page(f"e{number}") for number in range(MAX_PAGES + 1)]
    assert [opened.add(page) for page in made] == [True] * MAX_PAGES + [False]
    opened.answered(made[0], agreed=False)
    assert opened.add(made[-1])


@BOTH
async def test_url_that_is_too_long_is_an_error(version: int, tmp_path: Path) -> None:
    async def visit(page: UrlElicitationRequest) -> bool:
        raise AssertionError(page)

    reported: list[Any] = []

    async def script(speaker: Speaker) -> None:
        request = speaker.types.ElicitationUrlMode(
            message="Log in",
            session_id="s1",
            elicitation_id="e1",
            url="https://example.com/" + "x" * MAX_URL_CHARS,
        )
        with pytest.raises(InvalidParams, match="too long") as caught:
            await speaker.client.create_elicitation(request)
        reported.append(caught.value.data)

    async with working(script, tmp_path, version, on_elicit_url=visit):
        assert reported == [{"max": MAX_URL_CHARS}]


def test_both_sides_have_the_same_limit() -> None:
    assert toolbox.MAX_URL_CHARS == MAX_URL_CHARS
