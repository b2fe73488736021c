"""The mixins: authentication and providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from accord import Agent, AuthRequired, InvalidParams, Turn, v1, v2
from accord.agent.hooks import (
    AgentAuthMethod,
    AuthenticationMixin,
    ProvidersMixin,
    TerminalAuthMethod,
)
from accord.errors import NotOffered
from accord.types.session import AuthAccount, AuthState, ProviderInfo
from agent.harness import BOTH, V1, AgentHarness, ClientV1, ClientV2, connect_client
from requirement import requirement


class Guarded(AuthenticationMixin, Agent):
    """Requires a login."""

    auth_methods = (
        AgentAuthMethod("key", "With a key", "Asks for it"),
        TerminalAuthMethod("tty", "In a terminal", ("login",), {"A": "b"}),
    )

    def __init__(self) -> None:
        self.user: str | None = None

    def is_logged_in(self) -> bool:
        return self.user is not None

    async def login(self, login_id: str) -> None:
        self.user = login_id

    async def logout(self) -> None:
        self.user = None

    async def auth_status(self) -> tuple[AuthState, Sequence[AuthAccount]]:
        if self.user is None:
            return "unauthenticated", ()
        return "authenticated", (AuthAccount(self.user, email="a@example.com"),)

    async def prompt(self, turn: Turn) -> None:
        await turn.say("in")


class TerminalsV1(ClientV1):
    def capabilities(self) -> v1.ClientCapabilities:
        return v1.ClientCapabilities(auth=v1.AuthCapabilities(terminal=True))


class TerminalsV2(ClientV2):
    def capabilities(self) -> v2.ClientCapabilities:
        auth = v2.ClientAuthCapabilities(terminal=v2.TerminalAuthCapabilities())
        return v2.ClientCapabilities(auth=auth)


async def login(client: AgentHarness, login_id: str) -> None:
    if client.version == V1:
        await client.remote.authenticate(v1.AuthenticateRequest(method_id=login_id))
    else:
        await client.remote.login(v2.LoginAuthRequest(method_id=login_id))


async def logout(client: AgentHarness) -> None:
    request = v1.LogoutRequest() if client.version == V1 else v2.LogoutAuthRequest()
    await client.remote.logout(request)


@BOTH
@requirement("R-AUTH-01")
async def test_logins_are_listed_with_id_and_name(version: int) -> None:
    async with connect_client(Guarded(), version, opened=False) as client:
        (method,) = client.remote.initialized.auth_methods
        assert (method.id if version == V1 else method.method_id) == "key"
        assert (method.name, method.description) == ("With a key", "Asks for it")


@BOTH
@requirement("R-AUTH-11")
async def test_session_requires_a_login(version: int) -> None:
    async with connect_client(Guarded(), version, opened=False) as client:
        with pytest.raises(AuthRequired):
            await client.open()


@BOTH
@requirement("R-AUTH-04", "R-AUTH-10")
async def test_login_opens_the_agent(version: int) -> None:
    async with connect_client(Guarded(), version, opened=False) as client:
        await login(client, "key")
        await client.open()
        await client.prompt("hi")
        assert client.said() == "in"


@BOTH
@requirement("R-AUTH-26")
async def test_logout_applies_to_prompts_and_new_sessions(version: int) -> None:
    async with connect_client(Guarded(), version, opened=False) as client:
        await login(client, "key")
        await client.open()
        await logout(client)
        with pytest.raises(AuthRequired):
            await client.send("again")
        with pytest.raises(AuthRequired):
            await client.open()
        await login(client, "key")
        await client.prompt("hi")
        assert client.said() == "in"


@BOTH
@requirement("R-AUTH-13", "R-AUTH-15", "R-AUTH-22")
async def test_terminal_login_is_advertised_to_clients_with_terminals(version: int) -> None:
    def ids(client: AgentHarness) -> list[str]:
        methods = client.remote.initialized.auth_methods
        return [m.id if version == V1 else m.method_id for m in methods]

    async with connect_client(Guarded(), version, opened=False) as client:
        assert ids(client) == ["key"]
    make = TerminalsV1 if version == V1 else TerminalsV2
    async with connect_client(Guarded(), version, opened=False, client=make) as client:
        assert ids(client) == ["key", "tty"]
        terminal = client.remote.initialized.auth_methods[1]
        assert terminal.args == ["login"]
        variable = v2.EnvVariable(name="A", value="b")
        assert terminal.env == ({"A": "b"} if version == V1 else [variable])


@BOTH
@requirement("R-AUTH-09")
async def test_unknown_login_is_rejected(version: int) -> None:
    async with connect_client(Guarded(), version, opened=False) as client:
        method = "authenticate" if version == V1 else "auth/login"
        for login_id in ("other", "tty"):
            with pytest.raises(InvalidParams):
                await client.remote.connection.call(method, {"methodId": login_id}, bytes)


@requirement("R-ASTAT-02")
@BOTH
async def test_auth_status_is_sent(version: int) -> None:
    async with connect_client(Guarded(), version, opened=False) as client:
        request = client.types.AuthStatusRequest
        assert (await client.remote.auth_status(request())).state == "unauthenticated"
        await login(client, "key")
        status = await client.remote.auth_status(request())
        assert status.state == "authenticated"
        assert [(a.label, a.email) for a in status.accounts] == [("key", "a@example.com")]


# Providers.


class Routed(ProvidersMixin, Agent):
    """Has one required and one optional provider."""

    def __init__(self) -> None:
        self.found = {
            "main": ProviderInfo(
                id="main",
                supported=("openai",),
                required=True,
                api_type="openai",
                base_url="https://a.example",
            ),
            "extra": ProviderInfo(id="extra", supported=("anthropic", "openai")),
        }
        self.headers: Mapping[str, str] = {}

    async def list_providers(self) -> Sequence[ProviderInfo]:
        return list(self.found.values())

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        supported = self.found[provider_id].supported
        self.found[provider_id] = ProviderInfo(
            id=provider_id, supported=supported, api_type=api_type, base_url=base_url
        )
        self.headers = headers

    async def disable_provider(self, provider_id: str) -> None:
        self.found[provider_id] = ProviderInfo(id=provider_id, supported=())


def set_provider(client: AgentHarness, provider_id: str, api_type: str, **more: Any) -> Any:
    request = client.types.SetProviderRequest(
        provider_id=provider_id, api_type=api_type, base_url="https://b.example", **more
    )
    return client.remote.set_provider(request)


async def disable_provider(client: AgentHarness, provider_id: str) -> None:
    request = client.types.DisableProviderRequest(provider_id=provider_id)
    await client.remote.disable_provider(request)


async def listed_providers(client: AgentHarness) -> dict[str, Any]:
    answer = await client.remote.list_providers(client.types.ListProvidersRequest())
    return {one.provider_id: one for one in answer.providers}


@BOTH
@requirement("R-PROV-01")
async def test_agent_with_providers_advertises_them(version: int) -> None:
    async with connect_client(Routed(), version) as client:
        initialized = client.remote.initialized
        offered = initialized.agent_capabilities if version == V1 else initialized.capabilities
        assert offered.providers is not None


@BOTH
@requirement("R-PROV-04")
async def test_providers_are_listed_without_headers(version: int) -> None:
    async with connect_client(Routed(), version) as client:
        await set_provider(client, "extra", "openai", headers={"key": "secret"})
        found = await listed_providers(client)
        assert {name: one.required for name, one in found.items()} == {"main": True, "extra": False}
        assert found["main"].current.base_url == "https://a.example"
        assert b"secret" not in msgspec.json.encode(list(found.values()))


@BOTH
@requirement("R-PROV-06")
async def test_setting_a_provider_replaces_all_its_values(version: int) -> None:
    agent = Routed()
    async with connect_client(agent, version) as client:
        await set_provider(client, "extra", "anthropic", headers={"key": "1"})
        assert agent.found["extra"].base_url == "https://b.example"
        assert agent.headers == {"key": "1"}
        await set_provider(client, "extra", "openai")
        assert agent.found["extra"].api_type == "openai"
        assert agent.headers == {}


@BOTH
@requirement("R-PROV-07")
@pytest.mark.parametrize(("provider_id", "api_type"), [("main", "anthropic"), ("other", "openai")])
async def test_invalid_provider_is_rejected(version: int, provider_id: str, api_type: str) -> None:
    async with connect_client(Routed(), version) as client:
        with pytest.raises(InvalidParams) as caught:
            await set_provider(client, provider_id, api_type)
        unknown = {"apiType": api_type} if provider_id == "main" else {"providerId": provider_id}
        assert caught.value.data == unknown


@BOTH
@requirement("R-PROV-05", "R-PROV-09")
async def test_disabled_provider_is_listed_without_a_current_configuration(version: int) -> None:
    async with connect_client(Routed(), version) as client:
        await set_provider(client, "extra", "anthropic")
        await disable_provider(client, "extra")
        await disable_provider(client, "other")  # an unknown provider is not an error
        found = await listed_providers(client)
        assert list(found) == ["main", "extra"]
        assert found["extra"].current is None


@BOTH
@requirement("R-PROV-08")
async def test_required_provider_cannot_be_disabled(version: int) -> None:
    async with connect_client(Routed(), version) as client:
        with pytest.raises(InvalidParams):
            await disable_provider(client, "main")
        assert (await listed_providers(client))["main"].current is not None


@BOTH
async def test_mixins_combine_with_each_other_and_a_store(version: int) -> None:
    from accord import MemoryStore

    class All(Guarded, Routed):
        store = MemoryStore()

        def __init__(self) -> None:
            Guarded.__init__(self)
            Routed.__init__(self)

    async with connect_client(All(), version, opened=False) as client:
        await login(client, "key")
        await client.open()
        listed = await client.remote.list_sessions(client.types.ListSessionsRequest())
        assert len(listed.sessions) == 1
        found = await client.remote.list_providers(client.types.ListProvidersRequest())
        assert len(found.providers) == 2


class Quiet(Guarded):
    """Does not override `auth_status`."""

    auth_status = AuthenticationMixin.auth_status


class QuietlyUnstable(Quiet):
    unstable = True


def listening(harness: AgentHarness) -> Any:
    base: Any = ClientV1 if harness.version == V1 else ClientV2

    class Listening(base):
        def auth_status_update(self, params: Any, context: Any) -> None:
            self.harness.heard((params.state, [account.label for account in params.accounts]))

    return Listening(harness)


async def log_in(client: AgentHarness) -> None:
    if client.version == V1:
        await client.remote.authenticate(v1.AuthenticateRequest(method_id="key"))
    else:
        await client.remote.login(v2.LoginAuthRequest(method_id="key"))


@BOTH
@requirement("R-ASTAT-06")
async def test_every_client_is_notified_once_of_a_changed_auth_status(version: int) -> None:
    agent = Guarded()
    async with (
        connect_client(agent, version, client=listening, opened=False) as one,
        connect_client(agent, version, client=listening, opened=False) as two,
    ):
        for client in (one, two):  # the caller of the method has the result
            await client.remote.auth_status(client.types.AuthStatusRequest())
        await log_in(one)
        for client in (one, two):
            await client.until(lambda client=client: client.updates)
            assert client.updates == [("authenticated", ["key"])]
        await agent.notify_auth_status()  # this one does not
        logout = v1.LogoutRequest() if version == V1 else v2.LogoutAuthRequest()
        await two.remote.logout(logout)
        for client in (one, two):
            await client.until(lambda client=client: len(client.updates) > 1)
            assert client.updates[1:] == [("unauthenticated", [])]


@BOTH
@requirement("R-ASTAT-01")
async def test_auth_status_is_advertised_if_overridden_or_unstable(
    version: int,
) -> None:
    async with connect_client(Quiet(), version, client=listening, opened=False) as client:
        await log_in(client)
        with pytest.raises(NotOffered):
            await client.remote.auth_status(client.types.AuthStatusRequest())
        assert client.updates == []
    async with connect_client(QuietlyUnstable(), version, client=listening, opened=False) as client:
        await client.remote.auth_status(client.types.AuthStatusRequest())
        await log_in(client)
        await client.until(lambda: client.updates)
        assert client.updates == [("authenticated", [])]
