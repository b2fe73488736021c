"""The mode and the options that a task asks for."""

from __future__ import annotations

from collections.abc import Iterable

from accord import ClientSession
from accord.text.excerpt import one_line
from accord.types.session import SelectOption
from accord_fleet.errors import AttemptFailed
from accord_fleet.types.task import Task

_SHOWN = 20


async def apply_settings(session: ClientSession, task: Task) -> None:
    """Set the mode and the options of a session.

    Raise `AttemptFailed` with what the agent offers, if it does not offer one of them.
    """
    if task.mode is not None:
        option = session.transcript.mode_option
        if option is None:
            raise AttemptFailed("session", f"The task has the mode {task.mode!r}: {_NO_MODES}")
        _check_choice("mode", option, task.mode)
        await session.set_mode(task.mode)
    for name, value in task.options.items():
        found = {option.id: option for option in session.transcript.options}
        if name not in found:
            offered = _names(found) or "none"
            message = f"Expected an option that the agent offers ({offered}), got {name!r}"
            raise AttemptFailed("session", message)
        option = found[name]
        if isinstance(option, SelectOption):
            _check_choice(f"option {name}", option, value)
        elif not isinstance(value, bool):
            message = f"Expected true or false for the option {name}, got {value!r}"
            raise AttemptFailed("session", message)
        await session.set_option(name, value)


_NO_MODES = "expected an agent with modes, this one has none"


def _check_choice(what: str, option: SelectOption, value: str | bool) -> None:
    offered = [choice.value for choice in option.choices]
    # An agent may take more than it lists, if it lists nothing.
    if offered and value not in offered:
        message = f"Expected a value of the {what} that the agent offers ({_names(offered)})"
        raise AttemptFailed("session", f"{message}, got {value!r}")


def _names(names: Iterable[str]) -> str:
    shown = [one_line(name, 40) for name in names]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
