"""The environment of commands that the agent runs: no keys, and nothing that runs by itself."""

from __future__ import annotations

import os
from collections.abc import Mapping

from accord_coder.models.providers import KEY_VARIABLES

__all__ = ("command_environment", "environment_without_keys")

# A repository may hold another one, with settings that name programs: git takes no settings from
# one that is bare and does not lie at GIT_DIR, and runs none of these programs.
_GIT_SETTINGS = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
}
_PAGERS = ("PAGER", "GIT_PAGER", "GH_PAGER", "MANPAGER", "SYSTEMD_PAGER")


def environment_without_keys() -> dict[str, str | None]:
    """Return the change that takes out the keys of models: commands have no use for them."""
    return dict.fromkeys(KEY_VARIABLES)


def command_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Return the change for commands of a model: no keys, no pagers, no hooks of git."""
    env = environment_without_keys()
    env |= dict.fromkeys(_PAGERS, "cat")
    counted = environ.get("GIT_CONFIG_COUNT", "")
    first = int(counted) if counted.isascii() and counted.isdigit() and len(counted) < 5 else 0
    for number, (name, value) in enumerate(_GIT_SETTINGS.items(), first):
        env[f"GIT_CONFIG_KEY_{number}"] = name
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    env["GIT_CONFIG_COUNT"] = str(first + len(_GIT_SETTINGS))
    return env
