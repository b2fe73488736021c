"""Fleets: the same tasks for many agents, on this machine or on a cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Type checkers read these imports, Python the table below.
if TYPE_CHECKING:
    from accord_fleet.dataset.dataset import Dataset as Dataset
    from accord_fleet.engine import Engine as Engine
    from accord_fleet.engines.local import LocalEngine as LocalEngine
    from accord_fleet.engines.ray import RayEngine as RayEngine
    from accord_fleet.engines.ray_lost import ClusterLost as ClusterLost
    from accord_fleet.errors import FleetError as FleetError
    from accord_fleet.fleet import Fleet as Fleet
    from accord_fleet.tasks.problems import TaskErrors as TaskErrors
    from accord_fleet.tasks.read import CheckedTasks as CheckedTasks
    from accord_fleet.tasks.read import check_tasks as check_tasks
    from accord_fleet.types.agent import AgentSpec as AgentSpec
    from accord_fleet.types.agent import Resources as Resources
    from accord_fleet.types.grading import GradedAttempt as GradedAttempt
    from accord_fleet.types.limits import Limits as Limits
    from accord_fleet.types.result import (
        Failure as Failure,
    )
    from accord_fleet.types.result import (
        Result as Result,
    )
    from accord_fleet.types.result import (
        Times as Times,
    )
    from accord_fleet.types.result import (
        Usage as Usage,
    )
    from accord_fleet.types.result import (
        Verdict as Verdict,
    )
    from accord_fleet.types.task import (
        AgentGrader as AgentGrader,
    )
    from accord_fleet.types.task import (
        Archive as Archive,
    )
    from accord_fleet.types.task import (
        CommandGrader as CommandGrader,
    )
    from accord_fleet.types.task import (
        EmptyFolder as EmptyFolder,
    )
    from accord_fleet.types.task import (
        Folder as Folder,
    )
    from accord_fleet.types.task import (
        FunctionGrader as FunctionGrader,
    )
    from accord_fleet.types.task import (
        GitRepository as GitRepository,
    )
    from accord_fleet.types.task import (
        Permissions as Permissions,
    )
    from accord_fleet.types.task import (
        Task as Task,
    )
else:
    # Imported when first used, to keep start-up fast.
    _LAZY = {
        name: module
        for module, names in {
            "accord_fleet.dataset.dataset": "Dataset",
            "accord_fleet.engine": "Engine",
            "accord_fleet.engines.local": "LocalEngine",
            "accord_fleet.engines.ray": "RayEngine",
            "accord_fleet.engines.ray_lost": "ClusterLost",
            "accord_fleet.errors": "FleetError",
            "accord_fleet.fleet": "Fleet",
            "accord_fleet.tasks.problems": "TaskErrors",
            "accord_fleet.tasks.read": "CheckedTasks check_tasks",
            "accord_fleet.types.agent": "AgentSpec Resources",
            "accord_fleet.types.grading": "GradedAttempt",
            "accord_fleet.types.limits": "Limits",
            "accord_fleet.types.result": "Failure Result Times Usage Verdict",
            "accord_fleet.types.task": (
                "AgentGrader Archive CommandGrader EmptyFolder Folder FunctionGrader "
                "GitRepository Permissions Task"
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
