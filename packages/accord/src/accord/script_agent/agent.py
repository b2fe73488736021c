"""The script agent: each prompt is a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from accord import (
    Agent,
    AuthRequired,
    AvailableCommand,
    Implementation,
    MemoryStore,
    ProviderInfo,
    Session,
    Turn,
    __version__,
)
from accord.agent import AgentAuthMethod, AuthenticationMixin, ProvidersMixin

if TYPE_CHECKING:
    from accord import SessionStore
    from accord.agent import ConnectedClient, TerminalAuthMethod, ToolCallHandle

# The model providers of the script agent.

_PROVIDERS = (
    ProviderInfo(
        id="main",
        supported=("openai", "anthropic"),
        required=True,
        api_type="openai",
        base_url="https://models.example.com/v1",
    ),
    ProviderInfo(id="spare", supported=("anthropic",)),
)


class ScriptProviders(ProvidersMixin):
    """Two providers, `main` and `spare`, without models."""

    def __init__(self) -> None:
        self.providers: dict[str, ProviderInfo] = {provider.id: provider for provider in _PROVIDERS}

    async def list_providers(self) -> Sequence[ProviderInfo]:
        """Return both providers."""
        return list(self.providers.values())

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Store the settings of a provider; discard the headers."""
        self._change(provider_id, api_type, base_url)

    async def disable_provider(self, provider_id: str) -> None:
        """Clear the settings of a provider."""
        self._change(provider_id, None, None)

    def _change(self, provider_id: str, api_type: str | None, base_url: str | None) -> None:
        before = self.providers[provider_id]
        self.providers[provider_id] = ProviderInfo(
            id=before.id,
            supported=before.supported,
            required=before.required,
            api_type=api_type,
            base_url=base_url,
        )


class ScriptAgent(AuthenticationMixin, ScriptProviders, Agent):
    """Runs the command in each prompt, with the same result in both versions and every time.

    Sessions are stored until the process ends, so that they can be listed and loaded.
    `exit_process` is called by the command `exit`; without it, that command is an error.
    """

    info: Implementation | None = Implementation(
        "accord-script", __version__, "Accord's script agent"
    )
    auth_methods: Sequence[AgentAuthMethod | TerminalAuthMethod] = (
        AgentAuthMethod("script", "Log in", "Always succeeds"),
        AgentAuthMethod("refused", "Log in without success", "Always fails"),
    )
    prompt_capabilities: frozenset[str] = frozenset({"image", "audio", "resource"})
    system_prompt: frozenset[str] = frozenset({"append", "override"})
    steering = True  # by other commands than `listen`, a message is run when they have ended
    reports: frozenset[Literal["tokens", "cost"]] = frozenset({"tokens", "cost"})  # by its commands
    unstable = True  # clients can test unstable methods too

    def __init__(self, *, exit_process: Callable[[int], object] | None = None) -> None:
        ScriptProviders.__init__(self)
        self.store: SessionStore | None = MemoryStore()
        self.exit_process = exit_process
        self._logged_in = True

    def is_logged_in(self) -> bool:
        """Return whether prompts are accepted: always, except between a logout and a login."""
        return self._logged_in

    async def login(self, login_id: str) -> None:
        """Log in, unless the auth method is `refused`."""
        if login_id == "refused":
            raise AuthRequired("This auth method always fails")
        self._logged_in = True

    async def logout(self) -> None:
        """Reject prompts until the next login."""
        self._logged_in = False

    async def open_session(self, session: Session) -> None:
        """Set the options and the slash commands."""
        # Here and in `prompt`, because `initialize` does not need the commands.
        from accord.script_agent.commands import OPTIONS
        from accord.script_agent.registry import COMMANDS

        session.data["exit_process"] = self.exit_process
        await session.set_options(OPTIONS)
        await session.set_commands(
            [
                AvailableCommand(command.name, command.summary, command.arguments or None)
                for command in COMMANDS
            ]
        )

    async def extension_request(self, method: str, params: Any, client: ConnectedClient) -> Any:
        """Respond to `_accord/echo` with its params."""
        if method == "_accord/echo":
            return {"params": params, "version": client.version}
        return await super().extension_request(method, params, client)

    async def decide_permission(self, call: ToolCallHandle) -> bool | None:
        """Decide by the mode: `auto` allows, `read` denies, `ask` asks the user."""
        return {"auto": True, "read": False}.get(call.session.mode or "ask")

    async def prompt(self, turn: Turn) -> str | None:
        """Run the command in the prompt."""
        from accord.script_agent.registry import run_prompt

        return await run_prompt(turn)
