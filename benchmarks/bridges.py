"""Measures bridges: frameworks in, and the OpenAI gateway, each beside its rivals, in turns.

`python benchmarks/bridges.py [--save FILE] [--rounds N] [--only overhead,start,street,gateway]`.
Environments are made in `benchmarks/.venvs`; a rival that cannot be installed is left out, with the
reason. Needs Linux. About 15 minutes, and on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import machine
from bridging import http_client
from bridging.environments import HERE as PARTS
from bridging.environments import PACKAGES, Environment, Unavailable, environment, variables
from bridging.processes import Processes
from bridging.stdio_client import StdioAgent

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
AGENT = str(PARTS / "agent.py")
ACCORD = str(Path(sys.executable).with_name("accord"))
TOKEN = "the token of the benchmark, which nobody knows"

OVERHEAD_US = 15.0
START_MS = 80.0
STREAM = 3.0  # ours divided by that of another adapter
CHUNKS = 5.0  # ours divided by that of another gateway
FIRST = 0.3
REQUEST_MS = 5.0
FLAT_MB = 8.0
DELTAS = 3_000
CHUNKS_AT_ONCE = 50_000
SESSIONS = int(os.environ.get("SESSIONS", "200"))

# The frameworks: the kind of the agent, and what its environment has.
FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "function": (),
    "pydantic-ai": ("pydantic-ai-slim",),
    "openai-agents": ("openai-agents",),
    "agno": ("agno[mcp]",),
    "google-adk": ("google-adk[mcp]",),
    "deepagents": ("deepagents",),
}
IMPORTS = {
    "function": "asyncio",
    "pydantic-ai": "pydantic_ai, pydantic_ai.models.function",
    "openai-agents": "agents",
    "agno": "agno.agent, agno.models.base",
    "google-adk": "google.adk.agents, google.adk.models.base_llm, google.adk.runners",
    "deepagents": "deepagents",
}
PACKAGE = {
    "pydantic-ai": "pydantic-ai-slim",
    "openai-agents": "openai-agents",
    "agno": "agno",
    "google-adk": "google-adk",
    "deepagents": "deepagents",
}
# Adapters of others, and the environment in which ours is beside them: with the same framework.
ADAPTERS = {"pydantic-acp": "pydantic-ai", "deepagents-acp": "deepagents"}
LANGGRAPH = PACKAGES / "accord-bridges" / "src" / "accord_bridges" / "frameworks" / "langgraph.py"


def say(text: str) -> None:
    """Tell what is being measured."""
    print(text, file=sys.stderr, flush=True)


def turns(count: int, names: list[str]) -> Iterator[str]:
    """Yield the names so often, another one first in each round."""
    for number in range(count):
        for at in range(len(names)):
            yield names[(at + number) % len(names)]


def number(value: float) -> str:
    """Return three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def verdict(met: bool) -> str:
    """Return the word for a bound."""
    return "met" if met else "**missed**"


def kinds() -> dict[str, Environment | str]:
    """Return the environment of each framework that has a bridge, or why there is none."""
    found: dict[str, Environment | str] = {}
    for kind, packages in FRAMEWORKS.items():
        if kind == "deepagents" and not LANGGRAPH.exists():
            found[kind] = "there is no bridge of LangGraph in this version"
            continue
        try:
            found[kind] = environment(kind, *packages, bridges=True)
        except Unavailable as error:
            found[kind] = str(error)
    return found


# Frameworks in.


def overhead(rounds: int) -> str:
    """Measure the processor time for each text delta, in one process."""
    rows: list[list[str]] = []
    for kind, place in kinds().items():
        if isinstance(place, str):
            rows.append([kind, place])
            continue
        command = [place.program("python"), str(PARTS / "overhead.py"), kind, str(DELTAS)]
        done = subprocess.run(
            [*command, str(rounds)], capture_output=True, text=True, timeout=600, env=variables()
        )
        if done.returncode:
            rows.append([kind, f"failed: {done.stderr.strip().splitlines()[-1][:100]}"])
            continue
        found = {
            name: min(values) for name, values in json.loads(done.stdout.splitlines()[-1]).items()
        }
        bare, agent, both = found["bare"], found["agent"], found["both"]
        say(f"overhead {kind}: {found}")
        label = kind if kind not in PACKAGE else place.version(PACKAGE[kind])
        more = agent - bare
        cell = f"{number(more)} {verdict(more <= OVERHEAD_US)}"
        rows.append([label, number(bare), number(agent), number(both), cell])
    head = ["", "framework alone", "with the bridge", "and a client of Accord", "overhead"]
    return (
        f"## Overhead for each text delta (≤ {OVERHEAD_US:.0f} µs)\n\n"
        f"Processor time in µs for each of {DELTAS:,} deltas, in one process over a memory"
        " transport; the least of all\nrounds: what others do on the machine makes each one"
        " longer. The model is a loop. *With the bridge* has a client\nthat only counts frames;"
        " *overhead* is what it has more than the framework alone.\n\n" + table(head, rows)
    )


def start(rounds: int) -> str:
    """Measure the time until `accord run` answers `initialize`, beside the import alone."""
    rows: list[list[str]] = []
    places = {kind: place for kind, place in kinds().items() if not isinstance(place, str)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        imported: dict[str, list[float]] = defaultdict(list)
        started: dict[str, list[float]] = defaultdict(list)
        for kind in turns(rounds, list(places)):
            place = places[kind]
            module = served(folder, kind)
            command = [place.program("python"), "-c", f"import {module.stem}"]
            began = time.perf_counter()
            env = variables(ACCORD_STATE=name)
            subprocess.run(command, check=True, cwd=folder, env=env, capture_output=True)
            imported[kind].append((time.perf_counter() - began) * 1e3)
            began = time.perf_counter()
            agent = StdioAgent([place.program("accord"), "run", f"{module}:agent"], folder, env)
            try:
                agent.start()
                started[kind].append((time.perf_counter() - began) * 1e3)
            finally:
                agent.close()
        for kind, place in places.items():
            # The first round compiles what was not compiled.
            one, other = (min(each[kind]) for each in (imported, started))
            say(f"start {kind}: {imported[kind]} {started[kind]}")
            cell = f"{number(other - one)} {verdict(other - one <= START_MS)}"
            rows.append([label_of(kind, place), number(one), number(other), cell])
    head = ["", "import of the agent's module", "`accord run` answers `initialize`", "difference"]
    return (
        f"## Start of `accord run` (≤ the import and {START_MS:.0f} ms)\n\n"
        "Milliseconds from the start of the process, the least of all rounds. The first number is"
        " Python with the module\nof the agent and nothing else.\n\n" + table(head, rows)
    )


def label_of(kind: str, place: Environment) -> str:
    """Return a framework with its version."""
    return kind if kind not in PACKAGE else place.version(PACKAGE[kind])


def served(folder: Path, kind: str) -> Path:
    """Write a module whose `agent` is that of a framework."""
    file = folder / f"served_{kind.replace('-', '_')}.py"
    file.write_text(
        f"import sys\n\nsys.path.insert(0, {str(PARTS)!r})\n"
        f"from framework_agents import AGENTS\n\nagent = AGENTS[{kind!r}]()[0]\n"
    )
    return file


def street(rounds: int) -> str:
    """Measure streaming over pipes beside the adapters of others."""
    rows: list[list[str]] = []
    for rival, kind in ADAPTERS.items():
        try:
            place = environment(rival, rival, bridges=True)
        except Unavailable as error:
            rows.append([rival, str(error)])
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            target = f"{served(folder, kind)}:agent"
            commands = {
                rival: [place.program("python"), str(PARTS / "framework_agents.py"), rival],
                "accord run": [place.program("accord"), "run", target],
            }
            if kind == "deepagents" and not LANGGRAPH.exists():
                del commands["accord run"]
            found = streamed(commands, folder, rounds)
        bare = alone(place, kind, rounds)
        for who, values in found.items():
            if isinstance(values, str):
                rows.append([who, values])
                continue
            ratio = values["rate"] / found[rival]["rate"] if "rate" in found[rival] else 0.0
            left = found[rival]["us"] - bare, values["us"] - bare
            cells = [number(values["rate"]), number(values["us"]), number(values["us"] - bare)]
            last = ["", ""]
            if who != rival:
                last = [f"{ratio:.2f}× {verdict(ratio >= STREAM)}", f"{left[0] / left[1]:.1f}×"]
            rows.append([f"{label_of(kind, place)}: {who}", *cells, *last])
        if len(found) == 1:
            rows.append(["accord run", "there is no bridge of LangGraph in this version"])
        rows.append([f"{label_of(kind, place)} alone", "", number(bare), "", "", ""])
    head = [
        "",
        "deltas/s",
        "processor µs for a delta",
        "without the framework",
        f"deltas/s (≥ {STREAM:.0f}×)",
        "without the framework",
    ]
    return (
        "## Streaming beside adapters of others\n\n"
        f"{DELTAS:,} deltas from an agent process over pipes, version 1, the same framework and"
        " model in the same environment;\nmedians. *Without the framework* is the processor time"
        " less what the framework alone needs.\n\n" + table(head, rows)
    )


def streamed(
    commands: dict[str, list[str]], folder: Path, rounds: int
) -> dict[str, dict[str, float] | str]:
    """Return the rate and the processor time for a delta of each."""
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    failed: dict[str, str] = {}
    env = variables(ACCORD_STATE=str(folder))
    for who in turns(rounds, list(commands)):
        if who in failed:
            continue
        agent = StdioAgent(commands[who], folder, env)
        try:
            agent.start()
            session = agent.new_session()
            agent.prompt(session, "100")
            before = agent.cpu_s()
            took, chunks = agent.prompt(session, str(DELTAS))
            rates[who].append(chunks / took)
            costs[who].append((agent.cpu_s() - before) / DELTAS * 1e6)
            say(f"street {who}: {chunks} chunks, {rates[who][-1]:.0f}/s, {costs[who][-1]:.0f} µs")
        except RuntimeError as error:
            failed[who] = f"failed: {str(error).strip().splitlines()[-1][:100]}"
        finally:
            agent.close()
    found: dict[str, dict[str, float] | str] = {}
    for who in commands:
        if who in failed:
            found[who] = failed[who]
        else:
            rate, cost = statistics.median(rates[who]), statistics.median(costs[who])
            found[who] = {"rate": rate, "us": cost}
    return found


def alone(place: Environment, kind: str, rounds: int) -> float:
    """Return the processor time for a delta of the framework alone, in this environment."""
    code = (
        f"import sys; sys.path.insert(0, {str(PARTS)!r})\n"
        "import asyncio, time\nfrom framework_agents import AGENTS\n"
        f"bare = AGENTS[{kind!r}]()[1]\nasyncio.run(bare('100'))\nbegan = time.process_time()\n"
        f"asyncio.run(bare('{DELTAS}'))\nprint((time.process_time() - began) / {DELTAS} * 1e6)"
    )
    command = [place.program("python"), "-c", code]
    return statistics.median(
        float(subprocess.check_output(command, text=True, env=variables()).splitlines()[-1])
        for _ in range(rounds)
    )


# The gateway.


@dataclass
class Gateway:
    """A gateway that runs: its processes, its port, and the model to ask for."""

    processes: Processes
    port: int
    model: str
    label: str
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: str = ""

    def request(self, prompt: str, *, stream: bool = True, session: str | None = None) -> bytes:
        """Return the bytes of a request to it."""
        return http_client.request(
            self.port, self.model, prompt, stream=stream, token=TOKEN, session=session
        )

    def ask(self, prompt: str, **more: object) -> http_client.Answer:
        """Send a request; raise `RuntimeError` for another status than 200."""
        answer = http_client.ask(self.port, self.request(prompt, **more))  # type: ignore[arg-type]
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.tail.decode(errors='replace')}")
        return answer


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def ours(folder: Path, warm: int) -> Gateway:
    """Start ours, with `warm` sessions ready."""
    processes, port = Processes("accord", folder), free_port()
    command = [ACCORD, "gateway", "--port", str(port), "--cwd", str(folder), "--warm", str(warm)]
    processes.start(
        [*command, "--turns", str(SESSIONS), "--idle", "600", "--", sys.executable, AGENT],
        port,
        ACCORD_STATE=str(folder / "state"),
        ACCORD_TOKEN=TOKEN,
        XDG_RUNTIME_DIR=str(folder),
    )
    return Gateway(processes, port, Path(sys.executable).stem, "accord gateway")


def acpbox(folder: Path, _warm: int) -> Gateway:
    """Start acpbox, which has one agent."""
    place = environment("acpbox", "acpbox")
    processes, port = Processes("acpbox", folder), free_port()
    (folder / "config.yaml").write_text(
        f'acp:\n  command: ["{sys.executable}", "{AGENT}"]\n  workspace: {folder}\n'
        f"gateway:\n  host: 127.0.0.1\n  port: {port}\n"
    )
    config = str(folder / "config.yaml")
    processes.start([place.program("acpbox")], port, ACPBOX_CONFIG_PATH=config)
    return Gateway(processes, port, "ask", place.version("acpbox"))


def acp_openai_gateway(folder: Path, _warm: int) -> Gateway:
    """Start acp-openai-gateway, whose agent is on the network: `accord serve` has it there."""
    place = environment("acp-openai-gateway", "acp-openai-gateway")
    processes, agent, port = Processes("acp-openai-gateway", folder), free_port(), free_port()
    serve = [ACCORD, "serve", "--insecure", "--port", str(agent), "--", sys.executable, AGENT]
    processes.start(serve, agent)
    processes.start(
        [place.program("acp-openai-gateway")],
        port,
        ACP_URL=f"http://127.0.0.1:{agent}",
        ACP_CWD=str(folder),
        GATEWAY_HOST="127.0.0.1",
        GATEWAY_PORT=str(port),
    )
    return Gateway(processes, port, "script", place.version("acp-openai-gateway"))


GATEWAYS: dict[str, Callable[[Path, int], Gateway]] = {
    "accord": ours,
    "acpbox": acpbox,
    "acp-openai-gateway": acp_openai_gateway,
}


class Running(ExitStack):
    """The gateways, each in a folder of its own; all end with the block."""

    def start(self, warm: int, names: list[str] | None = None) -> dict[str, Gateway | str]:
        """Start them; the text is why one could not be."""
        found: dict[str, Gateway | str] = {}
        for name in names or list(GATEWAYS):
            folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="b-")))
            try:
                gateway = GATEWAYS[name](folder, warm)
            except (Unavailable, RuntimeError) as error:
                found[name] = str(error).strip().splitlines()[-1][:120]
                continue
            self.callback(gateway.processes.stop)
            found[name] = gateway
        return found


def gateways(rounds: int) -> str:
    """Measure streaming, the first chunk, and requests, in turns."""
    with Running() as running:
        found = running.start(2)
        live = {name: each for name, each in found.items() if isinstance(each, Gateway)}
        settle(live)
        for each in live.values():
            each.ask("stream 1000 token")
        for name in turns(rounds, list(live)):
            gateway = live[name]
            if gateway.failed:
                continue
            try:
                settle({name: gateway})
                one_round(gateway)
                say(f"gateway {name}: { {key: v[-1] for key, v in gateway.values.items()} }")
            except (RuntimeError, OSError, TimeoutError) as error:
                gateway.failed = str(error)[:100]
        direct = run_direct(rounds)
        return gateway_tables(found, direct)


def settle(live: dict[str, Gateway]) -> None:
    """Let what is started in the background start, so that it is not measured."""
    time.sleep(3.0)
    for each in live.values():
        each.processes.go_first()


def one_round(gateway: Gateway) -> None:
    """Measure one gateway once."""
    values = gateway.values
    values["first"].append(gateway.ask("echo hi").first_s * 1e3)
    settle({"": gateway})
    before = gateway.processes.cpu()
    answer = gateway.ask(f"stream {CHUNKS_AT_ONCE} token")
    after = gateway.processes.cpu()
    if answer.chunks != CHUNKS_AT_ONCE:
        raise RuntimeError(f"{answer.chunks} of {CHUNKS_AT_ONCE} chunks: {answer.tail!r}")
    values["rate"].append(answer.chunks / answer.all_s)
    for kind, seconds in after.items():
        used = (seconds - before.get(kind, 0.0)) / CHUNKS_AT_ONCE * 1e6
        if used > 0.5:
            values[f"cpu {kind}"].append(used)
    settle({"": gateway})
    session = gateway.ask("echo hi").session
    times = [gateway.ask("echo hi", session=session).all_s * 1e3 for _ in range(30)]
    values["request"].append(statistics.median(times))


def run_direct(rounds: int) -> dict[str, float]:
    """Measure turns without a gateway."""
    command = [sys.executable, str(PARTS / "direct.py"), "100", str(rounds), sys.executable, AGENT]
    found = json.loads(subprocess.check_output(command, text=True, env=variables()))
    return {name: statistics.median(values) for name, values in found.items()}


def gateway_tables(found: dict[str, Gateway | str], direct: dict[str, float]) -> str:
    """Return the table of medians, and that of the bounds."""
    rows: list[list[str]] = []
    median: dict[str, dict[str, float]] = {}
    for name, gateway in found.items():
        if isinstance(gateway, str) or gateway.failed:
            rows.append(
                [name, f"failed: {gateway if isinstance(gateway, str) else gateway.failed}"]
            )
            continue
        middle = {key: statistics.median(values) for key, values in gateway.values.items()}
        middle["first least"] = min(gateway.values["first"])
        median[name] = middle
        cpu = ", ".join(
            f"{key.removeprefix('cpu ')} {number(value)}"
            for key, value in sorted(middle.items())
            if key.startswith("cpu ")
        )
        rows.append(
            [
                gateway.label,
                number(middle["rate"]),
                cpu,
                number(middle["first"]),
                number(middle["first least"]),
                number(middle["request"]),
            ]
        )
    head = ["", "chunks/s", "processor µs for a chunk", "first chunk, ms", "least", "request, ms"]
    text = (
        "## OpenAI gateway\n\n"
        f"The same agent, each gateway as its documentation configures it; in turns, medians."
        f" {CHUNKS_AT_ONCE:,} chunks in a stream.\n*First chunk* is the time from a request that"
        " begins a conversation to the first text, with an agent that is warm.\n*Request* is a"
        " streamed request of one line as a whole, in ours the next one of a conversation.\n\n"
        + table(head, rows)
    )
    mine = median.get("accord")
    bounds: list[list[str]] = []
    for name, other in median.items():
        if mine is None or name == "accord":
            continue
        rate, first = mine["rate"] / other["rate"], mine["first"] / other["first"]
        bounds.append(
            [f"chunks/s, of {name} (≥ {CHUNKS:.0f}×)", f"{rate:.2f}×", verdict(rate >= CHUNKS)]
        )
        bounds.append(
            [f"first chunk, of {name} (≤ {FIRST}×)", f"{first:.2f}×", verdict(first <= FIRST)]
        )
    if mine is not None:
        more = mine["request"] - direct["turn"]
        what = f"request less a turn of an open session of `accord.connect` (≤ {REQUEST_MS:.0f} ms)"
        bounds.append([what, f"{number(more)} ms", verdict(more <= REQUEST_MS)])
        what = f"first chunk, warm, less `accord.ask` (≤ {REQUEST_MS:.0f} ms)"
        more = mine["first"] - direct["ask"]
        bounds.append([what, f"{more:.0f} ms", verdict(more <= REQUEST_MS)])
    return text + "\n" + table(["bound", "", ""], bounds)


def crowd(rounds: int) -> str:
    """Measure many sessions at once, and whether memory grows."""
    rows: list[list[str]] = []
    for name in GATEWAYS:
        with Running() as running:
            gateway = running.start(2, [name])[name]
            if isinstance(gateway, str):
                rows.append([name, f"failed: {gateway}"])
                continue
            settle({name: gateway})
            gateway.ask("echo hi")
            try:
                rows.append([gateway.label, *memory_of(gateway), *at_once(gateway)])
            except (RuntimeError, OSError, TimeoutError) as error:
                rows.append([gateway.label, f"failed: {str(error)[:100]}"])
            say(f"crowd {rows[-1]}")
    head = [
        "",
        "MiB",
        "more after 100,000 chunks",
        "more after 1,000 requests",
        f"{SESSIONS} sessions at once: errors",
        "first chunk, median ms",
        "worst ms",
        "all, s",
    ]
    return (
        "## Memory, and many sessions at once\n\n"
        "Resident memory of the gateway's process, without the agents. The sessions at once are new"
        " conversations, each\nwith a process of its own in ours (its agent is started with it),"
        f" and in one agent process in the others.\nFlat is at most {FLAT_MB:.0f} MiB more.\n\n"
        + table(head, rows)
    )


def memory_of(gateway: Gateway) -> list[str]:
    """Return the memory, and how much it grows."""
    gateway.ask("stream 10000 token")
    first = gateway.processes.memory_mb()
    for _ in range(2):
        gateway.ask(f"stream {CHUNKS_AT_ONCE} token")
    chunks = gateway.processes.memory_mb() - first
    session = gateway.ask("echo hi").session
    for _ in range(100):
        gateway.ask("echo hi", session=session)
    second = gateway.processes.memory_mb()
    for _ in range(1000):
        gateway.ask("echo hi", session=session)
    requests = gateway.processes.memory_mb() - second
    return [
        number(first),
        *(f"{each:.1f} {verdict(each <= FLAT_MB)}" for each in (chunks, requests)),
    ]


def at_once(gateway: Gateway) -> list[str]:
    """Open many conversations at the same time."""

    async def all_of_them() -> list[http_client.Answer | BaseException]:
        sent = gateway.request("echo hi")
        asked = (http_client.ask_async(gateway.port, sent) for _ in range(SESSIONS))
        return await asyncio.gather(*asked, return_exceptions=True)

    gateway.processes.go_first()
    began = time.perf_counter()
    answers = asyncio.run(all_of_them())
    took = time.perf_counter() - began
    good = [
        one.first_s * 1e3
        for one in answers
        if isinstance(one, http_client.Answer) and one.status == 200 and one.chunks
    ]
    errors = SESSIONS - len(good)
    cells = [f"{errors} {verdict(errors == 0)}"]
    if not good:
        return [*cells, "", "", number(took)]
    return [*cells, number(statistics.median(good)), number(max(good)), number(took)]


PARTS_OF_PAGE: dict[str, Callable[[int], str]] = {
    "overhead": overhead,
    "start": start,
    "street": street,
    "gateway": gateways,
    "crowd": crowd,
}


def main() -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description="Measure bridges beside others.")
    parser.add_argument("--save", type=Path, help="write the page to this file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help=f"of {', '.join(PARTS_OF_PAGE)}, separated by commas")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    names = given.only.split(",") if given.only else list(PARTS_OF_PAGE)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
        Path("/proc/self/autogroup").write_text("-20")
    pages = [PARTS_OF_PAGE[name](given.rounds) for name in names]
    text = f"""# Bridges

{time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}. {machine.description()}.
Load average {before:.1f} to {os.getloadavg()[0]:.1f}: the programs of others, and these.
Compare numbers of one table only: all of it was measured in turns, in one run.

{chr(10).join(pages)}"""
    machine.report(text, "BRIDGES", given.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
