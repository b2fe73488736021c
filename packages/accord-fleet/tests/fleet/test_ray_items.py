"""What Ray gets: items as there is room, and the packages that a node lacks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from accord_fleet import AgentSpec, Task
from accord_fleet.engines.ray_cluster import own_packages, own_requirements, probe, with_python
from accord_fleet.engines.ray_slots import Items
from accord_fleet.plan import RunSettings
from accord_fleet.types import WorkItem


class Source:
    """Work items by turns for the agents; counts how many were read."""

    def __init__(self, number: int, agents: str = "a") -> None:
        self.read = 0
        self._number = number
        self._agents = agents

    def __iter__(self) -> Iterator[WorkItem]:
        for number in range(self._number):
            self.read += 1
            agent = self._agents[number % len(self._agents)]
            yield WorkItem(task=Task(id=f"t{number}", prompts=("x",)), agent=agent)


def agent_of(item: WorkItem) -> str:
    return item.agent


async def test_no_more_is_read_than_slots_want() -> None:
    source = Source(100_000)
    items = Items(source, agent_of, ahead=0)
    for _ in range(5):  # five slots open
        assert await items.want(None) == "a"
    assert source.read == 5
    for _ in range(5):
        items.opened("a")
        assert items.take("a")
    assert source.read == 5


async def test_a_slot_keeps_its_kind_while_there_is_work_of_it() -> None:
    items = Items(Source(100, "ab"), agent_of, ahead=10)
    assert await items.want("b") == "b"
    taken = [items.take("b") for _ in range(3)]
    assert [one.item.agent for one in taken if one] == ["b"] * 3
    assert await items.want("b") == "b"


async def test_a_lost_attempt_comes_first_and_is_counted() -> None:
    items = Items(Source(2), agent_of, ahead=0)
    await items.want("a")
    first = items.take("a")
    assert first
    await items.again(msgspec.structs.replace(first, losses=1))
    again = items.take("a")
    assert again
    assert (again.item, again.losses) == (first.item, 1)


async def test_the_run_ends_with_the_last_result() -> None:
    items = Items(Source(1), agent_of, ahead=0)
    assert await items.want("a") == "a"
    assert items.take("a")
    await items.done()
    assert await items.want("a") is None
    await items.over()


async def test_nothing_is_handed_out_after_a_stop() -> None:
    items = Items(Source(10), agent_of, ahead=5)
    assert await items.want("a") == "a"
    await items.stop()
    assert items.take("a") is None
    assert await items.want("a") is None
    await items.over()


async def test_attempt_is_not_taken_on_a_node_on_which_it_has_failed() -> None:
    items = Items(Source(2), agent_of, ahead=2)
    await items.want("a")
    first = items.take("a", "n1")
    assert first
    await items.again(msgspec.structs.replace(first, failed_on=("n1",)))
    assert not items.needs_other_node("a", "n1")
    second = items.take("a", "n1")
    assert second
    assert second.item.task.id == "t1"
    assert items.needs_other_node("a", "n1")
    assert items.take("a", "n1") is None
    assert not items.needs_other_node("a", "n2")
    again = items.take("a", "n2")
    assert again
    assert again.item is first.item


def test_packages_of_accord_are_sent_and_their_requirements_installed() -> None:
    wanted = own_requirements()
    assert any(text.startswith("msgspec>=") for text in wanted)
    assert not any(text.startswith(("ray", "accord")) for text in wanted)
    assert "pip" not in own_packages([])
    assert own_packages(["a>=1"])["pip"]["packages"] == ["a>=1"]


def test_only_what_a_node_lacks_is_installed() -> None:
    pytest.importorskip("ray")
    wanted = [*own_requirements(), "no-such-package>=1", "msgspec>=999"]
    assert probe(wanted)()[3] == ["no-such-package>=1", "msgspec>=999"]


def test_only_agents_in_the_python_of_the_driver_change_it() -> None:
    agents = (
        AgentSpec(name="a", command=("/driver/python", "x")),
        AgentSpec(name="b", command=("b",)),
    )
    changed = with_python(RunSettings(agents=agents), "/driver/python", "/node/python").agents
    assert [agent.command for agent in changed] == [("/node/python", "x"), ("b",)]
