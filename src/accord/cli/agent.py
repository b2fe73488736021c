"""`accord agent [NAME]`: serves a bundled agent on stdin and stdout, without click or rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord_coder.settings import Settings

# An editor waits for the answer to `initialize`: what that does without is imported later.

__all__ = ("AGENTS", "FLAGS", "OPTIONS", "main")

AGENTS = ("coder", "script")
_MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
FLAGS = ("bypass-permissions", "fetch", "help")
# The options, and the values of those that have a fixed set.
OPTIONS: dict[str, tuple[str, ...]] = {
    "base-url": (),
    "bypass-permissions": (),
    "data": (),
    "fetch": (),
    "help": (),
    "login": (),
    "max-requests": (),
    "mode": _MODES,
    "model": (),
}

USAGE = "usage: accord agent [coder|script] [OPTIONS]"
HELP = f"""\
{USAGE}

Serve a bundled agent on stdin and stdout, in version 1 or 2 of the Agent Client Protocol.
Give an editor `accord agent` as the command of an agent.

Agents:
  coder     reads, writes and runs what you want, with your permission (the default)
  script    does what it is told: every prompt is a command, `help` lists them

Options of the coder:
  --model MODEL         PROVIDER:NAME; `local` for a model server on this machine;
                        or `demo`, which needs no account. Default: ACCORD_MODEL,
                        else the first provider with an API key, else `demo`
  --base-url URL        where to find the model that --model or ACCORD_MODEL names
  --mode MODE           what it may do at first without asking: default, acceptEdits, plan,
                        dontAsk or bypassPermissions
  --bypass-permissions  offer the mode bypassPermissions, which never asks
  --fetch               let it fetch web pages, with permission
  --data DIR            keep sessions here; else ACCORD_DATA, else where the system keeps such
  --max-requests N      ask the model at most so many times in a turn (default: 100)
  --login PROVIDER      ask for the key of a provider, keep it, and do nothing else
"""


class _UsageError(AccordError):
    """The command line cannot be understood."""


def main(arguments: Sequence[str]) -> int:
    """Serve the agent that the arguments name; return the exit status."""
    if any(word in ("-h", "--help") for word in arguments):
        print(HELP, end="")
        return 0
    try:
        name, options = _parse(arguments)
        if name == "script":
            return _serve_script(options)
        return _serve_coder(options)
    except ModuleNotFoundError as error:
        if error.name != "platformdirs":
            raise
        print(
            "accord agent: the coding agent needs more packages: pip install 'accord[coder]'",
            file=sys.stderr,
        )
        return 2
    except _UsageError as wrong:
        # What is wrong comes last: clients show the end of what a program says.
        print(f"{USAGE}\naccord agent: {wrong}", file=sys.stderr)
        return 2


def _parse(arguments: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return which agent, and its options with their values; a flag's is empty."""
    name: str | None = None
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            if name is not None:
                raise _UsageError(f"unexpected argument {word!r}")
            if word not in AGENTS:
                raise _UsageError(f"there is no agent {word!r}")
            name = word
            continue
        option, equals, value = word.partition("=")
        options[option.removeprefix("--")] = _option_value(option, equals, value, words)
    return name or "coder", options


def _option_value(option: str, equals: str, value: str, words: Iterator[str]) -> str:
    name = option.removeprefix("--")
    if option == f"--{name}" and name in FLAGS:
        if equals:
            raise _UsageError(f"{option} takes no value")
        return ""
    if option != f"--{name}" or name not in OPTIONS:
        raise _UsageError(f"unexpected argument {option!r}")
    if not equals:
        value = next(words, "")
    if not value:
        raise _UsageError(f"{option} needs a value")
    return value


def _serve_script(options: dict[str, str]) -> int:
    if options:
        raise _UsageError(f"the script agent has no option --{next(iter(options))}")
    from accord.script_agent.agent import ScriptAgent

    return _serve(ScriptAgent(leave=os._exit).run)


def _serve_coder(options: dict[str, str]) -> int:
    settings = _settings(options)
    if "login" in options:
        from accord_coder.auth import prompt_for_key
        from accord_coder.directories import config_dir

        return prompt_for_key(options["login"], settings.config or config_dir())
    from accord_coder.agent import Coder

    return _serve(Coder(settings).run)


def _settings(options: dict[str, str]) -> Settings:
    """Return what the options say; raise `_Wrong` for what they cannot mean."""
    from pathlib import Path

    from accord_coder.directories import config_dir, data_dir
    from accord_coder.settings import Settings

    model = options.get("model")
    if model is not None and model not in ("demo", "local") and not all(model.partition(":")):
        raise _UsageError(f"--model must be `provider:name`, `local` or `demo`, not {model!r}")
    base_url = options.get("base-url")
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise _UsageError(f"--base-url begins with http:// or https://, not {base_url!r}")
    mode = options.get("mode", "default")
    bypass = "bypass-permissions" in options
    if mode not in _MODES:
        raise _UsageError(f"there is no mode {mode!r}; there are {', '.join(_MODES)}")
    if mode == "bypassPermissions" and not bypass:
        raise _UsageError(f"the mode {mode} needs --bypass-permissions besides")
    most = options.get("max-requests", "100")
    if not (most.isascii() and most.isdigit()) or int(most) < 1:
        raise _UsageError(f"--max-requests is a number from 1 on, not {most!r}")
    data = options.get("data")
    settings = Settings(
        model=model,
        base_url=base_url,
        mode=mode,
        bypass=bypass,
        fetch="fetch" in options,
        data=data_dir() if data is None else Path(data).expanduser().absolute(),
        config=config_dir(),
        max_requests=int(most),
    )
    if base_url is not None:
        _check_base_url(settings)
    elif (model or os.environ.get("ACCORD_MODEL", "")).startswith("compatible:"):
        raise _UsageError("a model `compatible:NAME` needs --base-url URL, where its server is")
    return settings


def _check_base_url(settings: Settings) -> None:
    """Raise `_Wrong` for an address that no model is asked at: it would be passed over."""
    from accord_coder.models.selection import DEMO, named_model

    named = named_model(settings)
    if named is None:
        raise _UsageError(
            "--base-url needs the model that is there: add --model PROVIDER:NAME"
            " (`compatible:NAME` for a server of your own), or set ACCORD_MODEL"
        )
    if named == DEMO:
        raise _UsageError(
            "--base-url is for models of providers and servers; `demo` has no address"
        )


def _serve(run: Callable[[], None]) -> int:
    if sys.stdin.isatty():
        print(
            "accord agent: waiting for JSON lines from a client; end with Ctrl-D", file=sys.stderr
        )
    try:
        run()
    except KeyboardInterrupt:
        return 130
    return 0
