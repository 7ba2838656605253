"""The costs of a model beside the papers' figures."""

from tff_partial import tiers
from tff_partial.recipes import model_costs


def test_papers_figures_only_for_the_papers_input():
    changed = model_costs.report("femnist_cnn", (28, 28, 1), 10, 32, tiers.as_tiers(["strong"]))
    assert {row["paper"] for row in changed["rows"]} == {""}
