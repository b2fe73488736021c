"""Fleets: the same tasks for many agents, on this machine or on a cluster.

In: tasks (`tasks` reads and checks them), agents (`agent_words`), and how they are run (`plan`).
Out: a `Result` for each attempt, stored in a dataset together with recordings (`dataset`), and a
report about them (`report`). `accord fleet` (`command`) and `Fleet` (`fleet`) put these together.

Read `types` first: all values. Then `run`: a `Control`, an `Engine`, and how results get from one
to the dataset. Then `attempt`: the life of one attempt, from its workspace to its verdict.

- `engines` runs attempts on this machine or on Ray. `machine` has what the attempts on one machine
  share: warm agents (`agents`), `workspaces`, `graders`, and guards: the `sandbox`, the `gateway`
  to models, `breaker`, `processes` and `redaction`.
- `dataset` stores a run in a folder or at an address (`storage`), so that it survives any end of
  its process: `accord fleet resume` continues it. `progress` shows a run while it is in progress.

An attempt never raises: what goes wrong in it is a `Failure` of its result. What is wrong before
a run begins is a `FleetError` that has everything at once.

Importing this package imports nothing else; Ray, pyarrow, fsspec and rich are imported when they
are needed. Programs of their own are `grader_functions` (`python -m`) and `sandbox/inside.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Type checkers read these imports, Python the table below.
if TYPE_CHECKING:
    from accord_fleet.dataset.dataset import Dataset as Dataset
    from accord_fleet.engines.local import LocalEngine as LocalEngine
    from accord_fleet.engines.ray import RayEngine as RayEngine
    from accord_fleet.fleet import Fleet as Fleet
    from accord_fleet.run import Engine as Engine
    from accord_fleet.tasks.problems import TaskErrors as TaskErrors
    from accord_fleet.tasks.read import CheckedTasks as CheckedTasks
    from accord_fleet.tasks.read import check_tasks as check_tasks
    from accord_fleet.types import AgentGrader as AgentGrader
    from accord_fleet.types import AgentSpec as AgentSpec
    from accord_fleet.types import Archive as Archive
    from accord_fleet.types import ClusterLost as ClusterLost
    from accord_fleet.types import CommandGrader as CommandGrader
    from accord_fleet.types import EmptyFolder as EmptyFolder
    from accord_fleet.types import Failure as Failure
    from accord_fleet.types import FleetError as FleetError
    from accord_fleet.types import Folder as Folder
    from accord_fleet.types import FunctionGrader as FunctionGrader
    from accord_fleet.types import GitRepository as GitRepository
    from accord_fleet.types import GradedAttempt as GradedAttempt
    from accord_fleet.types import Limits as Limits
    from accord_fleet.types import Permissions as Permissions
    from accord_fleet.types import Resources as Resources
    from accord_fleet.types import Result as Result
    from accord_fleet.types import Task as Task
    from accord_fleet.types import Times as Times
    from accord_fleet.types import Usage as Usage
    from accord_fleet.types import Verdict as Verdict
else:
    # Imported when first used, to keep start-up fast.
    _LAZY = {
        name: module
        for module, names in {
            "accord_fleet.dataset.dataset": "Dataset",
            "accord_fleet.engines.local": "LocalEngine",
            "accord_fleet.engines.ray": "RayEngine",
            "accord_fleet.fleet": "Fleet",
            "accord_fleet.run": "Engine",
            "accord_fleet.tasks.problems": "TaskErrors",
            "accord_fleet.tasks.read": "CheckedTasks check_tasks",
            "accord_fleet.types": (
                "AgentGrader AgentSpec Archive ClusterLost CommandGrader EmptyFolder Failure "
                "FleetError Folder FunctionGrader GitRepository GradedAttempt Limits Permissions "
                "Resources Result Task Times Usage Verdict"
            ),
        }.items()
        for name in names.split()
    }
    __all__ = tuple(_LAZY)

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
