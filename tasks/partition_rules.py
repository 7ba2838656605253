"""The rules of `tasks.partition`, each a pure function of labels (or writers) and a seed."""

from __future__ import annotations

from typing import Optional

import numpy as np

from .assignment import Partition, contiguous, from_counts, from_owners

MINIMUM = 10
MAX_REDRAWS = 2000


def iid(labels: np.ndarray, clients: int, seed: int, size: Optional[int] = None) -> Partition:
    """Shuffle; sizes are equal up to one, or all are `size` and the rest is dropped."""
    _check_enough(len(labels), clients, size or 1)
    order = np.random.default_rng(seed).permutation(len(labels))
    if size is not None:
        return contiguous(order[: clients * size], np.full(clients, size))
    return contiguous(order, np.diff(np.arange(clients + 1) * len(labels) // clients))


def unbalanced(labels: np.ndarray, clients: int, seed: int, sigma: float = 0.3) -> Partition:
    """Shuffle; sizes are log-normal(0, sigma) shares of all examples, at least one each."""
    _check_enough(len(labels), clients)
    rng = np.random.default_rng(seed)
    shares = np.cumsum(rng.lognormal(0.0, sigma, clients))
    cuts = np.round(shares / shares[-1] * (len(labels) - clients)).astype(np.int64)
    return contiguous(rng.permutation(len(labels)), 1 + np.diff(cuts, prepend=0))


def dirichlet(
    labels: np.ndarray, clients: int, seed: int, alpha: float, fill: bool = False
) -> Partition:
    """Share out each class by Dirichlet(alpha) over the clients; all examples are used.

    A client that already holds N/K examples receives no more. Redrawn until the smallest client has
    10. With few classes and a small alpha no draw does (128 clients, 2 classes, alpha 0.1): `fill`
    then tops small clients up to 10 with random examples of the largest ones.

    Raises:
      ValueError: when 2,000 draws leave a client with less than 10 and `fill` is off.
    """
    _check_enough(len(labels), clients, MINIMUM)
    rng = np.random.default_rng(seed)
    amounts = np.bincount(labels)
    for _ in range(1 if fill else MAX_REDRAWS):
        counts = _draw_dirichlet(amounts, clients, alpha, rng)
        if counts.sum(axis=0).min() >= MINIMUM:
            return from_counts(labels, counts, rng)
    if fill:
        return from_counts(labels, _filled(counts, rng), rng)
    raise ValueError(
        f"dirichlet must leave every client {MINIMUM} examples and no draw of {MAX_REDRAWS} did: "
        f"use fewer clients, a larger alpha or dirichlet:{alpha:g},fill. Received: "
        f"alpha={alpha:g}, clients={clients}"
    )


def _draw_dirichlet(
    amounts: np.ndarray, clients: int, alpha: float, rng: np.random.Generator
) -> np.ndarray:
    """Return one draw of examples of each class [class] for each client [client]."""
    counts = np.zeros((len(amounts), clients), np.int64)
    for label, amount in enumerate(amounts):
        open_clients = counts.sum(axis=0) < amounts.sum() / clients
        shares = np.nan_to_num(rng.dirichlet(np.full(clients, alpha))) * open_clients
        shares = np.cumsum(shares if shares.sum() > 0 else open_clients)
        counts[label] = np.diff(np.round(shares / shares[-1] * amount).astype(np.int64), prepend=0)
    return counts


def _filled(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move random examples from the largest clients to those with less than the minimum."""
    counts, sizes = counts.copy(), counts.sum(axis=0)
    for client in np.flatnonzero(sizes < MINIMUM):
        while sizes[client] < MINIMUM:
            donor = int(np.argmax(sizes))
            amount = min(MINIMUM - sizes[client], sizes[donor] - MINIMUM)
            moved = rng.multivariate_hypergeometric(counts[:, donor], amount)
            counts[:, donor] -= moved
            counts[:, client] += moved
            sizes = counts.sum(axis=0)
    return counts


def dirichlet_per_client(labels: np.ndarray, clients: int, seed: int, alpha: float) -> Partition:
    """Give N // K examples a client, classes from its own Dirichlet(alpha); drop the remainder.

    Examples are drawn without replacement; a draw from an exhausted class is repeated among the
    others. The draws of all clients are made in sweeps, in random order, rather than one by one.
    """
    _check_enough(len(labels), clients)
    rng = np.random.default_rng(seed)
    left = np.bincount(labels)
    priors = np.nan_to_num(rng.dirichlet(np.full(len(left), alpha), clients))
    counts = np.zeros((len(left), clients), np.int64)
    slots = rng.permutation(np.repeat(np.arange(clients), len(labels) // clients))
    while len(slots):
        drawn = _draw_classes(priors, left > 0, slots, rng)
        accepted = _rank_in_group(drawn) < left[drawn]
        np.add.at(counts, (drawn[accepted], slots[accepted]), 1)
        left = left - np.bincount(drawn[accepted], minlength=len(left))
        slots = slots[~accepted]
    return from_counts(labels, counts, rng)


def _draw_classes(
    priors: np.ndarray, open_classes: np.ndarray, slots: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw a class for each slot (a client number) from its prior over the open classes."""
    weights = priors * open_classes
    weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, open_classes)
    ends = np.cumsum(weights, axis=1)
    # One sorted line of all clients' cumulated shares, client k in [k, k + 1), makes it one search.
    line = (ends / ends[:, -1:] + np.arange(len(priors))[:, None]).ravel()
    found = np.searchsorted(line, slots + rng.random(len(slots)), side="right")
    return np.clip(found - slots * priors.shape[1], 0, priors.shape[1] - 1)


def _rank_in_group(values: np.ndarray) -> np.ndarray:
    """Return how many equal values stand before each value."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(values))])[values[order]]
    ranks[order] = np.arange(len(values)) - starts
    return ranks


def classes(
    labels: np.ndarray, clients: int, seed: int, per_client: int, size: Optional[int] = None
) -> Partition:
    """Give `per_client` classes a client; numbers of holders of a class differ by at most one.

    A class is shared out evenly among its holders, so that sizes differ as the classes' sizes do;
    or every client has `size / per_client` examples of each of its classes and the rest is
    dropped. A class nobody holds is dropped.
    """
    _check_enough(len(labels), clients, size or per_client)
    _, labels, amounts = np.unique(labels, return_inverse=True, return_counts=True)
    if per_client > len(amounts) or (size or 0) % per_client:
        raise ValueError(
            f"classes:L,SIZE must have L of at most {len(amounts)} classes and a SIZE that L "
            f"divides. Received: L={per_client}, SIZE={size}"
        )
    rng = np.random.default_rng(seed)
    held = _holders(len(amounts), clients, per_client, rng)
    each = 1 if size is None else size // per_client
    counts = _even_shares(amounts, held)
    if counts[held].min() < each:
        raise ValueError(
            f"classes must find {each} examples of each class a client holds, and the smallest "
            f"share has {counts[held].min()}: use fewer clients. Received: clients={clients}"
        )
    return from_counts(labels, counts if size is None else held * each, rng)


def _even_shares(amounts: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return examples [class, client]: each class in equal parts, up to one, for its holders."""
    holders = held.sum(axis=1, keepdims=True)
    shares = amounts[:, None] // np.maximum(holders, 1)
    extra = np.cumsum(held, axis=1) <= amounts[:, None] - shares * holders
    return held * (shares + extra)


def _holders(
    num_classes: int, clients: int, per_client: int, rng: np.random.Generator
) -> np.ndarray:
    """Return who holds what [class, client]: the least held classes first, ties at random."""
    held = np.zeros((num_classes, clients), bool)
    load = np.zeros(num_classes)
    for client in range(clients):
        chosen = np.argsort(load + rng.random(num_classes))[:per_client]
        held[chosen, client] = True
        load[chosen] += 1
    return held


def natural(
    writers: Optional[np.ndarray], clients: int, seed: int, per_client: int = 1
) -> Partition:
    """Give all examples of `per_client` random writers a client; drop other writers."""
    if writers is None:
        raise ValueError(
            "partition must not be natural for data without writers. Received: partition=natural"
        )
    names, ids = np.unique(writers, return_inverse=True)
    if clients * per_client > len(names):
        raise ValueError(
            f"clients must be at most {len(names) // per_client} for {len(names)} writers, "
            f"{per_client} a client. Received: clients={clients}"
        )
    rng = np.random.default_rng(seed)
    owners = np.full(len(names), -1)
    owners[rng.permutation(len(names))[: clients * per_client]] = np.repeat(
        np.arange(clients), per_client
    )
    return from_owners(owners[ids], clients, rng)


def bootstrap(labels: np.ndarray, clients: int, seed: int, size: int) -> Partition:
    """Draw `size` examples a client with replacement, a pure function of (seed, client)."""

    def draw(client: int) -> np.ndarray:
        return np.random.default_rng([seed, client]).integers(len(labels), size=size)

    return Partition(np.broadcast_to(np.int64(size), (clients,)), draw)


def _check_enough(examples: int, clients: int, each: int = 1) -> None:
    if clients * each > examples:
        raise ValueError(
            f"clients must be at most {examples // each} for {examples} examples, {each} or more "
            f"a client (bootstrap:SIZE has no limit). Received: clients={clients}"
        )
