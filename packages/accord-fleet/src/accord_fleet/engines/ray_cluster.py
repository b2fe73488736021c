"""Connects to a Ray cluster, or starts one on this machine, and notices when its head is gone.

To a cluster without Accord, the driver sends its own, with what that requires.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import importlib.metadata
import logging
import os
import platform
import queue
import threading
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

import accord
from accord.installed import install_command
from accord_fleet.plan import RunSettings
from accord_fleet.types import ClusterLost, FleetError

# Accord on a cluster that has none.

OWN_PACKAGES = (
    "accord",
    "accord_trace",
    "accord_terminal",
    "accord_bridges",
    "accord_coder",
    "accord_fleet",
)
"""What slots and the bundled agents import."""

_DISTRIBUTIONS = tuple(name.replace("_", "-") for name in OWN_PACKAGES)
# Of these extras, nodes need what the driver has.
_EXTRAS = ("", "models", "remote", "zstd")


class Found(NamedTuple):
    """What a node has."""

    python: str
    ray: str
    accord: str | None
    missing: list[str]
    """The requirements that it does not fulfil."""


def own_requirements() -> list[str]:
    """Return what Accord requires of what is installed here, without Ray."""
    parse: Any = importlib.import_module("packaging.requirements").Requirement  # Ray requires it
    wanted: dict[str, None] = {}
    for text in chain.from_iterable(
        importlib.metadata.requires(name) or () for name in _DISTRIBUTIONS
    ):
        requirement = parse(text)
        if requirement.name in _DISTRIBUTIONS:
            continue
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in _EXTRAS):
            continue
        if requirement.name == "ray" or not _is_installed(requirement.name):
            continue
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        wanted[f"{requirement.name}{extras}{requirement.specifier}"] = None
    return list(wanted)


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def probe(requirements: list[str]) -> Callable[[], Found]:
    """Return a function that Ray sends by value: the nodes may have no Accord.

    It returns a tuple as `Found`.
    """

    def found() -> Any:
        parse: Any = importlib.import_module("packaging.requirements").Requirement
        try:
            own = importlib.import_module("accord").__version__
        except ImportError:
            own = None
        missing: list[str] = []
        for text in requirements:
            requirement = parse(text)
            try:
                version = importlib.metadata.version(requirement.name)
            except importlib.metadata.PackageNotFoundError:
                missing.append(text)
            else:
                if not requirement.specifier.contains(version, prereleases=True):
                    missing.append(text)
        ray = importlib.import_module("ray").__version__
        python = ".".join(platform.python_version_tuple()[:2])
        return python, ray, own, missing

    return found


def own_packages(missing: list[str]) -> dict[str, Any]:
    """Return a runtime environment with Accord as it is installed here, and what is missing."""
    folders = [str(Path(importlib.import_module(name).__path__[0])) for name in OWN_PACKAGES]
    folders += map(_metadata_folder, _DISTRIBUTIONS)  # names the commands of `accord`
    environment: dict[str, Any] = {"py_modules": folders}
    if missing:
        environment["pip"] = {"packages": missing, "pip_check": False}
    return environment


def _metadata_folder(name: str) -> str:
    """Return the folder with the metadata of an installed package."""
    distribution = importlib.metadata.distribution(name)
    file = next(file for file in distribution.files or () if file.name == "METADATA")
    return str(Path(str(distribution.locate_file(file))).parent)


def with_python(settings: RunSettings, driver: str, here: str) -> RunSettings:
    """Let agents that run in the driver's Python run in that of this node."""
    agents = tuple(
        msgspec.structs.replace(agent, command=(here, *agent.command[1:]))
        if agent.command[0] == driver
        else agent
        for agent in settings.agents
    )
    return msgspec.structs.replace(settings, agents=agents)


# Calls that may hang.

T = TypeVar("T")


class CallThread:
    """Calls functions one after another, and does not keep the process alive.

    A cluster on this machine ends with the thread that started it (`PR_SET_PDEATHSIG`), so the
    thread runs until `end`.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Call the function after those that were submitted before."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001  # the waiting task raises it
                done.set_exception(error)

        self._calls.put(call)
        return done

    async def call(self, function: Callable[[], T], seconds: float, what: str) -> T:
        """Return what the function returns; raise `TimeoutError` when it is late."""
        done = asyncio.wrap_future(self.submit(function))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await done
        raise TimeoutError(f"{what}: not finished after {seconds:g} s")

    def end(self) -> None:
        """End the thread after its calls."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


# Is the head alive, and which nodes does it have?

Nodes = Mapping[str, Mapping[str, float]]
"""The resources of each node that is alive, by the id of the node."""

_EVERY_S = 2.0
# Counted by questions: a process that was stopped for an hour has missed one answer.
_ANSWER_S = 5.0
_MISSED = 3


async def watch_head(ray: Any, label: str, on_nodes: Callable[[Nodes], None]) -> None:
    """Call the function with the nodes every few seconds.

    Raise `ClusterLost` when the head has not answered for about 15 seconds. That is before Ray
    itself ends the process, after 60.
    """
    # Not a thread of the loop: a question to a dead head hangs, and the loop would wait for it.
    thread = CallThread("accord-fleet-head")
    asked: asyncio.Future[Nodes] | None = None
    missed = 0
    reason = ""
    try:
        while True:
            if asked is None:
                asked = asyncio.wrap_future(thread.submit(lambda: living_nodes(ray)))
            await asyncio.wait([asked], timeout=_ANSWER_S)
            if asked.done() and asked.exception() is None:
                on_nodes(asked.result())
                missed, asked = 0, None
                await asyncio.sleep(_EVERY_S)
                continue
            missed += 1
            if asked.done():
                reason = f" ({next(iter(str(asked.exception()).splitlines()), '')})"
                asked = None
            if missed == _MISSED:
                raise ClusterLost(f"cluster {label} was lost: its head does not answer{reason}")
            if asked is None:
                await asyncio.sleep(_ANSWER_S)
    finally:
        if asked is not None:
            asked.cancel()
        thread.end()


def living_nodes(ray: Any) -> Nodes:
    """Return the resources of the nodes that are alive; asks the head."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


# The connection.

NAMESPACE = "accord-fleet"
"""The namespace of Ray that has the names of all actors of fleets."""

_REACH_S = 20.0
_CONNECT_S = 180.0
_SHUTDOWN_S = 20.0
_LOST_SHUTDOWN_S = 2.0
_CALL_S = 60.0
# The server for `ray://` starts a process for each connection, which sometimes crashes at once.
_CONNECT_TRIES = 3
_OBJECT_STORE_BYTES = 200 * 2**20


class Versions(msgspec.Struct, frozen=True):
    """The versions that must be equal in all processes of a fleet."""

    python: str
    ray: str
    accord: str | None
    """None: Accord is not installed."""

    def __str__(self) -> str:
        return f"Python {self.python}, Ray {self.ray}, Accord {self.accord or 'missing'}"


def ray_module() -> Any:
    """Import Ray, which is slow and optional; raise `FleetError` where it is missing."""
    # Ray reads these when it is imported or started. The user's own values win.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # What Ray says about lost workers goes to stdout, also without `log_to_driver`.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise FleetError(
            f"engine Ray: {error}. It requires more packages: {install_command('fleet')}"
        ) from None


def this_process() -> Versions:
    """Return the versions of this process."""
    python = ".".join(platform.python_version_tuple()[:2])
    return Versions(python, ray_module().__version__, accord.__version__)


class Cluster:
    """The connection of this process to a cluster; open it with `async with`."""

    def __init__(self, address: str, cpus: float) -> None:
        self._address = os.environ.get("RAY_ADDRESS", "") if address == "ray" else address
        self._cpus = cpus
        self._owned = True
        self._is_client = False
        self._thread = CallThread("accord-fleet-ray")
        self._lost: ClusterLost | None = None
        self._waiters: set[asyncio.Future[Any]] = set()
        self._watching: asyncio.Task[None] | None = None
        self.nodes: Nodes = {}
        """The resources of each living node, read every few seconds."""
        self.on_nodes: Callable[[Nodes], None] = lambda _: None
        """Is called with them each time."""
        self.ray: Any = None
        self.runtime_env: dict[str, Any] = {}
        """What actors need that the cluster does not have."""

    @property
    def is_local(self) -> bool:
        """Whether all nodes are this machine, started by this process."""
        return not self._address

    @property
    def label(self) -> str:
        """The cluster in messages."""
        return self._address or "on this machine"

    async def __aenter__(self) -> Cluster:
        try:
            self.ray = await self._thread.call(ray_module, _CONNECT_S, "import of Ray")
            self._owned = not self.ray.is_initialized()
            if self._owned:
                await self._reach()
                await self._connect({})
            self._is_client = bool(self.ray.util.client.ray.is_connected())
            if not self.is_local:
                await self._agree()
            self.nodes = await self.call(lambda: living_nodes(self.ray))
            self._watching = asyncio.create_task(self._watch(), name="accord fleet head")
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._watching is not None:
                self._watching.cancel()
                await asyncio.wait([self._watching])
            if self._owned and self.ray is not None:
                seconds = _SHUTDOWN_S if self._lost is None else _LOST_SHUTDOWN_S
                with contextlib.suppress(TimeoutError):
                    await self._thread.call(self.ray.shutdown, seconds, "shutdown of Ray")
        finally:
            self._thread.end()

    async def _watch(self) -> None:
        """Let everything that waits for the cluster fail when it is lost."""
        try:
            await watch_head(self.ray, self.label, self._see)
        except ClusterLost as error:
            self.lose(error)

    def _see(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.on_nodes(nodes)

    def lose(self, error: ClusterLost) -> None:
        """Give the cluster up."""
        if self._lost is None:
            self._lost = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(self._lost)

    async def _reach(self) -> None:
        """Raise `FleetError` if nothing listens at the address: Ray would try for minutes."""
        host, _, port = self._address.removeprefix("ray://").rpartition(":")
        if not port.isdigit():
            return
        try:
            async with asyncio.timeout(_REACH_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no answer in {_REACH_S:g} s"
            raise FleetError(
                f"cluster {self.label}: no connection: {reason}. Start the cluster, or name "
                "another one with --on ADDRESS"
            ) from None
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _connect(self, runtime_env: dict[str, Any]) -> None:
        options: dict[str, Any] = {
            "namespace": NAMESPACE,
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if runtime_env:
            options["runtime_env"] = runtime_env
        if self.is_local:
            options |= {
                "address": "local",
                "num_cpus": max(os.cpu_count() or 1, -(-self._cpus // 1)),
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
            }
        else:
            options["address"] = self._address
        logging.getLogger("ray").setLevel(logging.ERROR)
        for tries_left in reversed(range(_CONNECT_TRIES)):
            try:
                await self._thread.call(
                    lambda: self.ray.init(**options), _CONNECT_S, f"connection to Ray {self.label}"
                )
                return
            except Exception as error:  # Ray raises Exception itself
                if not tries_left or not isinstance(error, ConnectionAbortedError):
                    raise FleetError(self._connect_text(error)) from error

    def _connect_text(self, error: Exception) -> str:
        said = str(error).strip()
        if "ersion" in said and "mismatch" in said.lower():
            return (
                f"cluster {self.label}: its versions of Python and Ray must be those of this "
                f"process ({this_process()}). Ray says: {said}"
            )
        return f"cluster {self.label}: no connection: {type(error).__name__}: {said}"

    async def _agree(self) -> None:
        """Check the versions of a node; send Accord to a cluster that has none."""
        look = self.ray.remote(num_cpus=0)(probe(own_requirements()))
        found = Found(*await self.wait_for(await self.submit(look.remote)))
        if found.accord is None and self._owned:
            self.runtime_env = own_packages(found.missing)
            await self._thread.call(self.ray.shutdown, _SHUTDOWN_S, "shutdown of Ray")
            await self._connect(self.runtime_env)
        else:
            self.check("a node", Versions(found.python, found.ray, found.accord))

    def elsewhere(self, nodes: Collection[str]) -> Any:
        """Return the strategy that places an actor on none of these nodes, given by their ids."""
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        other = strategies.NotIn(*nodes)
        # The label has the second name since Ray 2.50; a node without a label is never excluded.
        return strategies.NodeLabelSchedulingStrategy(
            hard={"ray.io/node_id": other, "ray.io/node-id": other}
        )

    def check(self, machine: str, there: Versions) -> None:
        """Raise `FleetError` if the versions of a node differ from those of this process."""
        here = this_process()
        if there != here:
            raise FleetError(
                f"cluster {self.label}: {machine} has {there}; expected the versions of this "
                f"process: {here}"
            )

    async def wait_for(self, ref: Any) -> Any:
        """Return the value of an object; for a result, raise what the task raised.

        Raise `ClusterLost` when the cluster is gone.
        """
        future: concurrent.futures.Future[Any] = await self.submit(ref.future)
        # Ray's future is never cancelled: Ray would fail to set its result.
        return await self._wait(lambda: future)

    async def submit(self, function: Callable[[], T]) -> T:
        """Call a function of Ray that does not ask the head.

        Ray's client sends everything to the head, and waits while the connection is broken.
        """
        return await self.call(function) if self._is_client else function()

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function of Ray that asks the head, and may hang; calls wait for each other.

        Raise `ClusterLost` when the cluster is gone.
        """
        async with asyncio.timeout(_CALL_S):
            return await self._wait(lambda: self._thread.submit(function))

    async def _wait(self, begin: Callable[[], concurrent.futures.Future[T]]) -> T:
        if self._lost is not None:
            raise self._lost
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()

        def settle(done: concurrent.futures.Future[T]) -> None:
            if waiter.done():
                return
            if (error := done.exception()) is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(done.result())

        def arrive(done: concurrent.futures.Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, done)

        self._waiters.add(waiter)
        try:
            begin().add_done_callback(arrive)
            return await waiter
        finally:
            self._waiters.discard(waiter)
