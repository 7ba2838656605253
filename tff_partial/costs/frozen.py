"""What frozen layers (`trainable = False`) do not compute.

| layer                                  | forward | error signal | gradient | activations kept |
|----------------------------------------|---------|--------------|----------|------------------|
| trained                                | yes     | yes          | yes      | yes              |
| frozen, after one that is trained      | yes     | yes          | no       | yes              |
| frozen, before everything that is      | yes     | no           | no       | no               |
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Sequence
from typing import Callable

from tff_partial.core.types import Layer, Structure

Counts = list[collections.Counter[str]]


def note_trained(layers: Iterable[Layer], calls: Sequence[object]) -> list[int]:
    """Return a list that receives len(calls) whenever a layer that is trained is called."""
    noted: list[int] = []
    for layer in layers:
        if getattr(layer, "_trainable_weights", ()) and layer.trainable:
            layer.call = _noting(layer.call, calls, noted)
    return noted


def left_out(layers: Sequence[Layer], counts: Counts, noted: Sequence[int]) -> Counts:
    """Return the counts of calls of these layers without what is not computed."""
    trained = [bool(layer.trainable_variables) for layer in layers]
    first = min([*noted, *(i for i, is_trained in enumerate(trained) if is_trained), len(layers)])
    return [_reduced(n, trained[i], i >= first) for i, n in enumerate(counts)]


def _noting(
    call: Callable[..., Structure], calls: Sequence[object], noted: list[int]
) -> Callable[..., Structure]:
    @functools.wraps(call)
    def noting(*args: Structure, **kwargs: Structure) -> Structure:
        noted.append(len(calls))
        return call(*args, **kwargs)

    return noting


def _reduced(
    count: collections.Counter[str], is_trained: bool, is_reached: bool
) -> collections.Counter[str]:
    if is_trained:
        return count
    backward = {"backward": count["error"], "update": 0}
    nothing = dict.fromkeys(("activations", "error", "backward"), 0)
    return collections.Counter({**count, **backward, **({} if is_reached else nothing)})
