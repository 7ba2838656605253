"""Time and memory of partial averaging, as ratios in one run.

    python -m benchmarks.partial_averaging [--only=rounds,memory] [--rounds=5]

rounds: a round of partial averaging (16 clients, ResNet20, tau = 10, batch 32, momentum 0.9)
        against one of periodic averaging, and that against FedAvg's with the same steps.
memory: the peak memory of rounds of 128 clients of ResNet20 with two steps.
Data are random: what is timed does not depend on what is learnt.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from typing import Any

from benchmarks.measure import end_child, in_child, median_seconds, memory_mb

PARTIAL, PERIODIC, FEDAVG = "partial_averaging", "periodic_averaging", "fedavg"
BARS = {"partial of periodic": 1.25, "periodic of fedavg": 1.1, "memory, GB": 4.0}


class Runner:
    """Rounds of an algorithm with all clients."""

    def __init__(self, name: str, clients: int, steps: int) -> None:
        from benchmarks import works
        from tff_partial.algorithms import registry
        from tff_partial.core import client_data

        work = dataclasses.replace(works.WORKS["resnet20"], clients=min(clients, 16))
        local = dataclasses.replace(work.local, steps=steps)
        entry = registry.ALGORITHMS[name]
        given: dict[str, Any] = {"population": clients} if "population" in entry.needs else {}
        self._process = entry.build(work.spec(), entry.params(local=local, **given))
        data = work.client_data()
        self._records = [client_data.create_record(*data[i % 16], i) for i in range(clients)]
        self._state, self._kept = self._process.initialize(), None
        if "population" in entry.needs:
            initial = [self._process.initial_client_state()] * clients
            ids = range(clients)
            self._kept = self._process.client_states(ids, [True] * clients, initial)

    def run_round(self) -> None:
        if self._kept is None:
            self._state = self._process.next(self._state, self._records).state
        else:
            output = self._process.next(self._state, self._kept, self._records)
            self._state, self._kept = output.state, output.client_states


def rounds(count: int) -> None:
    from tff_partial import runtime

    runtime.set_default()
    runners = {name: Runner(name, 16, 10) for name in (PARTIAL, PERIODIC, FEDAVG)}
    for name, runner in runners.items():
        started = time.perf_counter()
        runner.run_round()
        print(f"{name:20s} first round {time.perf_counter() - started:7.2f} s", flush=True)
    seconds = median_seconds({name: r.run_round for name, r in runners.items()}, count)
    for name, value in seconds.items():
        print(f"{name:20s}{value:19.2f} s")
    report("partial of periodic", seconds[PARTIAL] / seconds[PERIODIC])
    report("periodic of fedavg", seconds[PERIODIC] / seconds[FEDAVG])


def memory() -> dict[str, float]:
    """Return the peak memory of this process after two rounds, in GB."""
    from tff_partial import runtime

    runtime.set_default()
    runner = Runner(PARTIAL, 128, 2)
    for _ in range(2):
        runner.run_round()
    return {"memory, GB": memory_mb("VmHWM") / 1024}


def report(label: str, value: float) -> None:
    print(f"{label:20s}{value:19.2f}    (at most {BARS[label]})", flush=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="rounds,memory", help="What to measure.")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds after warm-up.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    flags = parser.parse_args(argv)
    if flags.child:
        end_child(flags.child, memory())
    if "memory" in flags.only:
        for label, value in in_child("benchmarks.partial_averaging").items():
            report(label, value)
    if "rounds" in flags.only:
        rounds(flags.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
