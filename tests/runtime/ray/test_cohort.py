"""A cohort on actors that answer, fail or die as they are told, without a Ray that runs."""

import collections
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

pytest.importorskip("ray", reason="Ray is not installed: make ray")

import ray.exceptions

from tff_partial.runtime import WorkersLostError
from tff_partial.runtime.in_process.execution import ClientStage
from tff_partial.runtime.in_process.steps import CLIENTS, SERVER, Leaf
from tff_partial.runtime.ray import cohort as cohorts
from tff_partial.runtime.ray.cohort import Cohort, Memory, RemoteStage
from tff_partial.runtime.ray.messages import Failure, Kept, Reply
from tff_partial.runtime.ray.schedule import Home
from tff_partial.runtime.ray.store import Store

NUMBER = tff.TensorType(np.float32)
INPUT, SHARED, OUTPUT = Leaf(NUMBER, CLIENTS), Leaf(NUMBER, SERVER), Leaf(NUMBER, CLIENTS)


class Answer:
    """What an actor will return, or why it will not."""

    def __init__(self, reply=None, error=None):
        self.reply, self.error = reply, error


class Actor:
    """Returns shared + own for each client, after some calls of the others."""

    def __init__(self, name, objects, log):
        self.name, self.objects, self.log, self.dies = name, objects, log, 0
        self.error = ray.exceptions.ActorDiedError()
        self.run = types.SimpleNamespace(remote=self._run)

    def _run(self, call):
        self.log.append((self.name, len(call.clients)))
        if self.dies:
            self.dies -= 1
            return Answer(error=self.error)
        (shared,) = (self.objects[call.shared.reference][i] for i in call.positions)
        results, failure = [], None
        for client, (own,) in enumerate(call.clients):
            if own < 0:
                failure = Failure(client, tf.errors.INVALID_ARGUMENT, "negative")
                break
            results.append([shared + own])
        if call.add_up:
            results = [[np.sum([values[0] for values in results])]]
        reply = Reply(results, failure, 0.001 * len(call.clients))
        return Answer(reply)


class World:
    """A pool of actors, a store, and what a cohort finishes."""

    def __init__(self, monkeypatch, actors=2):
        self.objects, self.log, self.finished, self.lost = {}, [], [], []
        self.memory = Memory()
        self.store = Store(self._put)
        self.actors = [Actor(f"actor {i}", self.objects, self.log) for i in range(actors)]
        self.members = [
            types.SimpleNamespace(handle=actor, home=Home(actor.name, "node"))
            for actor in self.actors
        ]
        self.starting = []
        monkeypatch.setattr(cohorts.ray, "wait", lambda refs, **_: (refs[-1:], refs[:-1]))
        monkeypatch.setattr(cohorts.ray, "get", self._get)

    def _put(self, value):
        self.objects[len(self.objects)] = value
        return len(self.objects) - 1

    def _get(self, reference):
        if reference.error:
            raise reference.error
        return reference.reply

    def check(self): ...

    def lose(self, member):
        self.lost.append(member)  # it is replaced at once

    def run(self, own, add_up=False):
        stage = ClientStage([SHARED, INPUT], [OUTPUT], RemoteStage(Kept(b"p", 0), 0, add_up))
        known = {SHARED: np.float32(100), INPUT: [np.float32(x) for x in own]}
        level = types.SimpleNamespace(kept=[OUTPUT], folds=[])

        def finish(client, results):
            self.finished.append((client, float(results[OUTPUT])))

        stages = [stage] * len(own)
        Cohort(self, self.store, self.memory, level, known, stages, finish).run()


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_results_come_in_the_order_of_the_clients(world):
    world.run(range(20))
    assert world.finished == [(i, 100.0 + i) for i in range(20)]
    assert {name for name, _ in world.log} == {"actor 0", "actor 1"}
    assert world.memory.used == {member.home for member in world.members}


def test_short_clients_share_a_call_once_it_is_known_that_they_are_short(world):
    world.run(range(40))
    assert {clients for _, clients in world.log} == {1}
    world.log.clear()
    world.run(range(40))
    assert max(clients for _, clients in world.log) == 8
    assert sum(clients for _, clients in world.log) == 40


NODE_DIES = ray.exceptions.RayTaskError("run", "get", ConnectionResetError("by peer"))


@pytest.mark.parametrize("error", [ray.exceptions.ActorDiedError(), NODE_DIES])
def test_a_lost_client_is_computed_again(world, error):
    world.actors[0].dies, world.actors[0].error = 2, error
    world.run(range(6))
    assert world.finished == [(i, 100.0 + i) for i in range(6)]
    assert len(world.lost) == 2


def test_a_client_that_takes_every_actor_down_ends_the_round(world):
    for actor in world.actors:
        actor.dies = 1000
    with pytest.raises(WorkersLostError, match=r"client \d of 6 .* lost its actor 4 times"):
        world.run(range(6))


def test_the_error_of_a_client_has_its_position_and_is_not_repeated(world):
    world.run(range(40))  # now they share calls
    world.log.clear()
    with pytest.raises(tf.errors.InvalidArgumentError, match="client 3 of 9 .*negative"):
        world.run([0, 1, 2, -1, 4, 5, 6, 7, 8])
    counts = collections.Counter(clients for _, clients in world.log)
    assert sum(size * count for size, count in counts.items()) <= 9


def test_an_error_of_the_actor_itself_is_not_taken_for_a_loss(world, monkeypatch):
    def fail(reference):
        raise ray.exceptions.RayTaskError("run", "trace", KeyError("x"))

    monkeypatch.setattr(cohorts.ray, "get", fail)
    with pytest.raises(RuntimeError, match="an actor failed"):
        world.run(range(3))
    assert not world.lost


def test_partial_sums_are_finished_once_for_each_share(world):
    world.run(range(40), add_up=True)
    assert [client for client, _ in world.finished] == list(range(0, 40, 5))
    assert sum(total for _, total in world.finished) == 40 * 100 + sum(range(40))
    assert {clients for _, clients in world.log} == {5}
