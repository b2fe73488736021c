"""Authentication by API keys of providers: from the environment, or saved in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from accord import AccordError, Agent
from accord.agent import AgentAuthMethod, AuthenticationMixin, TerminalAuthMethod
from accord_coder.models.providers import PROVIDERS, ModelProvider
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord import Session
    from accord_coder.models.api_keys import ApiKeys
    from accord_coder.models.base import Model

__all__ = ("ApiKeyAuth", "prompt_for_key")

_ENVIRONMENT = AgentAuthMethod(
    "environment",
    "Keys in the environment",
    "Reads the API keys again: "
    + ", ".join(source.variables[0] for source in PROVIDERS if source.models),
)


def _terminal_method(source: ModelProvider) -> TerminalAuthMethod:
    return TerminalAuthMethod(
        f"key-{source.id}",
        f"Key of {source.name}",
        args=("--login", source.id),
        description=f"Prompts for the API key and saves it; or set {source.variables[0]}",
    )


class ApiKeyAuth(AuthenticationMixin, Agent):
    """The authentication of the coder: a model of a provider requires the provider's API key."""

    settings: Settings
    model: Model | None = None  # in place of the one that the settings name
    auth_methods = (
        _ENVIRONMENT,
        *(_terminal_method(source) for source in PROVIDERS if source.models),
    )

    @cached_property
    def keys(self) -> ApiKeys:
        """The available API keys."""
        from accord_coder.models.api_keys import ApiKeys

        return ApiKeys(self.settings.config)

    def _missing_key(self) -> ModelProvider | None:
        """Return the provider of the default model if its key is missing."""
        if self.model is not None:
            return None
        from accord_coder.models.selection import default_model, needs_key

        return needs_key(default_model(self.settings, self.keys), self.settings, self.keys)

    def _missing_key_in(self, session: Session) -> ModelProvider | None:
        """Return the provider of the session's model if its key is missing."""
        if self.model is not None:
            return None
        from accord_coder.models.selection import needs_key

        return needs_key(str(session.option("model")), self.settings, self.keys)

    def is_logged_in(self) -> bool:
        """Return whether the default model and the models of the open sessions have their keys."""
        sessions = self.sessions.values()
        return self._missing_key() is None and not any(map(self._missing_key_in, sessions))

    def check_auth(self) -> None:
        """Raise `AuthRequired` if the key of the default model is missing."""
        _require_key(self._missing_key())

    def check_prompt_auth(self, session: Session) -> None:
        """Raise `AuthRequired` if the key of the session's model is missing."""
        _require_key(self._missing_key_in(session))

    async def login(self, login_id: str) -> None:
        """Read the keys again; raise `AuthRequired` if a session or the default model lacks one."""
        self.keys.reload()
        self._drop_models()
        for session in self.sessions.values():
            self.check_prompt_auth(session)
        self.check_auth()

    async def logout(self) -> None:
        """Delete the saved keys. Keys in the environment stay."""
        import asyncio

        await asyncio.to_thread(self.keys.delete_all)
        self._drop_models()

    def _drop_models(self) -> None:
        for session in self.sessions.values():
            session.data["state"].drop_model()


def _require_key(source: ModelProvider | None) -> None:
    if source is not None:
        from accord_coder.models.selection import missing_key_error

        raise missing_key_error(source)


def prompt_for_key(
    provider: str,
    config: Path,
    *,
    ask: Callable[[str], str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Prompt for the API key of a provider in the terminal and save it; return the exit status."""
    from accord_coder.models.api_keys import ApiKeys

    source = next((source for source in PROVIDERS if source.id == provider), None)
    if source is None:
        known = ", ".join(source.id for source in PROVIDERS)
        return _print_error(f"unknown provider {provider!r}: expected one of {known}")
    if ask is None:
        from getpass import getpass as ask
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
