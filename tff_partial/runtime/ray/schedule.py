"""Which jobs a free actor gets next, and in which order results are used."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, Optional, TypeVar

Result = TypeVar("Result")


class Home(NamedTuple):
    """The actor that had a client's data last, and its node."""

    actor: Hashable
    node: str


class Schedule(Generic[Result]):
    """Gives jobs to whichever actor is free; results are used in the order of the jobs.

    A job goes to the actor that had its data last, or to another one on that node, unless these are
    behind: an actor that would wait takes what is there. Only the next `window` jobs from the first
    one without a used result are given, which bounds the results that wait for it.
    """

    def __init__(self, kinds: Sequence[Hashable], window: int) -> None:
        """Begin.

        Args:
          kinds: For each job: what it is; jobs that are given together are of one kind.
          window: How many jobs may be under way or wait for an earlier one.
        """
        self._kinds, self._window = kinds, window
        self._waiting = set(range(len(kinds)))
        self._results: dict[int, Result] = {}
        self._first = 0

    @property
    def done(self) -> bool:
        """Whether all results have been used."""
        return self._first == len(self._kinds)

    @property
    def waiting(self) -> int:
        """How many jobs nobody has."""
        return len(self._waiting)

    def take(self, actor: Home, most: int, home_of: Callable[[int], Optional[Home]]) -> list[int]:
        """Return the next jobs of a free actor, in order; none if it has to wait.

        Args:
          actor: The actor, and its node.
          most: How many jobs it may have.
          home_of: Says who had a job's data last.
        """
        end = self._first + self._window
        near = [job for job in range(self._first, end) if job in self._waiting]
        if not near:
            return []
        ranked = sorted((_distance(home_of(job), actor), job) for job in near)
        if ranked[0][0] == _ELSEWHERE:  # leave the others what they will need first
            ranked.reverse()
        chosen = [job for _, job in ranked if self._kinds[job] == self._kinds[ranked[0][1]]][:most]
        self._waiting.difference_update(chosen)
        return sorted(chosen)

    def give_back(self, jobs: Sequence[int]) -> None:
        """Let other actors take jobs that were lost."""
        self._waiting.update(jobs)

    def finish(self, job: int, result: Result) -> list[tuple[int, Result]]:
        """Return the results that can be used now, in order, with their jobs."""
        self._results[job] = result
        ready = []
        while self._first in self._results:
            ready.append((self._first, self._results.pop(self._first)))
            self._first += 1
        return ready


_HERE, _SAME_NODE, _NOWHERE, _ELSEWHERE = range(4)


def _distance(home: Optional[Home], actor: Home) -> int:
    if home is None:
        return _NOWHERE
    if home.actor == actor.actor:
        return _HERE
    return _SAME_NODE if home.node == actor.node else _ELSEWHERE
