"""Authentication by the API keys of providers."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from accord import Agent
from accord.agent import AgentAuthMethod, AuthenticationMixin, TerminalAuthMethod
from accord_coder.models.providers import PROVIDERS, ModelProvider, missing_key_error
from accord_coder.settings import Settings

if TYPE_CHECKING:
    from accord import Session
    from accord_coder.models.api_keys import ApiKeys
    from accord_coder.models.base import Model


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
        raise NotImplementedError

    def needs_key(self, model: str | None) -> ModelProvider | None:
        """Return the provider whose key a model lacks; None is the default model."""
        raise NotImplementedError

    def _missing_key(self) -> ModelProvider | None:
        """Return the provider of the default model if its key is missing."""
        return None if self.model is not None else self.needs_key(None)

    def _missing_key_in(self, session: Session) -> ModelProvider | None:
        """Return the provider of the session's model if its key is missing."""
        return None if self.model is not None else self.needs_key(str(session.option("model")))

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
        await asyncio.to_thread(self.keys.delete_all)
        self._drop_models()

    def _drop_models(self) -> None:
        for session in self.sessions.values():
            session.data["state"].drop_model()


def _require_key(source: ModelProvider | None) -> None:
    if source is not None:
        raise missing_key_error(source)
