"""What the benchmarks share: timing in turns, processes of their own, memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, NoReturn, Optional


def median_seconds(
    runs: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median time of each run after one to warm up.

    The runs take turns, so that a disturbance meets all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            started = clock()
            run()
            times[name].append(clock() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def in_child(
    module: str, *arguments: str, environment: Optional[Mapping[str, str]] = None
) -> dict[str, float]:
    """Run `python -m module --child=FILE ...` and return the figures that it writes to FILE.

    Its output goes to a file: TFF's stock worker would keep a pipe open.
    """
    with tempfile.TemporaryDirectory() as folder:
        result, log = os.path.join(folder, "result.json"), os.path.join(folder, "log")
        with open(log, "w") as output:
            subprocess.run(
                [sys.executable, "-m", module, f"--child={result}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                check=False,
            )
        if not os.path.exists(result):
            with open(log) as file:
                raise RuntimeError(f"{module} {' '.join(arguments)} failed:\n{file.read()[-2000:]}")
        with open(result) as file:
            return json.load(file)


class CommandCost(NamedTuple):
    """What a command took: time, processor time, peak memory."""

    seconds: float
    cpu: float
    megabytes: float


def run_command(command: Sequence[str], folder: str) -> CommandCost:
    """Run a command in a folder, which Python imports from first.

    Raises:
      RuntimeError: If it fails, with the end of its output.
    """
    with tempfile.TemporaryFile("w+") as log:
        started = time.perf_counter()
        child = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": folder},
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        if child.returncode:
            log.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{log.read()[-2000:]}")
    return CommandCost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def end_child(path: str, figures: Mapping[str, float]) -> NoReturn:
    """Write the figures of `in_child` and end this process and the workers that it started."""
    import psutil

    write_json(path, figures)
    for child in psutil.Process().children(recursive=True):
        child.terminate()
    os._exit(0)


def write_json(path: Optional[str], figures: Mapping[str, Any]) -> None:
    """Write figures to a file if a path is given."""
    if path:
        with open(path, "w") as file:
            json.dump(figures, file, indent=2)


def memory_mb(name: str, pid: Optional[int] = None) -> float:
    """Return VmRSS (now) or VmHWM (the peak) of a process, by default this one."""
    with open(f"/proc/{pid or 'self'}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines[name].split()[0]) / 1024


def pss_mb(pid: int) -> float:
    """Return a process's memory, with its share of the pages that others use as well."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    return int(lines["Pss"].split()[0]) / 1024
