"""What the driver has put into Ray's object store: each thing once."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tff_partial.core.types import Tensor
from tff_partial.runtime.in_process.planner import Block
from tff_partial.runtime.ray import wire
from tff_partial.runtime.ray.messages import Kept, Reference
from tff_partial.runtime.ray.wire import Packed


class _Known(NamedTuple):
    tensor: weakref.ref[Tensor]
    kept: Kept


class Store:
    """Puts objects and remembers them; Ray frees what nobody refers to.

    A client's data set is found by the object that it is, or else by its content: the records of
    clients are made anew when they are drawn again after a long time.

    Attributes:
      bytes_put: How many bytes have been put.
    """

    def __init__(self, put: Callable[[object], Reference]) -> None:
        self._put = put
        self._by_id: dict[int, _Known] = {}
        self._by_content: dict[bytes, Kept] = {}
        self._rounds = 0
        self.bytes_put = 0

    def computation(self, block: Block) -> Kept:
        """Put a compiled computation; it is kept as long as what this returns."""
        serialized = block.proto.SerializeToString(deterministic=True)
        self.bytes_put += len(serialized)
        return Kept(hashlib.sha256(serialized).digest(), self._put(serialized))

    def shared(self, values: Sequence[Packed]) -> Kept:
        """Put what the clients of a round share."""
        self._rounds += 1
        self.bytes_put += wire.size_of(values)
        return Kept(b"%d" % self._rounds, self._put(list(values)))

    def data_set(self, variant: Tensor) -> Kept:
        """Put a client's data set unless it is there."""
        known = self._by_id.get(id(variant))
        if known is not None and known.tensor() is variant:
            return known.kept
        packed = wire.pack_sequence(variant)
        name = wire.digest(packed)
        kept = self._by_content.get(name)
        if kept is None:
            self.bytes_put += wire.size_of([packed])
            kept = Kept(name, self._put(packed))
            if isinstance(packed, wire.PackedElement):  # the bytes of a graph may differ next time
                self._by_content[name] = kept
        self._remember(variant, kept)
        return kept

    def clear(self) -> None:
        """Forget everything."""
        self._by_id.clear()
        self._by_content.clear()

    def _remember(self, variant: Tensor, kept: Kept) -> None:
        key, by_id = id(variant), self._by_id
        by_id[key] = _Known(weakref.ref(variant, lambda _: by_id.pop(key, None)), kept)
