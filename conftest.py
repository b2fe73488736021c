"""Settings for all tests: hypothesis profiles, and a separate home directory for agents."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from project import TESTS

# Tests start thousands of programs: compile each module once, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# On a busy machine an example is slow, not wrong.
settings.register_profile("local", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Start half as many workers again as there are cores: many tests wait for processes."""
    if config.option.numprocesses != "auto" or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return cores + (cores + 1) // 2


# Tests that need programs which pip does not install, by folder, by file and by fixture.
NEED_PROGRAMS = (
    "agent/postgres_store",
    "fleet/cluster",
    "interop",
    "remote/many_servers",
    "remote/test_proxies.py",
    "workflows",
)
FIXTURES_OF_PROGRAMS = {"browser"}
WITHOUT_PROGRAMS = {"not programs", "not slow and not programs"}
PATHS_OF_PROGRAMS = frozenset(tests / path for tests in TESTS for path in NEED_PROGRAMS)


@cache
def needs_programs(path: Path) -> bool:
    """Return whether a path is, or is below, one of those that need programs."""
    return path in PATHS_OF_PROGRAMS or not PATHS_OF_PROGRAMS.isdisjoint(path.parents)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what would all be deselected."""
    if config.option.markexpr in WITHOUT_PROGRAMS and needs_programs(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what `make test-programs` runs, and not `make test`."""
    fixtures = FIXTURES_OF_PROGRAMS.intersection(getattr(item, "fixturenames", ()))
    if fixtures or needs_programs(item.path):
        item.add_marker("programs")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take long, so that no worker begins one when all others end."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the collected tests out of garbage collection, which runs less often after that."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def home_of_agents() -> Generator[None, None, None]:
    """Keep the data of started agents out of the developer's home directory."""
    folder = tempfile.mkdtemp(prefix="accord-tests-")
    os.environ["ACCORD_DATA"] = os.environ["ACCORD_CONFIG"] = folder
    yield
    shutil.rmtree(folder, ignore_errors=True)
