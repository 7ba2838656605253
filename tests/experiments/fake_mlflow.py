"""Stands for MLflow: what we call of it, with its own names and signatures (2.22 and 3.17).

`tests/experiments/test_trackers.py` has a test with the real one.
"""

import dataclasses
import types

RUNS = {}
"""Run -> its `Run`, whatever client made it."""


class MlflowException(Exception):
    """As `mlflow.exceptions.MlflowException`."""


@dataclasses.dataclass
class Metric:
    key: str
    value: float
    timestamp: int
    step: int


@dataclasses.dataclass
class Param:
    key: str
    value: str


@dataclasses.dataclass
class Run:
    experiment: str
    name: str
    status: str = "RUNNING"
    metrics: list = dataclasses.field(default_factory=list)
    params: dict = dataclasses.field(default_factory=dict)

    def steps(self, key):
        return [metric.step for metric in self.metrics if metric.key == key]


class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None):
        if tracking_uri == "http://nowhere":
            raise MlflowException("no server\nat nowhere")

    def get_experiment_by_name(self, name):
        known = any(run.experiment == name for run in RUNS.values())
        return types.SimpleNamespace(experiment_id=name) if known else None

    def create_experiment(self, name, artifact_location=None, tags=None):
        return name

    def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
        run_id = str(len(RUNS))
        RUNS[run_id] = Run(experiment_id, run_name)
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_id))

    def update_run(self, run_id, status=None, name=None):
        if run_id not in RUNS:
            raise MlflowException("no such run")
        RUNS[run_id].status = status

    def get_metric_history(self, run_id, key):
        return [metric for metric in RUNS[run_id].metrics if metric.key == key]

    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=None):
        RUNS[run_id].metrics += metrics
        for param in params:
            assert RUNS[run_id].params.setdefault(param.key, param.value) == param.value

    def set_terminated(self, run_id, status=None, end_time=None):
        RUNS[run_id].status = status


entities = types.SimpleNamespace(Metric=Metric, Param=Param)
exceptions = types.SimpleNamespace(MlflowException=MlflowException)
