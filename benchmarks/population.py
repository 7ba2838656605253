"""Memory over many rounds on Ray actors, with a population of which each round draws a few.

    python -m benchmarks.population [--clients=10000] [--rounds=200] [--nodes=2] [--json=FILE]

FedAvg on 784-200-200-10, 100 clients a round of 20 random images each, two actors. Prints the
memory of the driver and of each actor after the first round and after each quarter of the rounds,
and what the object stores hold. RSS counts pages of the object store that a process has read, PSS
its share of them; what is its own must not grow. The stores grow until each client's data have been
put once. With --nodes=2 on two nodes of this machine, with an actor each. Needs Ray (`make ray`).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from benchmarks.hosts import ACTORS, ENVIRONMENT
from benchmarks.measure import end_child, in_child, memory_mb, pss_mb, write_json

COHORT, EXAMPLES = 100, 20


@contextlib.contextmanager
def address(nodes: int) -> Iterator[str]:
    """Yield the address of a cluster of nodes on this machine; none for one node."""
    if nodes == 1:
        yield ""
        return
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on loopback
    from ray.cluster_utils import Cluster

    room = {"num_cpus": 1, "object_store_memory": 2 * 2**30}
    cluster = Cluster(initialize_head=True, head_node_args={**room, "include_dashboard": False})
    for _ in range(nodes - 1):
        cluster.add_node(**room)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


class Clients:
    """A population with random data."""

    def __init__(self, num_clients: int) -> None:
        import numpy as np

        rng = np.random.default_rng(0)
        self.num_clients = num_clients
        self._x = rng.integers(0, 256, (num_clients, EXAMPLES, 28, 28, 1), np.uint8)
        self._y = rng.integers(0, 10, (num_clients, EXAMPLES), np.int32)

    def client(self, client: int) -> tuple[Any, Any]:
        return self._x[client], self._y[client]


def measured(context: Any) -> dict[str, float]:
    """Return the memory of the driver, of the actors and of the object stores, in MB."""
    from ray._private import internal_api, state

    stores = internal_api.get_memory_info_reply(state.state).store_stats
    figures = {
        "object stores MB": stores.object_store_bytes_used / 1e6,
        "object stores objects": stores.num_local_objects,
        "put MB": context.bytes_put / 1e6,
    }
    actors = {f"actor {i}": pid for i, pid in enumerate(sorted(context.processes))}
    for name, pid in {"driver": os.getpid(), **actors}.items():
        figures[f"{name} own"] = memory_mb("RssAnon", pid)
        figures[f"{name} RSS"] = memory_mb("VmRSS", pid)
        figures[f"{name} PSS"] = pss_mb(pid)
    return figures


def population(clients: int, rounds: int, nodes: int) -> dict[str, Any]:
    """Return what was measured after the first round and after each quarter of them."""
    from benchmarks import works
    from tff_partial import runtime
    from tff_partial.algorithms import fedavg
    from tff_partial.core import lazy
    from tff_partial.experiments.participation import LoopOptions, Participation

    lazy.load()
    runtime.configure("in_process")
    work = dataclasses.replace(works.WORKS["mlp"], examples=EXAMPLES)
    process = fedavg.build(work.spec(), fedavg.Params(work.local))
    at = {1, *(rounds * quarter // 4 for quarter in range(1, 5))}
    figures: dict[str, Any] = {}
    with address(nodes) as where:
        options = runtime.RayOptions(address=where, actors=ACTORS)
        context: Any = runtime.set_default("ray", ray=options)
        participation = Participation(process, Clients(clients), LoopOptions(rounds, COHORT))
        state = process.initialize()
        for number in range(rounds):
            state = participation.run(state, number, participation.cohort(number)).state
            if number + 1 in at:
                figures[str(number + 1)] = measured(context)
        figures["place"] = context.place()
        context.close()
    return figures


def show(figures: dict[str, Any]) -> None:
    """Print what was measured, a row for each, and by how much it grew after the first quarter."""
    print(figures.pop("place"))
    rounds = list(figures)
    print(f"{'after round':<22}" + "".join(f"{r:>8}" for r in rounds) + "  growth from the second")
    for name in figures[rounds[0]]:
        row = [figures[r][name] for r in rounds]
        print(f"{name:<22}" + "".join(f"{v:8.0f}" for v in row) + f"{row[-1] - row[1]:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--clients", type=int, default=10_000, help="Size of the population.")
    parser.add_argument("--rounds", type=int, default=200, help="At least 4.")
    parser.add_argument("--nodes", type=int, default=1, help="Nodes on this machine.")
    parser.add_argument("--json", help="File for the figures.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        end_child(args.child, population(args.clients, args.rounds, args.nodes))
    flags = (f"--clients={args.clients}", f"--rounds={args.rounds}", f"--nodes={args.nodes}")
    figures = in_child("benchmarks.population", *flags, environment=ENVIRONMENT)
    write_json(args.json, figures)
    show(figures)


if __name__ == "__main__":
    main()
