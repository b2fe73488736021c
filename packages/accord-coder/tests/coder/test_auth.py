"""Authentication of the coder: errors for a missing key, and how to enter one."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord import AuthRequired
from accord_coder.agent import Coder
from accord_coder.models.keys import ApiKeys, prompt_for_key
from accord_coder.models.providers import KEY_VARIABLES, PROVIDERS
from accord_coder.settings import Settings
from coder.harness import BOTH, coder_session
from coder.models.provider import Fails, Says, serve_provider

OPENAI = next(source for source in PROVIDERS if source.id == "openai")
SECRET = "sk-do-not-tell-anybody"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEY_VARIABLES, "ACCORD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


async def test_prompt_without_a_key_explains_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(AuthRequired) as caught:
        async with coder_session(cwd=tmp_path, settings=Settings(model="openai:gpt-6.1-sol")):
            pass
    assert "OPENAI_API_KEY" in caught.value.message
    assert "--login openai" in caught.value.message


@BOTH
async def test_auth_methods_are_advertised(version: int, tmp_path: Path) -> None:
    async with coder_session(version, cwd=tmp_path) as harness:
        offered = {method.id: method for method in harness.agent.auth_methods}
        assert "environment" in offered
        assert "OPENAI_API_KEY" in str(offered["environment"])


@BOTH
async def test_login_finds_a_key_that_was_saved_later(version: int, tmp_path: Path) -> None:
    config = tmp_path / "config"
    settings = Settings(model="openai:gpt-6.1-sol", config=config)
    coder = Coder(settings)
    with pytest.raises(AuthRequired):
        async with coder_session(version, cwd=tmp_path, coder=coder):
            pass
    assert prompt_for_key("openai", config, ask=lambda _prompt: f" {SECRET}\n") == 0
    coder.keys.reload()
    async with coder_session(version, cwd=tmp_path, coder=coder) as harness:
        await harness.agent.authenticate("environment")
        await harness.agent.logout()
        with pytest.raises(AuthRequired):
            await harness.agent.authenticate("environment")
        with pytest.raises(AuthRequired):
            await harness.agent.new_session(tmp_path)
    assert ApiKeys(config, {}).find(OPENAI) is None


@BOTH
async def test_switch_to_a_model_without_a_key_is_rejected_and_the_old_one_stays(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", SECRET)
    async with coder_session(version, cwd=tmp_path, settings=Settings(model="demo")) as harness:
        monkeypatch.delenv("MISTRAL_API_KEY")
        with pytest.raises(AuthRequired, match="MISTRAL_API_KEY"):
            await harness.session.set_option("model", "mistral:mistral-medium-latest")
        assert harness.state.session.option("model") == "demo"
        assert await harness.prompt("help")


async def test_login_is_for_the_current_model_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")
    monkeypatch.setenv("MISTRAL_API_KEY", SECRET)
    async with coder_session(cwd=tmp_path, settings=Settings(model="demo")) as harness:
        await harness.session.set_option("model", "mistral:mistral-medium-latest")
        monkeypatch.delenv("MISTRAL_API_KEY")
        await harness.agent.logout()
        assert not harness.coder.is_logged_in()
        with pytest.raises(AuthRequired, match="MISTRAL_API_KEY"):
            await harness.agent.authenticate("environment")
        with pytest.raises(AuthRequired, match="MISTRAL_API_KEY"):
            await harness.prompt("help")
        await harness.session.set_option("model", "demo")
        await harness.agent.authenticate("environment")
        assert await harness.prompt("help")


async def test_session_with_a_keyless_model_works_without_the_default_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    settings = Settings(model="openai:gpt-6.1-sol")
    async with coder_session(cwd=tmp_path, settings=settings) as harness:
        await harness.session.set_option("model", "demo")
        monkeypatch.delenv("OPENAI_API_KEY")
        await harness.agent.logout()
        assert await harness.prompt("help")
        with pytest.raises(AuthRequired, match="OPENAI_API_KEY"):
            await harness.agent.new_session(tmp_path)


async def test_model_switch_applies_from_the_next_prompt(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")
    async with serve_provider(Says("From far away.")) as provider:
        settings = Settings(model="compatible:m", base_url=provider.url)
        async with coder_session(cwd=tmp_path, settings=settings) as harness:
            await harness.session.set_option("model", "demo")
            assert await harness.prompt("help") != "From far away."
            await harness.session.set_option("model", "compatible:m")
            assert await harness.prompt("Hello") == "From far away."


async def test_effort_is_an_option_for_models_that_support_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    async with serve_provider(Says("Hm."), Says("Hm.", thinking="Well.")) as provider:
        settings = Settings(model="anthropic:claude-sonnet-5-5", base_url=provider.root)
        async with coder_session(cwd=tmp_path, settings=settings) as harness:
            await harness.prompt("Hello")
            await harness.session.set_option("effort", "high")
            await harness.prompt("Think")
            before, after = (asked.body for asked in provider.requests)
            assert "effort" not in str(before.get("output_config"))
            assert after["output_config"]["effort"] == "high"
            await harness.session.set_option("model", "demo")
            assert "effort" not in {option.id for option in harness.state.session.options}


async def test_rejected_key_can_be_replaced_in_the_session(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")
    config = tmp_path / "config"
    prompt_for_key("compatible", config, ask=lambda _prompt: "bad")
    async with serve_provider(Fails(401), Says("Welcome.")) as provider:
        settings = Settings(model="compatible:m", base_url=provider.url, config=config)
        async with coder_session(cwd=tmp_path, settings=settings) as harness:
            with pytest.raises(AuthRequired, match="rejected the API key"):
                await harness.prompt("Hello")
            prompt_for_key("compatible", config, ask=lambda _prompt: "good")
            await harness.agent.authenticate("environment")
            assert await harness.prompt("Hello") == "Welcome."
        used = [asked.headers["authorization"] for asked in provider.requests]
        assert used == ["Bearer bad", "Bearer good"]


def test_key_is_prompted_for_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return SECRET

    assert prompt_for_key("openai", tmp_path, ask=ask) == 0
    assert "OpenAI" in asked[0]
    said = capsys.readouterr()
    assert not said.out
    assert SECRET not in said.err
    assert ApiKeys(tmp_path, {}).find(OPENAI) == SECRET


@pytest.mark.parametrize("typed", ["", "   ", "two words", "with\x00nul"])
def test_invalid_key_is_not_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    assert prompt_for_key("openai", tmp_path, ask=lambda _prompt: typed) == 1
    assert "not a key" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_unknown_provider_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prompt_for_key("nobody", tmp_path, ask=lambda _prompt: SECRET) == 1
    assert "expected one of anthropic" in capsys.readouterr().err


def test_aborted_login_saves_nothing(tmp_path: Path) -> None:
    def ask(_prompt: str) -> str:
        raise EOFError

    assert prompt_for_key("openai", tmp_path, ask=ask) == 1
    assert not list(tmp_path.iterdir())
