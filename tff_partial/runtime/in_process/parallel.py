"""Work in threads whose results are taken in order."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf

# How many results may wait for a slower one before them, for each thread. It bounds the memory.
_WAITING_PER_THREAD = 2


def in_order(
    work: Callable[[int], Any],
    finish: Callable[[int, Any], None],
    count: int,
    pool: Optional[concurrent.futures.Executor],
    threads: int,
) -> None:
    """Calls `finish(i, work(i))` for i = 0 ... count - 1.

    `work` runs in parallel, `finish` one at a time and in order.

    Args:
      work: computes a result.
      finish: takes it; no second call starts before the first one has returned.
      count: how many there are.
      pool: where the work is done; without one it is done in this thread.
      threads: how much work is done at a time.

    Raises:
      Exception: that of the first position that failed, the position in its message. Later work
        that has not begun by then is not begun.
    """
    turns = _Turns(work, finish, count, limit=threads * (1 + _WAITING_PER_THREAD))
    if pool is None or threads == 1 or count < 2:
        turns.run()
    else:
        concurrent.futures.wait([pool.submit(turns.run) for _ in range(min(threads, count))])
    turns.raise_first_failure()


class _Turns:
    def __init__(
        self, work: Callable[[int], Any], finish: Callable[[int, Any], None], count: int, limit: int
    ):
        self._work = work
        self._finish = finish
        self._count = count
        self._limit = limit
        self._changed = threading.Condition()
        self._started = 0
        self._finished = 0
        self._finishing = False
        self._waiting: dict[int, Any] = {}
        self._failures: dict[int, Exception] = {}

    def run(self) -> None:
        """What each thread does until nothing is left."""
        while (position := self._next()) is not None:
            try:
                result = self._work(position)
            except Exception as error:
                self._fail(position, error)
                return
            with self._changed:
                self._waiting[position] = result
            del result  # the next one must not have to share the memory with it
            self._finish_waiting()

    def raise_first_failure(self) -> None:
        if self._failures:
            position = min(self._failures)
            error = self._failures[position]
            raise _with_position(error, position, self._count) from error

    def _next(self) -> Optional[int]:
        with self._changed:
            self._changed.wait_for(
                lambda: self._failures
                or self._started < min(self._count, self._finished + self._limit)
                or self._started == self._count
            )
            if self._failures or self._started == self._count:
                return None
            self._started += 1
            return self._started - 1

    def _fail(self, position: int, error: Exception) -> None:
        with self._changed:
            self._failures[position] = error
            self._changed.notify_all()

    def _take(self) -> Optional[tuple[int, Any]]:
        """The next result in order, if it is there; whoever finishes goes on until it is not."""
        with self._changed:
            if self._finished not in self._waiting or self._failures:
                self._finishing = False
                return None
            return self._finished, self._waiting.pop(self._finished)

    def _finish_waiting(self) -> None:
        with self._changed:
            if self._finishing:
                return
            self._finishing = True
        while (taken := self._take()) is not None:
            try:
                self._finish(*taken)
            except Exception as error:
                self._fail(taken[0], error)
                continue
            del taken
            with self._changed:
                self._finished += 1
                self._changed.notify_all()


def _with_position(error: Exception, position: int, count: int) -> Exception:
    """The same kind of error, with the client in the message."""
    where = f"client {position} of {count} (counted from 0): "
    if isinstance(error, tf.errors.OpError) and type(error) is not tf.errors.OpError:
        return type(error)(error.node_def, error.op, where + error.message)
    return RuntimeError(f"{where}{type(error).__name__}: {error}")
