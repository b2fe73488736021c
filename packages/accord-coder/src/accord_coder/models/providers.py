"""The table of model providers, the only place with their names."""

from __future__ import annotations

from msgspec import Struct

from accord import AuthRequired
from accord.installed import install_command


def how_to_get_a_model() -> str:
    """Return what users of the demonstration model can do."""
    return (
        "To use a language model, set the API key of a provider (such as `ANTHROPIC_API_KEY` or"
        " `OPENAI_API_KEY`) or save one with `accord agent --login PROVIDER`. Without an account,"
        " start a model server on this machine (Ollama, llama.cpp, LM Studio or vLLM) and run"
        f" `accord agent --model local`. Both require `{install_command('coder')}`."
    )


class ModelProvider(Struct, frozen=True, kw_only=True):
    """A provider: the variables of its key, and the models to offer, the default first.

    `address` is the default base URL. A `keyless` provider needs no key.
    """

    id: str
    name: str
    variables: tuple[str, ...]
    models: tuple[str, ...] = ()
    address: str | None = None
    keyless: bool = False


# In order of preference. `--model` accepts other model names too; these are offered.
PROVIDERS = (
    ModelProvider(
        id="anthropic",
        name="Anthropic",
        variables=("ANTHROPIC_API_KEY",),
        models=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    ),
    ModelProvider(
        id="openai",
        name="OpenAI",
        variables=("OPENAI_API_KEY",),
        models=("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna"),
    ),
    ModelProvider(
        id="google",
        name="Google",
        variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        models=("gemini-3.8-flash", "gemini-3.1-pro-preview"),
    ),
    ModelProvider(
        id="mistral",
        name="Mistral",
        variables=("MISTRAL_API_KEY",),
        models=("mistral-medium-latest", "mistral-large-latest", "codestral-latest"),
    ),
    ModelProvider(
        id="ollama",
        name="Ollama",
        variables=("OLLAMA_API_KEY",),
        address="http://localhost:11434/v1",
        keyless=True,
    ),
    # Any server for Chat Completions, at `--base-url`.
    ModelProvider(
        id="compatible", name="OpenAI-compatible", variables=("ACCORD_API_KEY",), keyless=True
    ),
    ModelProvider(id="deepseek", name="DeepSeek", variables=("DEEPSEEK_API_KEY",)),
    ModelProvider(id="openrouter", name="OpenRouter", variables=("OPENROUTER_API_KEY",)),
)

# Removed from the environment of commands that the agent runs.
KEY_VARIABLES = frozenset(name for source in PROVIDERS for name in source.variables)


def provider_of(model: str) -> tuple[ModelProvider, str] | None:
    """Return provider and name of `provider:name`; None for anything else."""
    provider, colon, name = model.partition(":")
    if not (colon and name):
        return None
    for source in PROVIDERS:
        if source.id == provider:
            return source, name
    return None


def missing_key_error(source: ModelProvider) -> AuthRequired:
    """Return the error for a missing key of a provider."""
    variables = " or ".join(source.variables)
    return AuthRequired(
        f"{source.name} needs a key: set {variables}, or run `accord agent --login {source.id}`",
        data={"provider": source.id, "variables": list(source.variables)},
    )
