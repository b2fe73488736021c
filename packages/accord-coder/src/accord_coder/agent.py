"""The coding agent: its capabilities, sessions, options and authentication.

An editor waits for `initialize`, so what only the other methods need is imported in them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from accord import (
    Agent,
    AuthRequired,
    Implementation,
    InvalidParams,
    RequestError,
    SessionStore,
    __version__,
)
from accord.agent import AgentAuthMethod, AuthenticationMixin, TerminalAuthMethod
from accord_coder.models.providers import PROVIDERS, ModelProvider, missing_key_error
from accord_coder.settings import Settings, private_dir

if TYPE_CHECKING:
    from accord import Session, Turn
    from accord.agent import Archived, SessionPage, StoredSession
    from accord_coder.models.base import Model
    from accord_coder.models.keys import ApiKeys
    from accord_coder.models.remote import RetryPolicy
    from accord_coder.permissions.rules import TrustStore
    from accord_coder.session import CoderSession

log = logging.getLogger("accord_coder")

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


class Coder(AuthenticationMixin, Agent):
    """Reads and edits files and runs commands with a model that the user selects.

    A model of a provider requires the provider's API key: that is the authentication.
    """

    info = Implementation("accord-coder", __version__, "Accord")
    prompt_capabilities: frozenset[str] = frozenset({"image", "audio", "resource"})
    mcp_transports: frozenset[str] = (
        frozenset() if find_spec("mcp") is None else frozenset({"stdio", "http", "sse", "acp"})
    )
    system_prompt = frozenset({"append", "override"})
    auth_methods = (
        _ENVIRONMENT,
        *(_terminal_method(source) for source in PROVIDERS if source.models),
    )
    steering = True
    reports = frozenset({"tokens", "cost"})  # no cost for models without a known price
    unstable = True  # other clients never request forks and archives

    def __init__(
        self,
        settings: Settings | None = None,
        store: SessionStore | None = None,
        *,
        model: Model | None = None,
    ) -> None:
        self.settings = settings or Settings()
        if store is None and self.settings.data is not None:
            store = UserStore(self.settings.data)
        self.store = store
        self.model = model  # used instead of the one in the settings
        self.retry_policy: RetryPolicy | None = None  # for requests to models; None is the default
        self._trust: TrustStore | None = None

    @cached_property
    def keys(self) -> ApiKeys:
        """The available API keys."""
        from accord_coder.models.keys import ApiKeys

        return ApiKeys(self.settings.config)

    async def open_session(self, session: Session) -> None:
        """Set the options and commands. The conversation is loaded with the first prompt.

        Raises `InvalidParams` if `cwd` of a new session is not a directory.
        """
        if not await asyncio.to_thread(os.path.isdir, session.cwd) and not await session.history():
            exists = await asyncio.to_thread(os.path.lexists, session.cwd)
            reason = "is not a directory" if exists else "does not exist"
            raise InvalidParams(f"`cwd` {session.cwd} {reason}", data={"path": session.cwd})
        from accord_coder.commands import first_available_commands
        from accord_coder.models.selection import local_models, model_option
        from accord_coder.permissions.decision import mode_option
        from accord_coder.permissions.rules import ProjectRules, TrustStore
        from accord_coder.session import CoderSession

        self.keys.conceal()  # before any command runs that could read them
        data = self.settings.data
        if self._trust is None:
            self._trust = TrustStore(None if data is None else data / "rules")
        state = CoderSession(session, self.settings, ProjectRules(session.cwd, self._trust), self)
        session.data["state"] = state
        local = await local_models(self.settings, self.keys)
        mode = mode_option(self.settings.mode, bypass=self.settings.bypass)
        await session.set_options([mode, model_option(self.settings, self.keys, local)])
        await session.set_commands(await asyncio.to_thread(first_available_commands, state))

    async def close_session(self, session: Session) -> None:
        """Close the session's models and MCP servers."""
        await session.data["state"].aclose()

    async def set_option(self, session: Session, option_id: str, value: str | bool) -> None:
        """Open the selected model. If that fails, the session keeps the previous one."""
        state: CoderSession = session.data["state"]
        if option_id == "model":
            await self._open_model(state, str(value))
        elif option_id == "effort":
            state.effort = None if value == "default" else str(value)

    async def prompt(self, turn: Turn) -> str | None:
        """Work on a prompt."""
        from accord_coder.prompt import handle_prompt, tools_for

        state: CoderSession = turn.session.data["state"]
        state.tools = tools_for(state)
        return await handle_prompt(turn, state)

    def model_name(self, state: CoderSession) -> str:
        """Return the name of the session's model."""
        return self.model.name if self.model is not None else str(state.session.option("model"))

    async def session_model(self, state: CoderSession) -> Model:
        """Return the session's model, ready to answer; raise `AuthRequired` if it has no key."""
        if self.model is not None:
            return self.model
        if state.model is None:
            return await self._open_model(state, self.model_name(state))
        return state.model

    async def _open_model(self, state: CoderSession, name: str) -> Model:
        """Open a model for a session, and set the options that it supports."""
        from accord_coder.models.base import KeyRejected, ModelError
        from accord_coder.models.selection import effort_option, open_model

        try:
            model = await open_model(name, self.settings, self.keys, retry_policy=self.retry_policy)
        except KeyRejected as error:
            raise AuthRequired(str(error)) from error
        except ModelError as error:
            raise RequestError(str(error)) from error
        state.set_model(model)
        others = [option for option in state.session.options if option.id != "effort"]
        effort = effort_option(model, state.effort)
        state.effort = None if effort is None or effort.value == "default" else effort.value
        if effort is not None or len(others) < len(state.session.options):
            await state.session.set_options([*others, *([] if effort is None else [effort])])
        return model

    def is_logged_in(self) -> bool:
        """Return whether the default model and the models of the open sessions have their keys."""
        return not any(map(self._missing_key, (None, *self.sessions.values())))

    def check_auth(self) -> None:
        """Raise `AuthRequired` if the key of the default model is missing."""
        self._require_key(None)

    def check_prompt_auth(self, session: Session) -> None:
        """Raise `AuthRequired` if the key of the session's model is missing."""
        self._require_key(session)

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

    def _missing_key(self, session: Session | None) -> ModelProvider | None:
        """Return the provider whose key the model of a session, or the default model, lacks."""
        if self.model is not None:
            return None
        from accord_coder.models.selection import default_model, needs_key

        if session is None:
            name = default_model(self.settings, self.keys)
        else:
            name = str(session.option("model"))
        return needs_key(name, self.settings, self.keys)

    def _require_key(self, session: Session | None) -> None:
        source = self._missing_key(session)
        if source is not None:
            raise missing_key_error(source)

    def _drop_models(self) -> None:
        for session in self.sessions.values():
            session.data["state"].drop_model()


class UserStore(SessionStore):
    """Stores sessions in `sessions.sqlite` in a directory; only the user can read it.

    If the file cannot be used, for example because the disk is full, the sessions stay in memory
    until the process ends, and the log contains a message.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: SessionStore | None = None
        self._opening = asyncio.Lock()

    async def _store(self) -> SessionStore:
        if self._opened is None:
            async with self._opening:
                if self._opened is None:
                    self._opened = await self._open()
        return self._opened

    async def _open(self) -> SessionStore:
        import sqlite3  # it takes milliseconds, for which an editor would wait

        from accord import MemoryStore, SqliteStore
        from accord.agent import FallbackStore

        path = self._folder / "sessions.sqlite"
        try:
            if not self._folder.is_dir():  # an existing folder keeps its mode
                private_dir(self._folder)
            store = SqliteStore(path)
            await store.list(limit=1)
        except (OSError, ValueError, sqlite3.Error) as exc:
            log.error("! sessions are not stored: %s: %s", path, exc)
            return MemoryStore()
        return FallbackStore(store)

    async def create(self, session: StoredSession, entries: Sequence[bytes] = ()) -> None:
        await (await self._store()).create(session, entries)

    async def get(self, session_id: str) -> StoredSession | None:
        return await (await self._store()).get(session_id)

    async def update(self, session: StoredSession) -> None:
        await (await self._store()).update(session)

    async def append(self, session_id: str, entry: bytes) -> None:
        await (await self._store()).append(session_id, entry)

    async def read(self, session_id: str) -> list[bytes]:
        return await (await self._store()).read(session_id)

    async def read_pages(self, session_id: str) -> AsyncGenerator[Sequence[bytes], None]:
        async for page in (await self._store()).read_pages(session_id):
            yield page

    async def copy(self, session_id: str, session: StoredSession) -> None:
        await (await self._store()).copy(session_id, session)

    async def list(
        self,
        *,
        cwd: str | None = None,
        archived: Archived = "exclude",
        cursor: str | None = None,
        limit: int = 50,
        principal: str | None = None,
    ) -> SessionPage:
        store = await self._store()
        return await store.list(
            cwd=cwd, archived=archived, cursor=cursor, limit=limit, principal=principal
        )

    async def delete(self, session_id: str) -> None:
        await (await self._store()).delete(session_id)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()
