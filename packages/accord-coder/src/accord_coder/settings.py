"""How the coder was started."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Settings(Struct, frozen=True, kw_only=True):
    """The settings from the command line and the environment.

    `model` is `provider:name`, `local` or `demo`; None is the first provider with a key. `data` is
    the directory of the sessions, `config` that of the configuration and the keys; or None.
    `bypass` offers the mode that never asks, `fetch` lets the agent reach the network,
    `fetch_private` also this machine and networks that are not public.
    """

    model: str | None = None
    base_url: str | None = None
    mode: str = "default"
    bypass: bool = False
    fetch: bool = False
    fetch_private: bool = False
    data: Path | None = None
    config: Path | None = None
    max_requests: int = 100
