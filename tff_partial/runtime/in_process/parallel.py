"""The threads in which clients run; their results are taken in the order of the clients."""

import concurrent.futures
import itertools
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import tensorflow as tf

Result = TypeVar("Result")
Work = Callable[[int, int], Result]
Finish = Callable[[int, Result], None]

# How many results may wait for a slower one before them, for each thread. It bounds the memory.
_WAITING_PER_THREAD = 2


class ClientThreads:
    """A fixed number of threads; with one, clients run in the calling thread."""

    def __init__(self, count: int):
        self._count = count
        self._pool = concurrent.futures.ThreadPoolExecutor(count, "tff-client")

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    def run_in_order(self, work: Work[Result], finish: Finish[Result], clients: int) -> None:
        """Call `finish(i, work(i, thread))` for each client i, in order; `work` in parallel.

        `thread` is the number of the thread that works, from 0.

        Raises:
          Exception: That of the first client that failed, with the client in its message. Work that
            has not begun by then is not begun.
        """
        turns = _Turns(work, finish, clients, self._count * (1 + _WAITING_PER_THREAD))
        threads = min(self._count, clients)
        if threads < 2:
            turns.run(0)
        else:
            try:
                concurrent.futures.wait([self._pool.submit(turns.run, i) for i in range(threads)])
            except BaseException:  # Control-C
                turns.stop()
                raise
        if turns.failures:
            client, error = min(turns.failures.items())
            raise with_client(error, client, clients) from error


class _Turns(Generic[Result]):
    """What the threads share during one call of `run_in_order`."""

    def __init__(self, work: Work[Result], finish: Finish[Result], clients: int, limit: int):
        self.failures: dict[int, Exception] = {}
        self._work = work
        self._finish = finish
        self._clients = clients
        self._next = itertools.count()
        self._room = threading.Semaphore(limit)  # for clients begun and not finished
        self._results: dict[int, Result] = {}
        self._finished = 0
        self._finishing = threading.Lock()

    def run(self, thread: int) -> None:
        """Work in one thread until no client is left or one has failed."""
        while self._room.acquire():
            client = next(self._next)
            if client >= self._clients or self.failures:
                self._room.release()  # other threads wait here and have to end, too
                return
            try:
                self._results[client] = self._work(client, thread)
            except Exception as error:
                self._fail(client, error)
            # A thread that finds another one finishing leaves its result to that one, which looks
            # for results again after it has released the lock.
            while self._can_finish() and self._finishing.acquire(blocking=False):
                self._finish_next()

    def stop(self) -> None:
        """Begin no more clients."""
        self._clients = 0
        self._room.release()

    def _can_finish(self) -> bool:
        return self._finished in self._results and not self.failures

    def _finish_next(self) -> None:
        try:
            if self._can_finish():
                self._finish(self._finished, self._results.pop(self._finished))
                self._finished += 1
                self._room.release()
        except Exception as error:
            self._fail(self._finished, error)
        finally:
            self._finishing.release()

    def _fail(self, client: int, error: Exception) -> None:
        self.failures[client] = error
        self._room.release()


def with_client(error: Exception, client: int, clients: int) -> Exception:
    """Return an error of the same kind with the client in its message."""
    where = f"client {client} of {clients} (counted from 0): "
    if isinstance(error, tf.errors.OpError) and type(error) is not tf.errors.OpError:
        return type(error)(error.node_def, error.op, where + error.message)
    return RuntimeError(f"{where}{type(error).__name__}: {error}")
