"""Makes Textual wait for what happens, draw what is looked at, and parse each stylesheet once."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any, cast

from textual import app, pilot
from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

__all__ = ("collect_rarely", "make_textual_quick", "settle")

SOON_S = 0.06  # longer than a frame, and than updates wait after a key
MAX_S = 1.0
MAX_CPU_S = 0.5  # of this process, for a program that never rests
POLL_S = 0.002
MAX_STYLES = 1024
THRESHOLDS = (100_000, 50, 100)  # of garbage collection, in which applications have much


def make_textual_quick() -> None:
    """Change the parts of Textual that only tests use, and its cache of styles."""
    app.wait_for_idle = pilot.wait_for_idle = settle  # type: ignore[attr-defined]
    Stylesheet.set_variables = _set_variables
    Screen._compositor_refresh = _draw_later


def collect_rarely() -> None:
    """Leave garbage for longer; an application is a tenth faster then."""
    gc.set_threshold(*THRESHOLDS)


async def settle(min_sleep: float = 0.0, max_sleep: float = MAX_S) -> None:
    """Return when nothing is ready in the loop, no thread works, and no timer ends soon.

    Textual compares the time of the process with the clock, in steps of 20 ms, and for up to a
    second if the program does not rest.
    """
    loop = cast("Any", asyncio.get_running_loop())
    end, cpu_end = loop.time() + MAX_S, time.process_time() + MAX_CPU_S
    while True:
        idle_rounds = 0
        while idle_rounds < 2:  # a callback may have made a descriptor readable
            await asyncio.sleep(0)
            idle_rounds = 0 if loop._ready else idle_rounds + 1
            if time.process_time() > cpu_end:
                return
        now = loop.time()
        due = [timer.when() for timer in loop._scheduled if not timer.cancelled()]
        waits = [at - now for at in due if at <= now + SOON_S]
        threads = loop._default_executor
        if threads is not None and threads._idle_semaphore._value < len(threads._threads):
            waits.append(POLL_S)
        if not waits or now >= end:
            if _draw() and now < end:
                continue
            return
        await asyncio.sleep(max(min(waits), POLL_S))


# The screens that have changed since they were drawn.
_undrawn: set[Screen[Any]] = set()
_draw_now = Screen._compositor_refresh


def _draw_later(self: Screen[Any]) -> None:
    """Draw when the program rests, as a slow terminal does; the frames between are not drawn."""
    if self is self.app.screen and self.app.is_headless and not self.app.is_inline:
        _undrawn.add(self)
        self._dirty_widgets.clear()
        self.app._update_mouse_over(self)
    else:
        _draw_now(self)


def _draw() -> bool:
    """Draw what has changed; return whether there was something."""
    screens = [screen for screen in _undrawn if screen.is_attached]
    _undrawn.clear()
    for screen in screens:
        if screen is screen.app.screen:
            _draw_now(screen)
    return bool(screens)


# What was parsed, by the variables of the theme.
_parsed: dict[frozenset[tuple[str, str]], LRUCache[Any, Any]] = {}
_original = Stylesheet.set_variables


def _set_variables(self: Stylesheet, variables: dict[str, str]) -> None:
    self._parse_cache = LRUCache(MAX_STYLES)  # the original clears it
    _original(self, variables)
    key = frozenset(variables.items())
    self._parse_cache = _parsed.setdefault(key, self._parse_cache)
