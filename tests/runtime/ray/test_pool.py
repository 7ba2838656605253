"""The pool with a Ray that only counts; tests/runtime/ray/test_context.py has the real one."""

import types

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make ray")

import ray.exceptions

from tff_partial.runtime import RayOptions, WorkersLostError
from tff_partial.runtime.ray import pool as pools
from tff_partial.runtime.ray.messages import Introduction

VERSIONS = (("tensorflow", "2"),)


class FakeRay:
    """Nodes with CPUs and GPUs; an actor is ready when there is room for it."""

    exceptions = ray.exceptions

    def __init__(self, *nodes):
        self.free = [dict(node) for node in nodes]
        self._nodes, self._actors = [dict(node) for node in nodes], []
        self.versions = VERSIONS
        self.breaks = False

    def remote(self, **options):
        self.options = options
        return lambda actor_class: types.SimpleNamespace(remote=self._create)

    def _create(self, settings):
        number = len(self._actors)
        handle = types.SimpleNamespace(
            place=None,
            introduce=types.SimpleNamespace(remote=lambda: number),
            _actor_id=types.SimpleNamespace(binary=lambda: b"%d" % number),
        )
        self._actors.append(handle)
        return handle

    def wait(self, references, num_returns, timeout):
        ready = [r for r in references if self._has_place(self._actors[r])]
        return ready[:num_returns], [r for r in references if r not in ready[:num_returns]]

    def _has_place(self, handle):
        needs = {"CPU": self.options["num_cpus"], "GPU": self.options["num_gpus"]}
        for number, node in enumerate(self.free):
            if handle.place is None and all(node.get(k, 0) >= v for k, v in needs.items()):
                handle.place = number
                for name, need in needs.items():
                    node[name] = node.get(name, 0) - need
        return handle.place is not None

    def get(self, reference):
        if self.breaks:
            raise ray.exceptions.RayError("first line\nNo module named 'tff_partial'")
        place = self._actors[reference].place
        return Introduction(f"node {place}", f"host {place}", 1, "", "", self.versions)

    def kill(self, handle):
        if handle.place is not None:
            self.free[handle.place]["CPU"] += self.options["num_cpus"]

    def add_node(self, node):
        self.free.append(dict(node))
        self._nodes.append(dict(node))

    def nodes(self):
        return [{"Alive": True, "Resources": node} for node in self._nodes]

    def available_resources(self):
        return {name: sum(n.get(name, 0) for n in self.free) for name in ("CPU", "GPU")}

    def cluster_resources(self):
        return {name: sum(n.get(name, 0) for n in self._nodes) for name in ("CPU", "GPU")}


@pytest.fixture
def create(monkeypatch):
    """Return a pool on these nodes, and its Ray."""
    monkeypatch.setattr(pools, "versions", lambda: VERSIONS)
    monkeypatch.setattr(pools, "_LAST", 0.01)
    monkeypatch.setattr(pools, "_LOOK", 0.0)

    def create_pool(*nodes, **options):
        fake = FakeRay(*nodes)
        monkeypatch.setattr(pools, "ray", fake)
        for name in ("versions", "breaks"):
            if name in options:
                setattr(fake, name, options.pop(name))
        cluster = types.SimpleNamespace(check=lambda: None)
        return pools.Pool(RayOptions(**options), cluster), fake

    return create_pool


def test_as_many_actors_as_fit(create):
    pool, fake = create({"CPU": 3}, {"CPU": 2.5})
    assert pool.place() == "5 actors on 2 nodes"
    pool, _ = create({"CPU": 3}, {"CPU": 2.5}, cpus_per_actor=2)
    assert pool.place() == "2 actors on 2 nodes"
    pool, _ = create({"CPU": 16, "GPU": 2}, {"CPU": 16}, gpus_per_actor=0.5)
    assert pool.place() == "4 actors on 1 node"
    assert fake.options["max_restarts"] == 0
    pool, _ = create({"CPU": 3}, actors=1)
    assert pool.place() == "1 actor on 1 node"


def test_a_lost_actor_is_replaced_and_a_node_that_joins_is_used(create):
    pool, fake = create({"CPU": 2})
    first = pool.members[0]
    pool.lose(first)
    assert pool.place() == "1 actor on 1 node"
    pool.refresh()
    pool.refresh()
    assert pool.place() == "2 actors on 1 node"
    assert first not in pool.members
    fake.add_node({"CPU": 1})
    pool.refresh()
    assert pool.place() == "3 actors on 2 nodes"


def test_more_actors_than_fit_are_used_when_there_is_room(create, capsys):
    pool, fake = create({"CPU": 1}, actors=2)
    assert "1 of 2 actors have started" in capsys.readouterr().err
    fake.add_node({"CPU": 1})
    pool.refresh()
    assert pool.place() == "2 actors on 2 nodes"


def test_without_room_it_says_what_an_actor_needs(create):
    with pytest.raises(WorkersLostError, match="an actor needs 4 CPUs and 0 GPUs.*has 2 and 0"):
        create({"CPU": 2}, cpus_per_actor=4)
    with pytest.raises(WorkersLostError, match="needs 1 CPUs and 1 GPUs"):
        create({"CPU": 2}, gpus_per_actor=1)


def test_a_node_without_this_package_is_named_by_its_error(create):
    with pytest.raises(WorkersLostError, match="No module named 'tff_partial'"):
        create({"CPU": 1}, breaks=True)


def test_other_versions_are_refused(create):
    with pytest.raises(WorkersLostError, match="Received: tensorflow 3 on host 0"):
        create({"CPU": 1}, versions=(("tensorflow", "3"),))


def test_a_pool_whose_last_actor_is_lost_gives_up(create):
    pool, fake = create({"CPU": 1})
    fake.free[0]["CPU"] = -1  # its node has gone
    pool.lose(pool.members[0])
    with pytest.raises(WorkersLostError, match="no Ray actor is left"):
        pool.refresh()
