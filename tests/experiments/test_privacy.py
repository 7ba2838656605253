"""Epsilon, the noise for it, and what goes with differential privacy."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

from tff_partial.experiments import config, privacy
from tff_partial.experiments.privacy import Accounting

PRIVATE = {"aggregation": "dp", "dp_noise_multiplier": 1.0}


def test_poisson_is_dp_accountings():
    gaussian = dp_accounting.GaussianDpEvent(1.1)
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.01, gaussian), 1000)
    found = Accounting(1.1, 5000, 50, "poisson", 1e-5).epsilon(1000)
    assert found == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)


def test_of_a_fixed_number_the_noise_counts_half():
    gaussian = dp_accounting.GaussianDpEvent(2.0)  # a client is replaced: twice the clip
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountant = rdp.RdpAccountant(neighboring_relation=relation)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(100, 10, gaussian), 7)
    found = Accounting(4.0, 100, 10, "fixed", 1e-3).epsilon(7)
    assert found == pytest.approx(accountant.get_epsilon(1e-3), rel=1e-9)


def test_everybody_in_every_round_is_the_gaussian_mechanism():
    everybody = Accounting(5.0, 8, 8, "poisson", 1e-3)
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(5.0), 3)
    assert everybody.epsilon(3) == pytest.approx(accountant.get_epsilon(1e-3), rel=1e-9)
    assert everybody.epsilon(1) < everybody.epsilon(2)
    assert Accounting(0.0, 8, 8, "poisson", 1e-3).epsilon(1) == np.inf


def test_the_noise_for_a_target_is_the_smallest():
    drawn = 40, 4, "poisson", 40**-1.1
    noise = privacy.noise_for(8.0, 9, *drawn)
    assert Accounting(noise, *drawn).epsilon(9) <= 8.0
    assert Accounting(noise - 1e-4, *drawn).epsilon(9) > 8.0


def test_what_a_target_stands_for_is_kept():
    given = {"clients": 40, "clients_per_round": 4, "rounds": 9}
    by_target = config.create("mnist", "fedavg", aggregation="dp", target_epsilon=8.0, **given)
    settings = by_target.settings
    assert settings.target_epsilon is None
    assert settings.dp_delta == 40**-1.1
    assert privacy.accounting(settings).epsilon(9) == pytest.approx(8.0, abs=0.01)
    noise = settings.dp_noise_multiplier
    again = config.create("mnist", "fedavg", aggregation="dp", dp_noise_multiplier=noise, **given)
    assert again.settings == settings


def test_every_client_counts_the_same_and_takes_part_by_chance():
    private = config.create("mnist", "fedavg", **PRIVATE)
    assert private.params["weighting"] == "uniform"
    assert private.settings.sampling == "poisson"
    fixed = config.create("mnist", "fedavg", sampling="fixed", **PRIVATE).settings
    assert fixed.sampling == "fixed"
    with pytest.raises(ValueError, match="weighting must be uniform with aggregation='dp'"):
        config.create("mnist", "fedavg", fedavg_weighting="examples", **PRIVATE)


def test_contributors_of_each_tier_are_expected_ones():
    tiers = {"clients": 20, "clients_per_round": 10, "tiers": "strong:4,moderate:4,weak:12"}
    aggregator = config.aggregator_of(config.create("mnist", "embracing", **tiers, **PRIVATE))
    assert aggregator.contributors == (2.0, 2.0, 6.0)
    drawn = {"clients_per_round": 10, "capacities": "1/2:0.2,1/16:0.8"}
    aggregator = config.aggregator_of(config.create("mnist", "heterofl", **drawn, **PRIVATE))
    assert aggregator.contributors == pytest.approx((2.0, 8.0))


@pytest.mark.parametrize(
    ("algo", "given", "named"),
    [
        ("fedavg", {"aggregation": "dp"}, "exactly one of dp_noise_multiplier and target_epsilon"),
        ("fedavg", {**PRIVATE, "target_epsilon": 8.0}, "exactly one of dp_noise_multiplier"),
        ("fedavg", {"dp_clip": 1.0}, "dp_clip must be given with aggregation dp"),
        ("fedavg", {"robust_clip": 1.0}, "robust_clip must be given with aggregation robust"),
        ("fedavg", {"secure_bound": 1.0}, "secure_bound must be given with aggregation secure"),
        ("fedavg", {"aggregation": "median"}, "aggregation must be one of mean, robust"),
        ("fedavg", {"sampling": "all"}, "sampling must be one of fixed, poisson"),
        ("fedavg", {**PRIVATE, "dp_clip": 0.0}, "dp_clip must be a positive"),
        ("fedavg", {**PRIVATE, "dp_delta": 1.0}, "dp_delta must be in"),
        ("fedavg", {**PRIVATE, "dp_noise_multiplier": -1.0}, "dp_noise_multiplier must be finite"),
        ("fedavg", {**PRIVATE, "sampler": "math:gcd"}, "sampler must not be given"),
        ("fedavg", {**PRIVATE, "evaluate": "clients"}, "evaluate must be server"),
        ("scaffold", PRIVATE, "aggregation must not be dp with scaffold: clients keep"),
        ("feddse", PRIVATE, "aggregation must not be dp with feddse: which neurons"),
        ("vrl_sgd", {"aggregation": "secure"}, "aggregation must not be secure with vrl_sgd"),
        ("vrl_sgd", {"sampling": "poisson"}, "sampling must be fixed"),
        ("heterofl", {**PRIVATE, "model": "resnet20"}, "normalization must not be static"),
    ],
)
def test_what_does_not_fit_is_refused(algo, given, named):
    with pytest.raises(ValueError, match=rf"{named}.*Received"):
        config.create("cifar10", algo, **given)
