"""The round loop: metrics of an algorithm's own, and what watches rounds."""

import asyncio
import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import tiny
from tests.experiments.rounds import Data, equal, evaluate, run, without_seconds
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import (
    callbacks,
    loop,
)
from tff_partial.results import metrics

LOCAL = LocalTraining(steps=2, batch_size=4)


def train(process, folder, watching=(), **options):
    options = loop.LoopOptions(rounds=3, clients_per_round=2, **options)
    loop.train(process, Data(5), evaluate, options, str(folder), watching)
    return metrics.read(str(folder))


def learning_process():
    """FedAvg whose clients and whose server report something of their own."""
    process = tiny.build("fedavg", LOCAL)

    @tff.tensorflow.computation(process.next.type_signature.result.metrics.member)
    def add(metrics):
        clients = collections.OrderedDict(metrics["client_work"], drift=0.5)
        server = collections.OrderedDict(server_step=2.0)
        return collections.OrderedDict(metrics, client_work=clients, finalizer=server)

    @tff.federated_computation(process.next.type_signature.parameter)
    def next_fn(arguments):
        output = process.next(*arguments)
        metrics = tff.federated_map(add, output.metrics)
        return tff.learning.templates.LearningProcessOutput(output.state, metrics)

    get_and_set = process.get_model_weights, process.set_model_weights
    return tff.learning.templates.LearningProcess(process.initialize, next_fn, *get_and_set)


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


def test_discrepancies_after_every_step_are_columns_of_every_round(tmp_path):
    process = tiny.build("periodic_averaging", LOCAL, population=5, active=2, measure_steps=True)
    rows = train(process, tmp_path, eval_every=2)
    for row in rows:
        found = [row[f"discrepancy_{step + 1}"] for step in range(LOCAL.steps)]
        assert all(value > 0 for value in found[:-1])
        assert found[-1] == pytest.approx(row["discrepancy"], abs=1e-9)


def test_losses_of_local_models_can_be_left_out(tmp_path):
    process = tiny.build("vrl_sgd", LOCAL, population=5, active=2, measure_losses=False)
    rows = train(process, tmp_path)
    assert not [name for name in rows[0] if name.endswith(("local_loss", "global_loss"))]
    assert all(row["train_loss"] > 0 for row in rows)


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


def test_rounds_before_the_last_are_tested_on_a_sample(tmp_path):
    def evaluate_sample(weights):
        return evaluate(weights)._replace(metrics={"accuracy": 0.75}, examples=4)

    options = loop.LoopOptions(rounds=5, clients_per_round=2, eval_every=2)
    process = tiny.build("feddc", LOCAL, population=5)
    loop.train(process, Data(5), evaluate, options, str(tmp_path), evaluate_sample=evaluate_sample)
    rows = metrics.read(str(tmp_path))
    assert [row["test_examples"] for row in rows] == [None, 4, None, 4, 9]
    for label in ("", "_all_clients"):
        tested = [row[f"test_accuracy{label}"] for row in rows]
        assert tested == [None, None, None, None, 0.5]
        sampled = [row[f"sampled_test_accuracy{label}"] for row in rows]
        assert sampled == [None, 0.75, None, 0.75, None]
    assert [row["test_loss"] is None for row in rows] == [True] * 4 + [False]
    assert [row["sampled_test_loss"] is None for row in rows] == [True, False, True, False, True]


def test_a_column_has_one_source(tmp_path):
    class Same(callbacks.Callback):
        def on_result(self, round_num, result, is_evaluated):
            return {"train_loss": 0.0}

    with pytest.raises(ValueError, match=r"Received: \['train_loss'\] twice"):
        train(tiny.build("fedavg", LOCAL), tmp_path, [Same()])


def test_a_run_in_bfloat16_resumes_bit_for_bit(tmp_path):
    local = LocalTraining(steps=2, batch_size=4, precision="bfloat16", record_precision="bfloat16")
    process = tiny.build("scaffold", local, population=5)
    whole = run(process, tmp_path / "whole")
    run(process, tmp_path / "stopped", rounds=3)
    assert equal(run(process, tmp_path / "stopped"), whole)
    assert without_seconds(tmp_path / "stopped") == without_seconds(tmp_path / "whole")
    states = [*(tmp_path / "whole").rglob("client_states/0/*.npz")]
    assert states
    kinds = {a.dtype.name for path in states for a in np.load(path).values() if a.ndim}
    assert kinds == {"uint16"}


@pytest.mark.parametrize("name", ["fedavg", "scaffold"])
def test_training_runs_inside_an_event_loop_as_in_a_notebook(name, tmp_path):
    local = LocalTraining(steps=2, batch_size=4)

    async def notebook():
        return run(tiny.build(name, local, population=5), tmp_path / "inside")

    loop = asyncio.new_event_loop()  # `asyncio.run` would take away the one of other tests
    inside = loop.run_until_complete(notebook())
    loop.close()
    assert equal(inside, run(tiny.build(name, local, population=5), tmp_path / "outside"))
    assert without_seconds(tmp_path / "inside") == without_seconds(tmp_path / "outside")
