"""An environment of Harbor on this machine: commands run in bubblewrap, with folders of a trial."""

import asyncio
import shutil
from pathlib import Path
from typing import override

from harbor.environments.base import BaseEnvironment, ExecResult

FOLDERS = ("logs", "tests", "solution", "app", "tmp", "installed-agent")


class BoxEnvironment(BaseEnvironment):
    """Each command has the machine's programs, read-only, and the folders of the trial."""

    @staticmethod
    @override
    def type() -> str:
        return "box"

    @override
    def _validate_definition(self) -> None:
        pass

    @property
    def _root(self) -> Path:
        return self.trial_paths.trial_dir / "box"

    @override
    async def start(self, force_build: bool) -> None:
        for name in FOLDERS:
            (self._root / name).mkdir(parents=True, exist_ok=True)
        for name in ("agent", "verifier", "artifacts"):
            (self._root / "logs" / name).mkdir(exist_ok=True)

    @override
    async def stop(self, delete: bool) -> None:
        pass

    def _path(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._path(target_path))

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._path(target_dir), dirs_exist_ok=True)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._path(source_path), target_path)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._path(source_dir), target_dir, dirs_exist_ok=True)

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        words = ["bwrap", "--dev", "/dev", "--proc", "/proc"]
        for folder in sorted(Path("/").iterdir()):  # noqa: ASYNC240
            if folder.name not in {*FOLDERS, "dev", "proc"} and folder.is_dir():
                words += ["--ro-bind", str(folder), str(folder)]
        for name in FOLDERS:
            words += ["--bind", str(self._root / name), f"/{name}"]
        merged = self._merge_env(env) or {}
        for name, value in merged.items():
            words += ["--setenv", name, value]
        process = await asyncio.create_subprocess_exec(
            *words, "--chdir", cwd or "/app", "sh", "-c", command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except BaseException:
            process.kill()
            raise
        assert process.returncode is not None
        return ExecResult(
            stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace"),
            return_code=process.returncode,
        )  # fmt: skip
