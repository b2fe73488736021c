"""Settings of providers: known ones need nothing, and errors name everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_fleet.gateway.providers import (
    KNOWN_PROVIDERS,
    ProviderError,
    providers_of,
    read_providers,
)


def test_settings_add_to_known_providers(tmp_path: Path) -> None:
    file = tmp_path / "providers.toml"
    file.write_text(
        "[anthropic]\nrequests_per_minute = 50\nkey = 'TEAM_KEY'\n"
        "[anthropic.prices.'claude-*']\ninput = 3\noutput = 15\n"
        "[local]\napi = 'openai'\nbase_url = 'http://127.0.0.1:8000/v1'\nkey = 'LOCAL_KEY'\n"
    )
    anthropic, local = read_providers(file)
    assert anthropic.base_url == "https://api.anthropic.com"
    assert anthropic.key == "TEAM_KEY"
    price = anthropic.price("claude-opus")
    assert price is not None
    assert price.output == 15
    assert anthropic.price("other") is None
    assert local.env == KNOWN_PROVIDERS["openai"].env
    found = providers_of({"a": "local", "b": "google"}, (anthropic, local))
    assert found == {"google": KNOWN_PROVIDERS["google"], "local": local}


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "providers.toml"
    file.write_text(
        "[anthropic]\nkeys = 'x'\n[openai]\nbase_url = 'ftp://x'\n"
        "[mistral]\nbase_url = 'https://u:p@x'\n[google]\ntokens_per_minute = 0\n[x]\napi = 'y'\n"
    )
    with pytest.raises(ProviderError) as caught:
        read_providers(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert "[anthropic]: Object contains unknown field `keys`" in lines[0]
    assert "expected an http(s) address as base_url, got 'ftp://x'" in lines[1]
    assert "without a user name or password" in lines[2]
    assert "expected a positive number as tokens_per_minute, got 0" in lines[3]


def test_unknown_provider_of_an_agent_is_named() -> None:
    with pytest.raises(ProviderError, match="Agent a: expected a provider out of anthropic, goo"):
        providers_of({"a": "antropic"})
