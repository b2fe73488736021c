"""How users give the keys of providers: in the environment, or in a terminal that keeps them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from accord import AccordError, Agent
from accord.agent.mixins import Authentication, Login, TerminalLogin
from accord_coder.models.providers import SOURCES, Source
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord import Session
    from accord_coder.models.api_keys import Keys
    from accord_coder.models.base import Model

__all__ = ("KeyLogins", "ask_for_key")

_ENVIRONMENT = Login(
    "environment",
    "Keys in the environment",
    "Looks again for keys that were set or kept since: "
    + ", ".join(source.variables[0] for source in SOURCES if source.models),
)


def _terminal(source: Source) -> TerminalLogin:
    return TerminalLogin(
        f"key-{source.id}",
        f"Key of {source.name}",
        args=("--login", source.id),
        description=f"Asks for the key and keeps it; or set {source.variables[0]}",
    )


class KeyLogins(Authentication, Agent):
    """What the coder is besides: whoever names a model of a provider needs its key."""

    settings: Settings
    model: Model | None = None  # in place of the one that the settings name
    logins = (_ENVIRONMENT, *(_terminal(source) for source in SOURCES if source.models))

    @cached_property
    def keys(self) -> Keys:
        """The keys that there are."""
        from accord_coder.models.api_keys import Keys

        return Keys(self.settings.config)

    def _lacking(self) -> Source | None:
        """Return the provider of the default model if its key is missing."""
        if self.model is not None:
            return None
        from accord_coder.models.selection import default_model, needs_key

        return needs_key(default_model(self.settings, self.keys), self.settings, self.keys)

    def _lacking_in(self, session: Session) -> Source | None:
        """Return the provider of the model that a session has chosen if its key is missing."""
        if self.model is not None:
            return None
        from accord_coder.models.selection import needs_key

        return needs_key(str(session.option("model")), self.settings, self.keys)

    def logged_in(self) -> bool:
        """Tell whether the default model, and those of the open sessions, can be asked."""
        sessions = self.open_sessions.values()
        return self._lacking() is None and not any(map(self._lacking_in, sessions))

    def authorize(self) -> None:
        """Raise `AuthRequired` that says what to set for the default model."""
        _refuse_without(self._lacking())

    def authorize_prompt(self, session: Session) -> None:
        """Raise `AuthRequired` that says what to set for the model of a session."""
        _refuse_without(self._lacking_in(session))

    async def login(self, login_id: str) -> None:
        """Look for keys again; raise `AuthRequired` while one is missing that somebody uses."""
        self.keys.look_again()
        self._let_models_go()
        for session in self.open_sessions.values():
            self.authorize_prompt(session)
        self.authorize()

    async def logout(self) -> None:
        """Delete the keys that were kept; those of the environment stay."""
        import asyncio

        await asyncio.to_thread(self.keys.forget)
        self._let_models_go()

    def _let_models_go(self) -> None:
        for session in self.open_sessions.values():
            session.data["work"].let_model_go()


def _refuse_without(source: Source | None) -> None:
    if source is not None:
        from accord_coder.models.selection import missing

        raise missing(source)


def ask_for_key(
    provider: str,
    config: Path,
    *,
    ask: Callable[[str], str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Ask for the key of a provider in the terminal and keep it; return the exit status."""
    from accord_coder.models.api_keys import Keys

    source = next((source for source in SOURCES if source.id == provider), None)
    if source is None:
        known = ", ".join(source.id for source in SOURCES)
        return _refuse(f"there is no provider {provider}; there are {known}")
    if ask is None:
        from getpass import getpass as ask
    try:
        key = ask(f"Key of {source.name} (it is not shown): ").strip()
    except (EOFError, KeyboardInterrupt):
        key = ""
    if not key or not key.isprintable() or " " in key:
        return _refuse("that is no key; nothing was kept")
    try:
        place = Keys(config, environ).keep(source, key)
    except (OSError, AccordError) as exc:
        return _refuse(f"the key cannot be kept: {exc}")
    where = "your keyring" if place == "keyring" else f"{config / 'keys.json'}"
    sys.stderr.write(f"The key of {source.name} is in {where} now.\n")
    return 0


def _refuse(why: str) -> int:
    sys.stderr.write(f"accord agent: {why}\n")
    return 1
