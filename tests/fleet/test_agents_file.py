"""agents.toml: the format that the reference describes."""

from __future__ import annotations

import re
from pathlib import Path

from accord_fleet import AgentSpec
from accord_fleet.agent_words import agents_from_words
from accord_fleet.types.agent import Resources

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fleet.md"


def section() -> str:
    """Return the section about agents."""
    return PAGE.read_text("utf-8").partition("## Agents\n")[2].partition("\n## ")[0]


def test_example_of_the_reference_is_read(tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", section(), re.DOTALL)
    path = tmp_path / "agents.toml"
    path.write_text(example, "utf-8")
    assert agents_from_words([str(path)]) == (
        [
            AgentSpec(name="claude", command=("claude-agent-acp",), provider="anthropic"),
            AgentSpec(
                name="mine",
                command=("my-agent", "--acp"),
                env={"MY_AGENT_LOG": "debug"},
                secrets=("MY_AGENT_KEY",),
                packages=("my-agent==1.4",),
                resources=Resources(cpus=2.0, memory_bytes=4_000_000_000, custom={"gpu_lane": 1.0}),
                versions=(1,),
                warm=False,
            ),
        ],
        [],
    )


def test_reference_has_every_field() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", section(), re.MULTILINE)
    assert documented == [name for name in AgentSpec.__struct_fields__ if name != "name"]


def test_error_names_the_agent_and_the_field(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text('[agents.mine]\ncommand = "my-agent"\nkey = "x"\n', "utf-8")
    found, [error] = agents_from_words([str(path)])
    assert found == []
    assert "[agents.mine]" in error
    assert "`key`" in error
