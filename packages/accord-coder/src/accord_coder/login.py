"""`accord agent --login`: saves the API key of a provider."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from getpass import getpass
from pathlib import Path

from accord import AccordError
from accord_coder.models.api_keys import ApiKeys
from accord_coder.models.providers import PROVIDERS


def prompt_for_key(
    provider: str,
    config: Path,
    *,
    ask: Callable[[str], str] = getpass,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Prompt for the API key of a provider in the terminal and save it; return the exit status."""
    source = next((source for source in PROVIDERS if source.id == provider), None)
    if source is None:
        known = ", ".join(source.id for source in PROVIDERS)
        return _print_error(f"unknown provider {provider!r}: expected one of {known}")
    try:
        key = ask(f"Key of {source.name} (it is not shown): ").strip()
    except (EOFError, KeyboardInterrupt):
        key = ""
    if not key or not key.isprintable() or " " in key:
        return _print_error("the input is not a key; nothing was saved")
    try:
        place = ApiKeys(config, environ).save(source, key)
    except (OSError, AccordError) as exc:
        return _print_error(f"cannot save the key: {exc}")
    where = "your keyring" if place == "keyring" else f"{config / 'keys.json'}"
    sys.stderr.write(f"The key of {source.name} is saved in {where}.\n")
    return 0


def _print_error(why: str) -> int:
    sys.stderr.write(f"accord agent: {why}\n")
    return 1
