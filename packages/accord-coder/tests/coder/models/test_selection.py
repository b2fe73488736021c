"""Selection of the model: the default, the available models, and errors for missing keys."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from accord import AuthRequired, InvalidParams
from accord.installed import install_command
from accord_coder.models.keys import ApiKeys
from accord_coder.models.selection import (
    default_model,
    model_choices,
    model_option,
    needs_key,
    open_model,
)
from accord_coder.settings import Settings

NO_KEYS = ApiKeys(None, {})


def keys(**environ: str) -> ApiKeys:
    return ApiKeys(None, environ)


def test_default_is_the_model_that_the_user_names() -> None:
    named = Settings(model="openai:gpt-9")
    assert default_model(named, NO_KEYS, {"ACCORD_MODEL": "mistral:x"}) == "openai:gpt-9"
    assert default_model(Settings(), NO_KEYS, {"ACCORD_MODEL": "mistral:x"}) == "mistral:x"


def test_default_is_the_model_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('model = "ollama:qwen"\n')
    settings = Settings(config=tmp_path)
    assert default_model(settings, keys(OPENAI_API_KEY="k"), {}) == "ollama:qwen"


def test_broken_configuration_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "config.toml").write_text("model = \n")
    assert default_model(Settings(config=tmp_path), NO_KEYS, {}) == "demo"
    assert "config.toml" in caplog.text


def test_default_is_the_first_provider_with_a_key() -> None:
    both = keys(OPENAI_API_KEY="k", MISTRAL_API_KEY="k")
    assert default_model(Settings(), both, {}).startswith("openai:")
    assert default_model(Settings(), keys(GEMINI_API_KEY="k"), {}).startswith("google:")


def test_default_without_keys_is_the_demo_model() -> None:
    assert default_model(Settings(), NO_KEYS, {}) == "demo"


def test_models_with_a_key_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCORD_MODEL", raising=False)
    offered = [choice.value for choice in model_choices(Settings(), keys(MISTRAL_API_KEY="k"))]
    assert offered[-1] == "demo"
    assert len(offered) > 2
    assert all(name.startswith("mistral:") for name in offered[:-1])
    assert [choice.value for choice in model_choices(Settings(), NO_KEYS)] == ["demo"]


def test_named_model_is_listed_first() -> None:
    option = model_option(Settings(model="compatible:mine", base_url="http://x"), NO_KEYS)
    assert option.value == "compatible:mine"
    assert option.category == "model"
    assert [choice.value for choice in option.choices] == ["compatible:mine", "demo"]


def test_custom_url_needs_no_key() -> None:
    own = Settings(model="openai:mine", base_url="http://127.0.0.1:1")
    assert needs_key("openai:mine", own, NO_KEYS) is None
    # The URL is not used for other providers.
    assert needs_key("mistral:x", own, NO_KEYS) is not None
    assert needs_key("ollama:qwen", Settings(), NO_KEYS) is None
    assert needs_key("demo", Settings(), NO_KEYS) is None


async def test_missing_key_explains_what_to_set() -> None:
    with pytest.raises(AuthRequired) as caught:
        await open_model("google:gemini", Settings(), NO_KEYS)
    assert "GOOGLE_API_KEY or GEMINI_API_KEY" in caught.value.message
    assert "accord agent --login google" in caught.value.message


@pytest.mark.parametrize("name", ["gpt", "nobody:x", "openai:"])
async def test_unknown_model_lists_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidParams, match="PROVIDER:NAME"):
        await open_model(name, Settings(), NO_KEYS)


async def test_missing_library_explains_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "accord_coder.models.remote", None)
    with pytest.raises(InvalidParams, match=re.escape(install_command("coder"))):
        await open_model("ollama:qwen", Settings(), NO_KEYS)


async def test_compatible_model_needs_a_url() -> None:
    with pytest.raises(InvalidParams, match="--base-url"):
        await open_model("compatible:x", Settings(), NO_KEYS)


PROVIDERS = {
    "anthropic:claude-sonnet-5-5": "ANTHROPIC_API_KEY",
    "openai:gpt-6.1-sol": "OPENAI_API_KEY",
    "google:gemini-3.8-flash": "GOOGLE_API_KEY",
    "mistral:mistral-medium-latest": "MISTRAL_API_KEY",
    "ollama:qwen3": "OLLAMA_API_KEY",
    "deepseek:deepseek-flash": "DEEPSEEK_API_KEY",
    "openrouter:openai/gpt-6.1-sol": "OPENROUTER_API_KEY",
}


@pytest.mark.parametrize("name", PROVIDERS)
async def test_model_of_every_provider_opens_and_closes(name: str) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")
    model = await open_model(name, Settings(), keys(**{PROVIDERS[name]: "k"}))
    assert model.name == name
    assert model.context_size >= 128_000
    await model.aclose()
