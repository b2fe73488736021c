"""`accord agent [NAME]`: serves a bundled agent on stdin and stdout, without click or rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from accord.errors import AccordError
from accord.program import write_output

if TYPE_CHECKING:
    from accord_coder.settings import Settings

# Each agent is imported when it is served, to start fast: an editor is waiting.


AGENTS = ("coder", "script")
_MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
FLAGS = ("bypass-permissions", "fetch", "help")
# The options, with their values if there is a fixed set.
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

Serve a bundled agent on stdin and stdout (Agent Client Protocol, version 1 or 2).
To use it in an editor, configure the command `accord agent`.

Agents:
  coder     Coding agent: reads and edits files, runs commands (default)
  script    Test agent: each prompt is a command; `help` lists them

Options of the coder:
  --model MODEL         PROVIDER:NAME; `local` for a model server on this machine;
                        or `demo`, which needs no account. Default: ACCORD_MODEL,
                        else the first provider with an API key, else `demo`
  --base-url URL        Base URL for the model of --model or ACCORD_MODEL
  --mode MODE           Initial permission mode: default, acceptEdits, plan,
                        dontAsk or bypassPermissions
  --bypass-permissions  Make the mode bypassPermissions available
  --fetch               Allow fetching web pages (asks for permission)
  --data DIR            Session directory. Default: ACCORD_DATA, else the
                        platform's data directory
  --max-requests N      Maximum model requests per turn (default: 100)
  --login PROVIDER      Prompt for an API key of a provider, save it, and exit
"""


class _UsageError(AccordError):
    """The command line is invalid."""


def main(arguments: Sequence[str]) -> int:
    """Serve an agent; return the exit status."""
    if any(word in ("-h", "--help") for word in arguments):
        return write_output(HELP)
    try:
        name, options = _parse(arguments)
        if name == "script":
            return _serve_script(options)
        return _serve_coder(options)
    except _UsageError as error:
        # The error comes last, because clients show the last lines of stderr.
        print(f"{USAGE}\naccord agent: {error}", file=sys.stderr)
        return 2


def _parse(arguments: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the agent's name, and its options with their values; flags have an empty value."""
    name: str | None = None
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            if name is not None:
                raise _UsageError(f"unexpected argument {word!r}")
            if word not in AGENTS:
                raise _UsageError(f"unknown agent {word!r}: expected one of {', '.join(AGENTS)}")
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
        raise _UsageError(f"{option} requires a value")
    return value


def _serve_script(options: dict[str, str]) -> int:
    if options:
        raise _UsageError(f"the script agent has no option --{next(iter(options))}")
    from accord.script_agent.agent import ScriptAgent

    return _serve(ScriptAgent(exit_process=os._exit).run)


def _serve_coder(options: dict[str, str]) -> int:
    settings = _settings(options)
    if "login" in options:
        from accord_coder.models.keys import prompt_for_key
        from accord_coder.settings import config_dir

        return prompt_for_key(options["login"], settings.config or config_dir())
    from accord_coder.agent import Coder

    return _serve(Coder(settings).run)


def _settings(options: dict[str, str]) -> Settings:
    """Return the settings for the options; raise `_UsageError` for an invalid one."""
    from pathlib import Path

    from accord_coder.settings import Settings, config_dir, data_dir

    model = options.get("model")
    if model is not None and model not in ("demo", "local") and not all(model.partition(":")):
        raise _UsageError(f"--model must be `PROVIDER:NAME`, `local` or `demo`, not {model!r}")
    base_url = options.get("base-url")
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise _UsageError(f"--base-url must begin with http:// or https://, got {base_url!r}")
    mode = options.get("mode", "default")
    bypass = "bypass-permissions" in options
    if mode not in _MODES:
        raise _UsageError(f"unknown mode {mode!r}: expected one of {', '.join(_MODES)}")
    if mode == "bypassPermissions" and not bypass:
        raise _UsageError(f"the mode {mode} also requires --bypass-permissions")
    max_requests = options.get("max-requests", "100")
    if not (max_requests.isascii() and max_requests.isdigit()) or int(max_requests) < 1:
        raise _UsageError(f"--max-requests must be a number of at least 1, got {max_requests!r}")
    data = options.get("data")
    settings = Settings(
        model=model,
        base_url=base_url,
        mode=mode,
        bypass=bypass,
        fetch="fetch" in options,
        data=data_dir() if data is None else Path(data).expanduser().absolute(),
        config=config_dir(),
        max_requests=int(max_requests),
    )
    if base_url is not None:
        _check_base_url(settings)
    elif (model or os.environ.get("ACCORD_MODEL", "")).startswith("compatible:"):
        raise _UsageError(
            "a model `compatible:NAME` requires --base-url URL, the address of its server"
        )
    return settings


def _check_base_url(settings: Settings) -> None:
    """Raise `_UsageError` if the base URL would have no effect."""
    from accord_coder.models.selection import DEMO, named_model

    named = named_model(settings)
    if named is None:
        raise _UsageError(
            "--base-url requires a model: add --model PROVIDER:NAME (`compatible:NAME` for your "
            "own server), or set ACCORD_MODEL"
        )
    if named == DEMO:
        raise _UsageError(
            "--base-url is for models of providers and servers; `demo` does not use a server"
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
