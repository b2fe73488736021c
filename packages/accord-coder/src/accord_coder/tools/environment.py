"""The environment of commands that the agent runs: without keys, pagers and git hooks."""

from __future__ import annotations

import os
from collections.abc import Mapping

from accord_coder.models.providers import KEY_VARIABLES

# A repository can contain another one whose settings name programs. With these settings, git
# ignores a bare repository that is not at GIT_DIR, and runs none of these programs.
_GIT_SETTINGS = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
}
_PAGERS = ("PAGER", "GIT_PAGER", "GH_PAGER", "MANPAGER", "SYSTEMD_PAGER")


def environment_without_keys() -> dict[str, str | None]:
    """Return the change of the environment that removes the API keys."""
    return dict.fromkeys(KEY_VARIABLES)


def command_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Return the change of the environment for commands: no keys, no pagers, no git hooks."""
    env = environment_without_keys()
    env |= dict.fromkeys(_PAGERS, "cat")
    counted = environ.get("GIT_CONFIG_COUNT", "")
    first = int(counted) if counted.isascii() and counted.isdigit() and len(counted) < 5 else 0
    for number, (name, value) in enumerate(_GIT_SETTINGS.items(), first):
        env[f"GIT_CONFIG_KEY_{number}"] = name
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    env["GIT_CONFIG_COUNT"] = str(first + len(_GIT_SETTINGS))
    return env
