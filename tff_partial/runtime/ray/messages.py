"""What the driver and an actor tell each other. Imports neither Ray nor TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from typing_extensions import TypeAlias

if TYPE_CHECKING:
    from tff_partial.runtime.ray.wire import Packed

# Ray resolves references that are arguments; inside of a message the actor does, when it needs to.
Reference: TypeAlias = Any
"""An object reference of Ray."""


class Kept(NamedTuple):
    """An object in the store, and the name under which an actor remembers it."""

    name: bytes
    reference: Reference


Argument: TypeAlias = Union["Packed", Kept]
"""A client's value for a capture: as it is sent, or where it is."""


class Call(NamedTuple):
    """What some clients do in a level; they are of one tier.

    Attributes:
      plan: The compiled computation.
      level: The level.
      shared: The list of values that all clients of a round share.
      positions: For each capture that clients share: its position in this list.
      clients: For each client: the values of its other captures.
      add_up: Whether the results are to be added up.
    """

    plan: Kept
    level: int
    shared: Kept
    positions: list[int]
    clients: list[list[Argument]]
    add_up: bool


class Failure(NamedTuple):
    """An error of a client: the code of TensorFlow's errors, if it is one, and its text."""

    client: int
    code: Optional[int]
    text: str


class Reply(NamedTuple):
    """Results for each client before the one that failed, if one did, or their sums.

    Attributes:
      results: The values of the outputs.
      failure: The error of the next client, counted within the call.
      seconds: How long the actor took.
    """

    results: list[list[Packed]]
    failure: Optional[Failure]
    seconds: float


class Introduction(NamedTuple):
    """What an actor says of itself when it is ready."""

    node: str
    host: str
    process: int
    device: str
    gpus: str
    versions: tuple[tuple[str, str], ...]
