"""The members of a process group on Windows: a job object, which ends with this process.

Windows does not keep a tree of processes: neither killing the child nor `taskkill /T` reaches
processes whose parent has exited. A job contains every process that its members start. When its
last handle is closed, which includes any end of this process, the system kills them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from ctypes import wintypes

if sys.platform != "win32":
    raise ImportError("Only Windows has job objects")


CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP

_BASIC_ACCOUNTING, _EXTENDED_LIMITS = 1, 9  # JOBOBJECTINFOCLASS
_KILL_ON_JOB_CLOSE = 0x2000


def members_of(popen: subprocess.Popen[bytes], mark: object) -> WindowsGroupMembers:
    del mark  # processes cannot leave a job
    return WindowsGroupMembers(popen)


def pidfd_of(pid: int) -> int:
    del pid
    raise OSError("Only Linux has pidfds")


class _BasicLimits(ctypes.Structure):
    _fields_ = [
        ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
        ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
        ("LimitFlags", wintypes.DWORD),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", wintypes.DWORD),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", wintypes.DWORD),
        ("SchedulingClass", wintypes.DWORD),
    ]


class _ExtendedLimits(ctypes.Structure):
    _fields_ = [
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_ulonglong * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    ]


class _Accounting(ctypes.Structure):
    _fields_ = [
        ("times", wintypes.LARGE_INTEGER * 4),
        ("TotalPageFaultCount", wintypes.DWORD),
        ("TotalProcesses", wintypes.DWORD),
        ("ActiveProcesses", wintypes.DWORD),
        ("TotalTerminatedProcesses", wintypes.DWORD),
    ]


class WindowsGroupMembers:
    """A job with a child and all its descendants; see `GroupMembers`.

    Processes that the child starts before this object is made are not included.
    """

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.takes_strays = True
        self._popen = popen
        self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        self._kernel.CreateJobObjectW.restype = wintypes.HANDLE
        self._kernel.OpenProcess.restype = wintypes.HANDLE
        self._handle = wintypes.HANDLE(self._kernel.CreateJobObjectW(None, None))
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        self._kernel.SetInformationJobObject(
            self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
        )
        set_quota_and_terminate = 0x0100 | 0x0001
        child = wintypes.HANDLE(self._kernel.OpenProcess(set_quota_and_terminate, 0, popen.pid))
        self._kernel.AssignProcessToJobObject(self._handle, child)
        self._kernel.CloseHandle(child)

    def __del__(self) -> None:
        self._kernel.CloseHandle(self._handle)

    def terminate(self) -> None:
        """Send Ctrl+Break to the group; it has no effect without a common console."""
        if self._popen.poll() is None:
            with contextlib.suppress(OSError):
                os.kill(self._popen.pid, signal.CTRL_BREAK_EVENT)

    def kill(self) -> None:
        self._kernel.TerminateJobObject(self._handle, 1)
        self._popen.kill()  # if it could not be added to the job

    def alive(self) -> bool:
        accounting = _Accounting()
        self._kernel.QueryInformationJobObject(
            self._handle,
            _BASIC_ACCOUNTING,
            ctypes.byref(accounting),
            ctypes.sizeof(accounting),
            None,
        )
        return accounting.ActiveProcesses > 0

    def status(self) -> int | None:
        return self._popen.poll()

    def wait(self) -> None:
        self._popen.wait()
