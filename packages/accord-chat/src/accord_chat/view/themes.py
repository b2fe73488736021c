"""The themes of the chat; text has a contrast of at least 4.5:1 in them, and 7:1 in the third."""

from __future__ import annotations

from msgspec import Struct
from rich.terminal_theme import TerminalTheme
from textual.theme import Theme

# Boxes to tick: an empty one shows no cross at all, and not one in another colour.
BOXES = """
ToggleButton > .toggle--button, SelectionList > .selection-list--button,
SelectionList > .selection-list--button-highlighted { color: $box; background: $box; }
ToggleButton.-on > .toggle--button, SelectionList > .selection-list--button-selected,
SelectionList > .selection-list--button-selected-highlighted {
    color: $foreground; background: $box;
}
_Panel Input, _Panel Input:focus { background: $field; }
"""


class ChatTheme(Struct, frozen=True):
    """The colours of the widgets, and those that names such as `red` mean."""

    label: str  # for people
    widgets: Theme
    names: TerminalTheme


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _names(back: str, front: str, *colors: str) -> TerminalTheme:
    """Return a palette: black, red, green, yellow, blue, magenta, cyan, white, grey.

    The bright colours are the same, except for grey, which is bright black.
    """
    *normal, grey = map(_rgb, colors)
    return TerminalTheme(_rgb(back), _rgb(front), normal, [grey, *normal[1:]])


DARK = ChatTheme(
    "dark",
    Theme(
        name="dark",
        primary="#5aacf5",
        secondary="#5aacf5",
        warning="#ffb454",
        error="#ff7a7a",
        success="#8fd16a",
        accent="#ffb454",
        foreground="#e4e4e4",
        background="#121212",
        surface="#1c1c1c",
        panel="#22262a",
        dark=True,
        variables={
            "text-muted": "#b4b4b4",
            "text-disabled": "#9c9c9c",
            "button-color-foreground": "#121212",
            "block-cursor-background": "#263c50",
            "block-cursor-foreground": "#e4e4e4",
            "block-cursor-text-style": "bold underline",  # also without colours
            "block-cursor-blurred-text-style": "bold underline",
            "block-cursor-blurred-background": "#22303c",
            "box": "#5c626a",
            "field": "#333a41",
        },
    ),
    _names(
        "#121212",
        "#e4e4e4",
        "#121212",
        "#ff7a7a",
        "#8fd16a",
        "#f0b849",
        "#7ab8ff",
        "#dba4ff",
        "#63d3e3",
        "#e4e4e4",
        "#a8a8a8",
    ),
)
LIGHT = ChatTheme(
    "light",
    Theme(
        name="light",
        primary="#0a559e",
        secondary="#0a559e",
        warning="#7d4a00",
        error="#a81e18",
        success="#1a6329",
        accent="#7d4a00",
        foreground="#161616",
        background="#f8f8f8",
        surface="#ffffff",
        panel="#e9e9ed",
        dark=False,
        variables={
            "text-muted": "#4c4c4c",
            "text-disabled": "#5e5e5e",
            "button-color-foreground": "#ffffff",
            "block-cursor-background": "#c3d8ee",
            "block-cursor-foreground": "#161616",
            "block-cursor-text-style": "bold underline",  # also without colours
            "block-cursor-blurred-text-style": "bold underline",
            "block-cursor-blurred-background": "#d9e6f4",
            "box": "#8f8f9a",
            "field": "#dfe3e9",
        },
    ),
    _names(
        "#f8f8f8",
        "#161616",
        "#161616",
        "#a81e18",
        "#1a6329",
        "#754a00",
        "#1a4fae",
        "#742a96",
        "#005a80",
        "#3c3c3c",
        "#565656",
    ),
)
HIGH_CONTRAST = ChatTheme(
    "high contrast",
    Theme(
        name="high-contrast",
        primary="#ffff00",
        secondary="#00ffff",
        warning="#ffff00",
        error="#ff9a9a",
        success="#00ff00",
        accent="#00ffff",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#181818",
        dark=True,
        variables={
            "text-muted": "#ffffff",
            "text-disabled": "#d0d0d0",
            "button-color-foreground": "#000000",
            "block-cursor-background": "#282828",
            "block-cursor-foreground": "#ffffff",
            "block-cursor-text-style": "bold underline",  # also without colours
            "block-cursor-blurred-text-style": "bold underline",
            "block-cursor-blurred-background": "#202020",
            "box": "#505050",
            "field": "#303030",
        },
    ),
    _names(
        "#000000",
        "#ffffff",
        "#000000",
        "#ff9a9a",
        "#00ff00",
        "#ffff00",
        "#9accff",
        "#ffa8ff",
        "#00ffff",
        "#ffffff",
        "#d0d0d0",
    ),
)
THEMES = {theme.widgets.name: theme for theme in (DARK, LIGHT, HIGH_CONTRAST)}
