"""FedPMT: its rounds, and the mask that a device picks."""

import pytest

from tests.algorithms import layer_rounds
from tests.algorithms.layer_rounds import LOCAL, spec
from tff_partial.algorithms import fedpmt
from tff_partial.core.local_training import LocalTraining


class TestRounds(layer_rounds.Rounds):
    name = "fedpmt"
    moved = (*[False] * 4, *[True] * 4)


def cost(model, params):
    """What a round costs a client of the only tier."""
    return fedpmt.cost(model, params, *params.tiers)


def test_devices_pick_the_largest_mask_that_their_capability_allows():
    model = spec()
    local = LocalTraining(epochs=1, batch_size=12)
    shares = [cost(model, fedpmt.Params(local, (str(k),))).operations(1, 12, 12) for k in range(4)]
    for k, share in enumerate(shares):
        capability = f"{min(share / shares[0] + 0.006, 0.99):.2f}"
        params = fedpmt.Params(local, (capability,), option="device")
        chosen = cost(model, params)
        expected = max(k, 1)  # the whole model does not fit below 1
        assert chosen.operations(1, 12, 12) == shares[expected]
    offered = fedpmt.Params(local, ("0.99",), option="device", masks="0,3")
    assert cost(model, offered).operations(1, 12, 12) == shares[3]
    too_weak = fedpmt.Params(local, ("0.01",), option="device")
    with pytest.raises(ValueError, match="capability must be at least .* Received: 0.01"):
        cost(model, too_weak)


@pytest.mark.parametrize(
    ("masks", "tier", "removed"),
    [
        ("", "strong", 0),
        ("", "moderate", 1),
        ("", "weak", 2),
        ("", "3", 3),
        ("0,3", "strong", 0),
        ("0,3", "moderate", 3),
        ("0,3", "weak", 3),
        ("3,2", "1", 2),
        ("1,2", "strong", 1),
    ],
)
def test_a_device_of_a_named_tier_picks_from_what_is_offered(masks, tier, removed):
    device = fedpmt.Params(LOCAL, (tier,), option="device", masks=masks)
    server = fedpmt.Params(LOCAL, (str(removed),))
    assert cost(spec(), device) == cost(spec(), server)


def test_no_mask_for_a_named_tier_is_an_error():
    device = fedpmt.Params(LOCAL, ("strong", "weak"), option="device", masks="0,1")
    message = r"^masks must have one of at least 2 for the tier 'weak'\. Received: masks='0,1'$"
    with pytest.raises(ValueError, match=message):
        fedpmt.build(spec(), device)
