"""Generates a program from a seed."""

from __future__ import annotations

import random
from typing import Any

from simulation import program as p
from simulation.network import Cut, Network

__all__ = ("program_of",)


def program_of(seed: int) -> p.Program:
    """Return the program of a seed."""
    return _Maker(seed).program()


class _Maker:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(f"program {seed}")
        # The emphasis of this run.
        self.about = self.pick(
            {"all": 60, "flood": 6, "large": 12, "cut": 14, "store": 14, "tools": 10}
        )

    def pick(self, weights: dict[Any, int]) -> Any:
        """Return one of the keys."""
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def often(self, probability: float) -> bool:
        return self.chance.random() < probability

    def few(self, most: int) -> int:
        """Return a number that is more often small than large."""
        return min(int(self.chance.expovariate(2.5 / most)), most)

    # The complete program.

    def program(self) -> p.Program:
        has_store = self.about == "store" or self.often(0.3)
        store = None
        if has_store:
            fails = self.chance.choice((0, 0, 5, 20, 100))
            store = p.Store(fails_one_in=fails, delay_s=self.chance.choice((0.0, 0.0, 0.01, 1.0)))
        self.unstable = self.often(0.4)
        self.store = store
        return p.Program(
            seed=self.seed,
            clients=[self.client() for _ in range(self.pick({1: 6, 2: 2}))],
            store=store,
            unstable=self.unstable,
            waiting=self.chance.choice((1024, 16)),
        )

    def client(self) -> p.Client:
        often, chance = self.often, self.chance
        versions = self.pick({(1,): 4, (2,): 4, (1, 2): 2})
        return p.Client(
            versions=versions,
            files=often(0.5) or self.about == "large",
            terminals=often(0.4),
            forms=often(0.4),
            unstable=often(0.4),
            network=self.network(),
            starts_after_s=chance.choice((0.0, 0.0, 0.5)),
            waiting=chance.choice((1024, 64, 8)),
            waiting_bytes=chance.choice((8 * 1024 * 1024, 16 * 1024)),
            max_waiting=chance.choice((65_536, 65_536, 100)),
            slow_user_s=chance.choice((0.0, 0.0, 1.0, 30.0)),
            asks_back=often(0.15),
            actors=[self.actor() for _ in range(1 + self.few(4))],
        )

    def network(self) -> Network:
        chance = self.chance
        network = Network(
            delay_s=chance.choice((0.0, 0.0, 0.001, 0.05)),
            jitter_s=chance.choice((0.0, 0.0, 0.01)),
        )
        if self.about != "flood":
            network.piece_bytes = chance.choice((65536, 65536, 4096, 200, 20))
            network.write_bytes = chance.choice((65536, 65536, 1000, 50))
            if self.often(0.2):
                network.stall_one_in = chance.choice((10, 100))
                network.stall_s = chance.choice((0.2, 3.0, 15.0))
        if self.about == "large":
            network.frame_bytes = chance.choice((8192, 20_000))
            network.piece_bytes = chance.choice((65536, 4096))
            network.write_bytes = 65536
        if self.about == "cut":
            network.cut = Cut(
                kind=chance.choice(("reset", "eof", "death")),
                side=chance.choice(("client", "agent")),
                after_bytes=int(chance.expovariate(1 / 6000)),
            )
        return network

    def actor(self) -> p.Actor:
        return p.Actor([self.step() for _ in range(1 + self.few(6))])

    # Steps of clients.

    def step(self) -> Any:
        kind = self.pick(
            {
                "prompt": 60,
                "new": 6,
                "close": 4,
                "load": 8 if self.store else 0,
                "fork": 3 if self.store and self.unstable else 0,
                "delete": 2 if self.store else 0,
                "list": 3 if self.store else 0,
                "status": 2,
                "rename": 2,
                "mode": 5,
                "cancel": 6,
                "cancel tool": 4,
                "wait": 8,
                "leave": 1,
                "extension": 3,
            }
        )
        return self.prompt() if kind == "prompt" else self.small_step(kind)

    def small_step(self, kind: str) -> Any:  # a table
        chance = self.chance
        of = chance.choice((None, 0, 1, 2, 3))
        match kind:
            case "new":
                return p.New()
            case "close":
                return p.Close()
            case "load":
                return p.Load(of=of, replay=self.often(0.7))
            case "fork":
                return p.Fork()
            case "delete":
                return p.Delete()
            case "list":
                return p.ListSessions()
            case "status":
                return p.Status()
            case "rename":
                return p.Rename()
            case "mode":
                return p.SetMode(chance.choice(("ask", "code")))
            case "cancel":
                return p.Cancel(of)
            case "cancel tool":
                return p.CancelTool(of)
            case "wait":
                return p.Wait(self.seconds())
            case "leave":
                return p.Leave()
            case _:
                return p.Extension(notify=self.often(0.5), size=self.size())

    def seconds(self) -> float:
        return self.chance.choice((0.0, 0.0, 0.001, 0.01, 0.1, 1.0, 20.0))

    def size(self) -> int:
        if self.about == "large" and self.often(0.3):
            return self.chance.choice((7000, 8192, 9000, 19_000, 30_000))
        return self.chance.choice((0, 0, 5, 100, 2000))

    def prompt(self, depth: int = 0) -> p.Prompt:
        if self.about == "flood" and depth == 0 and self.often(0.6):
            return self.flood()
        prompt = p.Prompt(
            acts=[self.act() for _ in range(1 + self.few(5))],
            size=self.size() if self.often(0.2) else 0,
            take=self.pick({"events": 8, "wait": 1, "nothing": 1}),
        )
        if self.often(0.3):
            prompt.pace_s = self.seconds()
        if self.often(0.35):
            prompt.inside = [
                p.Inside(1 + self.few(8), self.inside(depth)) for _ in range(1 + self.few(2))
            ]
        match self.pick({"": 60, "at": 12, "after": 12, "leave": 5, "drop": 6}):
            case "at":
                prompt.cancel_at = 1 + self.few(8)
            case "after":
                prompt.cancel_after_s = self.seconds()
            case "leave":
                prompt.leave_at = 1 + self.few(8)
            case "drop":
                prompt.drop_after_s = self.seconds()
            case _:
                pass
        return prompt

    def inside(self, depth: int) -> Any:
        kind = self.pick(
            {
                "prompt": 6 if depth == 0 else 0,
                "new": 6,
                "close": 1,
                "load": 2 if self.store else 0,
                "fork": 1 if self.store and self.unstable else 0,
                "list": 2 if self.store else 0,
                "status": 1,
                "rename": 1,
                "mode": 3,
                "cancel": 3,
                "cancel tool": 3,
                "wait": 2,
                "extension": 2,
            }
        )
        return self.prompt(depth + 1) if kind == "prompt" else self.small_step(kind)

    def flood(self) -> p.Prompt:
        """Return a prompt with more updates than the limit, and a consumer that is busy."""
        kinds = ("new", "mode", "cancel", "extension", "list", "wait", "prompt")
        kind = self.chance.choice(kinds)
        inside = self.prompt(1) if kind == "prompt" else self.small_step(kind)
        return p.Prompt(
            acts=[
                p.Say(
                    pieces=self.chance.choice((2500, 3500, 5000)), size=self.chance.choice((0, 200))
                )
            ],
            inside=[p.Inside(1 + self.few(8), inside)],
            pace_s=self.chance.choice((0.0, 20.0, 200.0)),
            paced=3,
        )

    # Acts of the agent.

    def act(self) -> Any:
        kind = self.pick(
            {
                "say": 30,
                "tool": 40 if self.about == "tools" else 22,
                "plan": 4,
                "title": 2,
                "notice": 2,
                "option": 2,
                "elicit": 3,
                "stubborn": 3,
                "stop": 1,
                "background": 5,
                "subagent": 4,
                "parallel": 5,
                "sleep": 8,
                "raise": 2,
                "extension": 3,
            }
        )
        match kind:
            case "tool":
                return self.tool()
            case "plan":
                return p.Plan(markdown=self.often(0.3))
            case "title":
                return p.Title()
            case "notice":
                return p.Notice()
            case "option":
                return p.Option(self.chance.choice(("ask", "code")))
            case "elicit":
                return p.Elicit()
            case "stubborn":
                return p.Stubborn(self.seconds(), self.few(3))
            case "stop":
                return p.Stop(self.chance.choice(("max_tokens", "refusal")))
            case "background":
                return p.Background([self.tool_act() for _ in range(1 + self.few(3))])
            case "subagent":
                return p.Subagent([self.small_act() for _ in range(1 + self.few(3))])
            case "parallel":
                branches = [[self.small_act() for _ in range(1 + self.few(2))] for _ in range(2)]
                return p.Parallel(branches)
            case "raise":
                return p.Raise(mistake=self.often(0.5))
            case "extension":
                return p.Extension(notify=self.often(0.4), size=self.size())
            case _:
                return self.small_act(kind)

    def small_act(self, kind: str | None = None) -> Any:
        match kind or self.pick({"say": 4, "tool": 3, "sleep": 2}):
            case "say":
                return p.Say(
                    pieces=1 + self.few(20),
                    size=self.size(),
                    thought=self.often(0.2),
                    pause_s=self.seconds() if self.often(0.2) else 0.0,
                )
            case "tool":
                return self.tool()
            case _:
                return p.Sleep(self.seconds())

    def tool(self) -> p.Tool:
        acts = [self.tool_act() for _ in range(self.few(5))]
        return p.Tool(acts, cancellable=self.often(0.3))

    def tool_act(self) -> Any:
        kind = self.pick(
            {
                "stream": 30,
                "say": 10,
                "diff": 8,
                "ask": 14,
                "read": 8,
                "write": 8,
                "run": 8,
                "sleep": 6,
                "fail": 2,
                "raise": 2,
                "extension": 3,
            }
        )
        match kind:
            case "stream":
                pause_s = self.seconds() if self.often(0.3) else 0.0
                return p.Stream(1 + self.few(12), self.size(), pause_s)
            case "say":
                return p.Say(pieces=1 + self.few(3), size=self.size())
            case "diff":
                return p.Diff(self.size())
            case "ask":
                return p.Ask()
            case "read":
                return p.Read(self.size())
            case "write":
                return p.Write(self.size())
            case "run":
                timeout_s = self.chance.choice((None, None, 0.5))
                return p.Run(self.seconds(), self.few(20), timeout_s)
            case "sleep":
                return p.Sleep(self.seconds())
            case "fail":
                return p.Fail()
            case "raise":
                return p.Raise(mistake=self.often(0.5))
            case _:
                return p.Extension(notify=self.often(0.4), size=self.size())
