"""The contrast of everything on a screen of Textual, as WCAG defines it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.color import Color
from textual.app import App
from textual.screen import ModalScreen
from textual.strip import Strip

__all__ = ("contrast", "low_contrasts")


def contrast(one: Color, other: Color) -> float:
    """Return the ratio of the luminances, from 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def low_contrasts(app: App[int], least: float) -> Iterator[tuple[str, float, str, str]]:
    """Yield each text on the screen with less contrast: text, ratio and both colours."""
    for strip in _top_strips(app):
        for text, style, _ in strip:
            if not text.strip() or style is None or all(letter in DECORATION for letter in text):
                continue
            front, back = style.color, style.bgcolor
            if front is None or back is None or front.is_default or back.is_default:
                yield text.strip(), 0.0, str(front), str(back)
                continue
            if style.reverse:
                front, back = back, front
            ratio = contrast(front, back)
            is_hidden = ratio < 1.2 and text in MARKS
            if ratio < least and not is_hidden:
                yield text.strip(), round(ratio, 2), _hex(front), _hex(back)


# In an empty box they have the colour of the box, in a chosen one another.
MARKS = ("X", "●")
# Borders, scroll bars and half cells: what they show is also said by text.
DECORATION = frozenset(" ─━│┃┄┈╭╮╰╯┏┓┗┛┌┐└┘▁▂▃▄▅▆▇█▉▊▋▌▍▎▏▐▀▔▕▖▗▘▝▙▚▛▜▞▟╸╺╹╻")


def _top_strips(app: App[int]) -> Iterator[Strip]:
    """Yield the lines of the screen; below a box they are dimmed, and only the box counts."""
    strips = app.screen._compositor.render_strips()
    if not isinstance(app.screen, ModalScreen):
        yield from strips
        return
    (box,) = (child for child in app.screen.children if not child.has_class("-textual-system"))
    area = box.region
    for strip in strips[area.y : area.bottom]:
        yield strip.crop(area.x, area.right)


def _luminance(color: Color) -> float:
    parts = [value / 255 for value in color.get_truecolor()]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _hex(color: Color) -> str:
    return color.get_truecolor().hex
