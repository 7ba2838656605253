"""Contact with workers: their addresses, gRPC channels, and whether they answer.

Imports no TFF, so that a bad address is refused at once.
"""

import re
from collections.abc import Sequence

import grpc

# A name, an IPv4 address, or an IPv6 address in brackets.
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}")
# A worker under load may miss one contact; three in a row mean that it is gone.
_CONTACTS = 3
_PROBE = "/tensorflow_federated.v0.ExecutorGroup/DisposeExecutor"


def check_addresses(workers: Sequence[str]) -> None:
    """Raise a ValueError unless `workers` are different addresses, host:port each."""
    if isinstance(workers, str) or not workers:
        raise ValueError(f"workers must list at least one host:port. Received: {workers=}")
    for address in workers:
        if not _ADDRESS.fullmatch(address) or not 1 <= int(address.rpartition(":")[2]) <= 65535:
            raise ValueError(
                f"workers must be host:port with a port from 1 to 65535. Received: {address!r}"
            )
    repeated = sorted({address for address in workers if list(workers).count(address) > 1})
    if repeated:
        raise ValueError(f"workers must differ. Received twice: {', '.join(repeated)}")


def open_channel(address: str) -> grpc.Channel:
    """Open a gRPC channel to a worker, without size limits of its own and without a proxy."""
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", 0),
        # A connection of its own, else gRPC hands out a shared one and its back-off.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return grpc.insecure_channel(address, options)


def answers(channel: grpc.Channel, timeout: float) -> bool:
    """Return whether a TFF worker is at the other end; a refused connection is known at once.

    The probe is a harmless call, to forget an executor that does not exist: gRPC's own watch over a
    channel's state raises in a thread of its own when the channel is closed.
    """
    try:
        channel.unary_unary(_PROBE)(b"", timeout=timeout)
    except grpc.RpcError:
        return False
    return True


def is_alive(address: str, timeout: float) -> bool:
    """Return whether a worker answers one of three contacts; one that is busy computing does."""
    for _ in range(_CONTACTS):
        with open_channel(address) as channel:
            if answers(channel, timeout):
                return True
    return False
