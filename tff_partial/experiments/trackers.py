"""Sends what a run measures to MLflow or to Weights & Biases (`--tracker`).

    --tracker=mlflow:FOLDER    MLflow's files in a folder
    --tracker=mlflow:URI       an MLflow server or data base, such as http://host:5000
    --tracker=wandb            Weights & Biases; wandb:PROJECT names the project

Their packages are needed only then. A run that resumes continues the same run of the tracker, whose
name is kept in tracker.json; rounds that it lacks are sent from metrics.csv.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any, Optional, Protocol

from tff_partial.core import checks
from tff_partial.core.types import Row
from tff_partial.experiments.callbacks import Callback
from tff_partial.experiments.loop import Interrupted
from tff_partial.results import metrics, text_files

FILE = "tracker.json"
PACKAGES = {"mlflow": "mlflow-skinny", "wandb": "wandb"}
"""Tracker -> what is to be installed; the tracker's name is that of the module."""

FINISHED, STOPPED, FAILED = "FINISHED", "KILLED", "FAILED"
_LONGEST_PARAMETER, _MOST_PARAMETERS = 500, 100  # limits of MLflow
_PROJECT = "tff_partial"


def check(text: str) -> None:
    """Raise a ValueError unless there is such a tracker and its package is installed."""
    name, colon, place = text.partition(":")
    checks.one_of("tracker", name, PACKAGES)
    if (name == "mlflow" or colon) and not place:
        expected = "tracker must be mlflow:<folder or uri>, wandb or wandb:<project>. "
        raise ValueError(f"{expected}Received: tracker={text!r}")
    if importlib.util.find_spec(name) is None:
        raise ValueError(
            f"tracker={name} must have its package: pip install {PACKAGES[name]}. "
            f"Received: tracker={text!r}"
        )


def without_credentials(text: str) -> str:
    """Return the tracker as config.json has it: `http://user:password@host` without the user."""
    return re.sub(r"//[^/@]*@", "//", text)


class Tracker(Protocol):
    """A run of a tracker.

    Attributes:
      run: Its name, by which it is found again.
      last: The last round that it has; 0 if it has none.
    """

    run: str
    last: int

    def log(self, done: int, values: Mapping[str, float]) -> None:
        """Add the values of a round."""

    def end(self, state: str) -> None:
        """Say how the run ended: FINISHED, KILLED or FAILED."""


class Mlflow:
    """A run of MLflow.

    Args:
      place: A folder or a URI.
      folder: The run's results folder, whose name is the run's.
      settings: What config.json says of the run.
      run: The run to continue, if it is still there.
    """

    def __init__(
        self, place: str, folder: str, settings: Mapping[str, object], run: Optional[str]
    ) -> None:
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        is_folder = "://" not in place and place != "databricks"
        if is_folder:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 wants a data base
        import mlflow

        uri = pathlib.Path(place).absolute().as_uri() if is_folder else place
        self._mlflow, self._client = mlflow, mlflow.MlflowClient(tracking_uri=uri)
        self.run = self._continued(run) or self._created(folder, settings)
        # Every round has it.
        history = self._client.get_metric_history(self.run, "seconds")
        self.last = max((metric.step for metric in history), default=0)

    def _continued(self, run: Optional[str]) -> Optional[str]:
        if run is None:
            return None
        try:
            self._client.update_run(run, status="RUNNING")
        except self._mlflow.exceptions.MlflowException:  # it was deleted
            return None
        return run

    def _created(self, folder: str, settings: Mapping[str, object]) -> str:
        task = str(settings["task"])
        experiment = self._client.get_experiment_by_name(task)
        number = experiment.experiment_id if experiment else self._client.create_experiment(task)
        name = os.path.basename(os.path.abspath(folder))
        run = self._client.create_run(number, run_name=name).info.run_id
        parameters = [
            self._mlflow.entities.Param(name, str(value)[:_LONGEST_PARAMETER])
            for name, value in settings.items()
            if value not in (None, "")
        ]
        for start in range(0, len(parameters), _MOST_PARAMETERS):
            self._client.log_batch(run, params=parameters[start : start + _MOST_PARAMETERS])
        return str(run)

    def log(self, done: int, values: Mapping[str, float]) -> None:
        now, metric = int(1000 * time.time()), self._mlflow.entities.Metric
        sent = [metric(name, value, now, done) for name, value in values.items()]
        self._client.log_batch(self.run, metrics=sent)

    def end(self, state: str) -> None:
        self._client.set_terminated(self.run, state)


class Wandb:
    """A run of Weights & Biases; see `Mlflow`, of which `place` is the project here."""

    def __init__(
        self, place: str, folder: str, settings: Mapping[str, object], run: Optional[str]
    ) -> None:
        import wandb

        self._run = wandb.init(
            project=place or _PROJECT,
            id=run or uuid.uuid4().hex[:12],
            name=os.path.basename(os.path.abspath(folder)),
            config={**settings},
            dir=folder,
            resume="allow",
        )
        self.run = str(self._run.id)
        self.last = max(self._run.step - 1, 0)  # the step that comes next, 0 for a new run

    def log(self, done: int, values: Mapping[str, float]) -> None:
        self._run.log({**values}, step=done)

    def end(self, state: str) -> None:
        self._run.finish(exit_code=0 if state == FINISHED else 1)


_TRACKERS: Mapping[str, Any] = {"mlflow": Mlflow, "wandb": Wandb}


class Tracking(Callback):
    """Sends the rows of a run to a tracker.

    A tracker that cannot be reached at the start is an error; later, it is a warning, and the next
    start sends what is missing.
    """

    def __init__(self, text: str, folder: str, settings: Mapping[str, object]) -> None:
        self._text, self._folder, self._settings = text, folder, settings
        self._tracker: Optional[Tracker] = None
        self._state, self._warned = FINISHED, False

    def on_start(self, done: int) -> None:
        name, _, place = self._text.partition(":")
        path = os.path.join(self._folder, FILE)
        kept = {"tracker": without_credentials(self._text)}
        try:
            before = text_files.read_json(path)
        except (FileNotFoundError, ValueError):
            before = {}
        run = before.get("run") if before.get("tracker") == kept["tracker"] else None
        try:
            tracker: Tracker = _TRACKERS[name](place, self._folder, self._settings, run)
        except Exception as error:  # of any kind: it is another's code
            raise OSError(
                f"tracker must be reachable. Received: {kept['tracker']}: {error}"
            ) from error
        text_files.write_json(path, {**kept, "run": tracker.run})
        self._tracker = tracker
        for row in metrics.read(self._folder):
            if row["round"] <= done:
                self.on_round(int(row["round"]), row)

    def on_round(self, done: int, row: Row) -> None:
        if self._tracker is None or done <= self._tracker.last:
            return
        numbers = {
            name: float(value)
            for name, value in row.items()
            if name != "round" and value is not None and not isinstance(value, str)
        }
        self._send(lambda tracker: tracker.log(done, numbers))

    def on_error(self, error: BaseException) -> None:
        is_stop = isinstance(error, (Interrupted, KeyboardInterrupt))
        self._state = STOPPED if is_stop else FAILED

    def on_end(self) -> None:
        self._send(lambda tracker: tracker.end(self._state))

    def _send(self, send: Any) -> None:
        if self._tracker is None:
            return
        try:
            send(self._tracker)
        except Exception as error:  # training goes on
            if not self._warned:
                reason = " ".join(str(error).split())
                print(f"\nwarning: the tracker lacks rounds: {reason}", file=sys.stderr)
            self._warned = True
