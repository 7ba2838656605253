"""The addresses of workers. Imports no TFF, so that a bad one is refused at once."""

import re
from collections.abc import Sequence

# A name, an IPv4 address, or an IPv6 address in brackets.
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}")


def check(workers: Sequence[str]) -> None:
    """Raises a ValueError unless `workers` are different addresses, host:port each."""
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
