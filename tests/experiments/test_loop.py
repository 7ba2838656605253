"""The round loop: metrics of an algorithm's own, and what watches rounds."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tests.experiments.test_client_store import Data, evaluate
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import callbacks, loop
from tff_partial.layers import parts
from tff_partial.processes import learning
from tff_partial.results import folder as results

LOCAL = LocalTraining(steps=2, batch_size=4)


def train(process, folder, watching=(), **options):
    options = loop.LoopOptions(rounds=3, clients_per_round=2, **options)
    loop.train(process, Data(5), evaluate, options, str(folder), watching)
    return results.read_metrics(str(folder))


def with_metrics(process, name, value):
    """A part of a `LearningProcess` that also reports `value`."""

    @tff.tensorflow.computation(process.next.type_signature.result.measurements.member)
    def add(metrics):
        return collections.OrderedDict(metrics or {}, **{name: tf.constant(value)})

    @tff.federated_computation(process.next.type_signature.parameter)
    def next_fn(arguments):
        output = process.next(*arguments)
        metrics = tff.federated_map(add, output.measurements)
        return tff.templates.MeasuredProcessOutput(output.state, output.result, metrics)

    return type(process)(process.initialize, next_fn)


def learning_process():
    """FedAvg whose clients and whose server report something of their own."""
    model = tiny.spec()

    def create_client_fns():
        built = model.instantiate()
        part = parts.everything(built)
        train = learning.local_training.build(built, part, LOCAL)

        def client(weights, record, round_num):
            sums = train(weights, record, LOCAL.rate(round_num))
            return learning.client_result(built, part, weights, record, "uniform"), sums

        return [client]

    work = with_metrics(learning.build_client_work(model, create_client_fns), "drift", 0.5)
    update = work.next.type_signature.result.result.member
    return tff.learning.templates.compose_learning_process(
        learning.build_initial_weights(model),
        tff.learning.templates.build_broadcast_process(model.weights_type),
        work,
        learning.aggregation.ContributorMean().create(update.update, update.update_weight),
        with_metrics(learning.build_finalizer(model, 1.0), "server_step", 2.0),
    )


def test_metrics_of_a_learning_process_are_columns(tmp_path):
    rows = train(learning_process(), tmp_path)
    assert [row["drift"] for row in rows] == [0.5] * 3
    assert [row["server_step"] for row in rows] == [2.0] * 3
    assert all(row["train_loss"] > 0 for row in rows)


@pytest.mark.parametrize(("name", "params"), [("scaffold", {}), ("vrl_sgd", {"active": 2})])
def test_metrics_of_a_process_with_client_states_are_columns(name, params, tmp_path):
    process = tiny.build(name, LOCAL, population=5, **params)
    original = process.next

    def next_fn(state, states, records):
        output = original(state, states, records)
        clients = {**output.metrics["client_work"], "drift": np.float32(0.5)}
        server = {"server_step": np.float32(state.client_work)}
        metrics = {**output.metrics, "client_work": clients, "finalizer": server}
        return output._replace(metrics=metrics)

    process.next = next_fn
    rows = train(process, tmp_path, eval_every=2)
    assert [row["drift"] for row in rows] == [0.5] * 3
    assert [row["server_step"] for row in rows] == [0.0, 1.0, 2.0]
    if name == "vrl_sgd":  # losses of local models are measured where a round is evaluated
        columns = {n for n in rows[0] if n.endswith("local_loss")}
        assert columns
        assert [{row[n] is None for n in columns} for row in rows] == [{True}, {False}, {False}]


class Nobody(callbacks.Callback):
    """Drops every client in the second round, and counts."""

    def on_cohort(self, round_num, clients):
        return [] if round_num == 1 else clients

    def on_result(self, round_num, result, is_evaluated):
        return {"tenfold": 10 * round_num, "evaluated": int(is_evaluated)}


def test_callbacks_choose_clients_and_add_columns(tmp_path):
    rows = train(learning_process(), tmp_path, [Nobody()], eval_every=2)
    assert [row["tenfold"] for row in rows] == [0, 10, 20]
    assert [row["evaluated"] for row in rows] == [0, 1, 1]
    assert [row["train_loss"] is None for row in rows] == [False, True, False]
    assert [row["drift"] is None for row in rows] == [False, True, False]
    assert [row["server_step"] for row in rows] == [2.0] * 3


def test_a_column_has_one_source(tmp_path):
    class Same(callbacks.Callback):
        def on_result(self, round_num, result, is_evaluated):
            return {"train_loss": 0.0}

    with pytest.raises(ValueError, match=r"Received: \['train_loss'\] twice"):
        train(tiny.build("fedavg", LOCAL), tmp_path, [Same()])
