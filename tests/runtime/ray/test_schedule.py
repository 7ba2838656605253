"""Simulated rounds: who gets what, and when results are used."""

import heapq

import numpy as np
import pytest

from tff_partial.runtime.ray.schedule import Home, Schedule

A, B, C = Home("a", "node 1"), Home("b", "node 1"), Home("c", "node 2")


def nobody(job):
    """Say that no actor had the data of a job."""
    return


def simulate(schedule, actors, seconds, most=1):
    """Run all jobs; return when each ended, who had it, the order of use and the most waiting."""
    now, running, who, order, unused, waiting = 0.0, [], {}, [], set(), 0
    free = list(actors)
    while not schedule.done:
        for actor in list(free):
            jobs = schedule.take(actor, most, nobody)
            if jobs:
                free.remove(actor)
                heapq.heappush(running, (now + sum(seconds[j] for j in jobs), jobs, actor))
                who.update(dict.fromkeys(jobs, actor))
        now, jobs, actor = heapq.heappop(running)
        free.append(actor)
        for job in jobs:
            unused.add(job)
            used = [done for done, result in schedule.finish(job, job * 10) if result == done * 10]
            order += used
            unused -= set(used)
        waiting = max(waiting, len(unused))
    return now, who, order, waiting


@pytest.mark.parametrize("most", [1, 3])
def test_every_job_is_used_once_in_order_and_few_wait(most):
    seconds = np.random.default_rng(0).exponential(size=50)
    seconds[0] = 100.0  # all others would wait for it
    schedule = Schedule([0] * 50, window=9)
    end, who, order, waiting = simulate(schedule, [A, B, C], seconds, most)
    assert order == list(range(50))
    assert set(who) == set(range(50))
    assert waiting <= 9


def test_uneven_jobs_go_to_whoever_is_free():
    seconds = [8.0, *[1.0] * 8]
    schedule = Schedule([0] * 9, window=9)
    end, who, _, _ = simulate(schedule, [A, B], seconds)
    assert end == 8.0
    assert [job for job, actor in who.items() if actor == A] == [0]


def test_a_job_goes_to_the_actor_that_had_it_or_to_its_node():
    home_of = [C, C, A, B, None].__getitem__
    schedule = Schedule([0] * 5, window=5)
    assert schedule.take(A, 1, home_of) == [2]  # its own
    assert schedule.take(A, 1, home_of) == [3]  # of its node
    assert schedule.take(A, 1, home_of) == [4]  # nobody's
    assert schedule.take(A, 1, home_of) == [1]  # C is behind: what it would need last
    assert schedule.take(C, 1, home_of) == [0]
    assert schedule.take(C, 1, home_of) == []


def test_jobs_that_are_given_together_are_of_one_kind():
    schedule = Schedule(["x", "y", "x", "x"], window=4)
    assert schedule.take(A, 2, nobody) == [0, 2]
    assert schedule.take(A, 2, nobody) == [1]
    assert schedule.take(A, 2, nobody) == [3]


def test_lost_jobs_are_given_again():
    schedule = Schedule([0, 0], window=2)
    assert schedule.take(A, 2, nobody) == [0, 1]
    assert schedule.waiting == 0
    schedule.give_back([0, 1])
    assert schedule.take(B, 1, nobody) == [0]
    assert schedule.finish(0, None) == [(0, None)]
    assert not schedule.done
