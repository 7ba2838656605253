"""FedDF: the mean of the clients' models, distilled from their ensemble."""

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.submodel_rounds import LOCAL
from tests.references import distillation
from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
from tff_partial import tiers

EXAMPLES = tiny.server_examples(40)


@pytest.mark.parametrize("rates", [("1",), ("1", "1/2", "1/4")])
def test_equals_numpy(rates):
    data, (net, spec) = client_data("dense"), NETS["dense"]
    params = {"examples": 40, "steps": 6, "learning_rate": 0.01, "tiers": rates}
    process = tiny.build("feddf", LOCAL, spec, server_examples=lambda n: EXAMPLES[:n], **params)
    rounds = tiny.Rounds(process, data, tiers=len(rates))
    weights = as_dict("dense", rounds.weights())
    local = {"lr": 0.2, "momentum": 0.9, "weight_decay": 0.01, "clip_norm": 1.0}
    for round_num in range(2):
        clients = []
        for i, ((x, y), record) in enumerate(zip(data, rounds.records)):
            rate = tiers.create(rates[i % len(rates)], are_rates=True).rate
            full = reference.widths(weights)
            kept = [reference.ordered(reference.size(rate, m), m) for m in full]
            batches = tiny.batches(record, round_num, LOCAL)
            clients.append({"x": x, "y": y, "kept": kept, "batches": batches})
        trained = [
            reference.train(net, reference.extract(weights, c["kept"]), c, **local) for c in clients
        ]
        logits = distillation.ensemble(net, trained, EXAMPLES)
        mean = reference.federated_round(net, weights, clients, "examples", **local)
        weights = distillation.distilled(net, mean, logits, EXAMPLES, 6, 0.01)
        rounds.next()
        for name, value in as_dict("dense", rounds.weights()).items():
            np.testing.assert_allclose(value, weights[name], atol=2e-5, err_msg=name)


def test_must_have_examples():
    with pytest.raises(ValueError, match="server_examples must be given.*Received: 5 wanted"):
        tiny.build("feddf", LOCAL, server_examples=None, examples=5)
