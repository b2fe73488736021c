"""Record an agent, and test a client against the recording: without the agent."""

import asyncio
import sys
from pathlib import Path

import accord
from accord_trace import Recording
from accord_trace.replay import ReplayedAgent

AGENT = [sys.executable, str(Path(__file__).with_name("greeter.py"))]


async def greet(agent: accord.ConnectedAgent, name: str) -> str:
    """Run one turn: the client under test."""
    session = await agent.new_session(".")
    async with session.prompt(f"I am {name}") as turn:
        await turn.wait()
    return turn.text


async def main() -> None:
    with Recording("greeter.acp.jsonl") as recording:
        observers = [recording.hop().observer("client")]
        async with accord.connect(AGENT, observers=observers) as agent:
            print("recorded:", await greet(agent, "Ada"))

    replayed = ReplayedAgent("greeter.acp.jsonl")
    async with accord.connect(replayed) as agent:
        print("replayed:", await greet(agent, "Ada"))
    replayed.assert_matched(completely=True)

    async with accord.connect(replayed) as agent:
        await greet(agent, "Bob")
    for departure in replayed.departures:
        print("departed:", departure)


asyncio.run(main())
