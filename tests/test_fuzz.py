"""Five hundred attacks on flags, recipes and result folders.

Whatever the input: an exit code of 0 or 2, at most one line that says what is wrong, no exception,
no hang, and either nothing is written or all of it. Nothing is trained.
"""

import contextlib
import copy
import dataclasses
import faulthandler
import functools
import io
import itertools
import json
import os
import shutil
import signal
import sys

import pytest
import tensorflow_federated as tff
from absl import flags
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tasks
from tests.report.report_folders import SETTINGS, row, write_recipe, write_run
from tff_partial.algorithms import registry
from tff_partial.cli import compare
from tff_partial.cli import run as run_experiment
from tff_partial.cli.report import main as report
from tff_partial.recipes import catalog, exact, runner
from tff_partial.results import folder as results

SECONDS = 20
FLAGS, RECIPE_FLAGS, DOCUMENTS, FOLDERS = 140, 80, 140, 140  # 500 cases
FUZZ = settings(
    derandomize=True,
    database=None,
    deadline=None,  # another test may be busy; `guarded` stops what hangs
    suppress_health_check=list(HealthCheck),
)
NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "0.5",
    "1e-300",
    "1e20",
    "1e400",
    "nan",
    "-inf",
    "9" * 30,
    "1_0",
]
TEXTS = [
    "",
    " ",
    "x",
    "..",
    "../x",
    "x" * 300,
    "\udcff",
    "é\n±",
    "1/2",
    "1/00",
    "true",
    "None",
    "%s",
]
VALUES = {
    "task": ["mnist", "synthetic", "emnist"],
    "algo": ["fedavg", "embracing", "heterofl", "partial_averaging", "feddse", "fedumf"],
    "model": ["softmax", "mlp_100", "bilstm"],
    "preset": ["demo", "paper"],
    "paper": ["fedumf", "fedpmt", "fedumf_appendix"],
    "partition": [
        "iid",
        "iid:5",
        "dirichlet:0.1",
        "dirichlet:1e-300",
        "dirichlet:1e-4,fill",
        "dirichlet_per_client:1e-9",
        "unbalanced:99",
        "classes:2",
        "classes:2,3",
        "bootstrap:100000000000",
        "bootstrap:7",
        "natural:2",
        "ids:nowhere.npy,2",
        "ids:/dev/null",
        "synthetic:1,1",
        "synthetic:1e300,0",
    ],
    "tiers": [
        *("strong:1,weak:5", "1/2:6", "1/00:6", "0.3:3,strong:3", "7:6", "strong:6", "weak:0"),
        *("memory:0.5:3,strong:3", "blocks:9:6", "rate:1/00:6", "params:2:6", "compute:.1:100%"),
        *("strong:50%,weak:50%", "strong:1%,weak:99%", "memory:0.5", "strong:999%"),
    ],
    "evaluate": ["server", "tiers", "clients,tiers", ",", "all"],
    "capacities": ["1/4", "feddse", "1/2:0.2,1/16:0.8", "1/2:1e400", "1/00"],
    "only_tiers": ["strong", "weak,strong", "weak,weak"],
    "learning_rate": ["0.1", "0.4,800:0.04", "0.1*0.9~2", "1e400", "0", ",,:", "1,2:3,1:4"],
    "device_speeds": ["0.2,1", "1e-320", "1,,2", "0"],
    "data": ["embedded", "auto", "web"],
    "runtime": ["in_process", "local_cpp", "nowhere"],
    "client_state": ["memory", "disk", "paper"],
    "recipe": ["../x", "embracing/../x", "x" * 5000, "none.toml", "/dev/null"],
    "scale": ["0.05", "1", "2", "1e-300"],
    "only": ["case1", "fedavg", "none", ","],
}
BASE = {
    "task": "mnist",
    "data": "embedded",
    "model": "softmax",
    "clients": "6",
    "clients_per_round": "3",
}
JUNK = st.one_of(
    st.sampled_from([None, True, -1, 0, 10**400, 1e308, float("nan"), "", "..", "\ud800", [], {}]),
    st.sampled_from([["x"], {"id": "a"}, [[[[]]]], "a/b", "1e9", "x" * 5000, "[]", -1.5]),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
).map(copy.deepcopy)  # `mutated` changes what it was given before


class Hang(BaseException):
    """Not an Exception, so that nothing catches it."""


@pytest.fixture(scope="module")
def place(tmp_path_factory, default_runtime):
    """A folder of its own to work in, with nothing that trains or is made twice."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(run_experiment, "run", lambda prepared: prepared.lock.close() or 0)
        patch.setattr(results, "versions", dict)
        patch.setattr(runner, "run_all", lambda runs, jobs: runner.Outcome())
        patch.setattr(runner, "_fetch_data", lambda plan, options: None)
        patch.setattr(exact, "TABLES", dict.fromkeys(exact.TABLES, fake_table))
        for name, task in tasks.TASKS.items():
            load = task.load_embedded and functools.lru_cache(task.load_embedded)
            patch.setitem(tasks.TASKS, name, dataclasses.replace(task, load_embedded=load))
        yield folder
    tff.framework.set_default_context(default_runtime)  # `prepare` has set another


def fake_table():
    rows = [each for name in catalog.names() for each in catalog.load(name).rows]
    return {each.id: exact.Ours(1.0, "1") for each in rows}


CASES = itertools.count()


@contextlib.contextmanager
def fresh(place):
    """An empty folder as the current one."""
    folder = place / f"case-{next(CASES)}"
    folder.mkdir()
    (folder / "file").write_text("kept")
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(place)
        shutil.rmtree(folder)


def guarded(main, arguments):
    """(exit code, lines of standard error) of a command; raises `Hang` after some seconds."""

    def stop(*unused):
        raise Hang(arguments)

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True)  # where no bytecode is run
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            code = main(arguments)
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, previous)
    return code, errors.getvalue().splitlines()


def contents(folder):
    """Path -> content, of everything below; folders and links by their kind."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder"
        for path in folder.rglob("*")
    }


def check(folder, main, arguments, before=None):
    """Runs a command and checks what it says and leaves."""
    before = contents(folder) if before is None else before
    code, lines = guarded(main, arguments)
    wrong = [line for line in lines if line.startswith("error: ")]
    assert code in (0, 2)
    assert len(wrong) == (code == 2), lines
    assert len(lines) <= 2, lines
    assert code == 0 or lines[-1] == wrong[0], lines
    assert not any("Traceback" in line for line in lines)
    after = contents(folder)
    if code == 2:
        assert after == before
    new = {name: content for name, content in after.items() if before.get(name) != content}
    assert not [name for name in new if "_temp" in name]
    for name, content in new.items():
        if name.endswith(".json"):
            assert isinstance(json.loads(content), dict)
    return code


def arguments_of(values):
    return [f"--{name}={value}" for name, value in values.items()]


def flag_values(names):
    """Some flags, mostly with values of the kind that they take."""

    def pair(name):
        own = st.sampled_from(VALUES.get(name) or USUAL_VALUES[KINDS[name]])
        return st.tuples(st.just(name), st.one_of(own, own, st.sampled_from(NUMBERS + TEXTS)))

    return st.lists(st.sampled_from(names).flatmap(pair), min_size=1, max_size=4).map(dict)


def all_flags():
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    return {name: values[name].flag_type() for name in values}


KINDS = all_flags()
USUAL_VALUES = {"string": TEXTS, "bool": ["true", "false"], "int": ["1", "2", "3", "0"]}
USUAL_VALUES["float"] = ["0.5", "1", "0.01", "0", "1e30"]
NOT_TRIED = {"data_dir", "help", "helpfull", "helpshort", "helpxml"}
NAMES = [name for name in KINDS if name not in NOT_TRIED]
OWNERS = [name for name in NAMES if name.startswith(tuple(f"{x}_" for x in registry.ALGORITHMS))]
OF_RUNS = [name for name in NAMES if name not in (*run_experiment.RECIPE_FLAGS, *OWNERS, "algo")]
WORDS = ["x", "--none", "--flagfile=file", "-", "--", "--nolist", "--undefok=x"]


def flags_of_a_run(algo):
    """Flags beside the algorithm's, its own among them."""
    own = [name for name in OWNERS if name.startswith(f"{algo}_")]
    return flag_values([*OF_RUNS, *own * 3]).map(lambda values: {"algo": algo, **values})


@settings(FUZZ, max_examples=FLAGS)
@given(
    values=st.sampled_from(sorted(registry.ALGORITHMS)).flatmap(flags_of_a_run),
    word=st.sampled_from([*[""] * 20, *WORDS]),
)
def test_flags(place, values, word):
    with fresh(place) as folder:
        words = [*arguments_of({**BASE, **values}), *filter(None, [word])]
        check(folder, run_experiment.main, [*words])


@settings(FUZZ, max_examples=RECIPE_FLAGS)
@given(
    name=st.sampled_from(catalog.names()),
    values=flag_values([*run_experiment.RECIPE_FLAGS * 4, *OF_RUNS, *OWNERS[::5]]),
)
def test_flags_of_recipes(place, name, values):
    base = {"recipe": name, "scale": "0.05", "data": "embedded"}
    values.pop("dry_run", None)  # times the steps of models
    with fresh(place) as folder:
        check(folder, run_experiment.main, [*arguments_of({**base, **values})])


def toml(value):
    """A value as TOML, all in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("NaN", "nan").replace("Infinity", "inf")


def places_in(value, path=()):
    """Paths to everything within lists and objects."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items if isinstance(value, (dict, list)) else ():
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from places_in(item, (*path, key))


def mutated(data, document):
    """The document with some values replaced, removed or added."""
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        paths = list(places_in(document))
        if not paths:
            break
        *path, last = data.draw(st.sampled_from(paths))
        parent = document
        for key in path:
            parent = parent[key]
        kind = data.draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if kind == "remove":
            del parent[last]
        elif kind == "replace":
            parent[last] = data.draw(JUNK)
        elif isinstance(parent, list):
            parent.append(data.draw(JUNK))
        else:
            key = data.draw(st.sampled_from(["seed", "flagfile", "output_dir", "settings", "x"]))
            parent[key] = data.draw(JUNK)
    return document


def damaged(data, text):
    """The bytes of a text with some of them cut, doubled or replaced."""
    content = text.encode("utf-8", "surrogatepass")
    start = data.draw(st.integers(0, len(content)))
    end = min(len(content), start + data.draw(st.integers(0, 200)))
    filling = data.draw(
        st.one_of(
            st.binary(max_size=6),
            st.just(content[start:end] * 2),
            st.sampled_from([b"[" * 100_000, b'{"a":' * 5000, b'"\\ud800"', b"1" * 200_000, b"\0"]),
        )
    )
    return content[:start] + filling + content[end:]


RECIPES = {name: (catalog.FOLDER / f"{name}.toml").read_text() for name in catalog.names()}


def parsed(text):
    return catalog._toml().loads(text)


@settings(FUZZ, max_examples=DOCUMENTS)
@given(name=st.sampled_from(sorted(RECIPES)), data=st.data())
def test_recipe_documents(place, name, data):
    with fresh(place) as folder:
        if data.draw(st.booleans()):
            document = mutated(data, parsed(RECIPES[name]))
            text = "\n".join(f"{toml(str(key))} = {toml(value)}" for key, value in document.items())
            content = text.encode("utf-8", "surrogatepass")
        else:
            content = damaged(data, RECIPES[name])
        (folder / "r.toml").write_bytes(content)
        words = ["--recipe=r.toml", "--scale=0.05", "--data=embedded", "--output_dir=out"]
        check(folder, run_experiment.main, [*words])


def write_results(folder):
    """A recipe of three rows and a run of its own."""
    rows = [
        row("a", 60.0),
        row("b", 50.0, "python run_experiment.py --target_accuracy=0.5"),
        row("c"),
    ]
    recipe = write_recipe(folder, rows, given={"clients": 4})
    tiers = {"clients_strong": 1, "train_accuracy_strong": 0.5, "clients_late": 0}
    write_run(recipe / "a" / "seed-0", [0.5, "", 0.6], extra=tiers, tiers="strong:4")
    write_run(recipe / "a" / "seed-1", [0.4, 0.5, 0.7], seed=1, capacities="1/2:0.5,1/4:0.5")
    write_run(recipe / "b" / "seed-0", [0.2], rounds=9)
    write_run(folder / "single", [0.3, 0.4])
    head, line = "scheme,steps,block,name,maximum,mean,clients", "none,10,0,conv,0.9,0.5,4"
    (recipe / "b" / "seed-0" / "similarity.csv").write_text(f"{head}\n{line}\n")


def damage(data, folder):
    """Spoils some files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True)):
        text = path.read_text()
        kind = data.draw(st.sampled_from(["values", "values", "bytes", "cells", "gone", "folder"]))
        if kind == "values" and path.suffix == ".json":
            path.write_text(json.dumps(mutated(data, json.loads(text))))
        elif kind in ("values", "cells") and path.suffix == ".csv":
            cells = [line.split(",") for line in text.splitlines()]
            value = data.draw(st.sampled_from([*NUMBERS, "", "x", '"', "1,2", "1e308", "\n"]))
            line = data.draw(st.sampled_from(cells))
            line[data.draw(st.integers(0, len(line) - 1))] = value
            path.write_text("\n".join(map(",".join, cells)))
        elif kind == "bytes":
            path.write_bytes(damaged(data, text))
        elif kind in ("gone", "folder"):
            path.unlink()
            if kind == "folder":
                path.mkdir()


@settings(FUZZ, max_examples=FOLDERS)
@given(data=st.data())
def test_result_folders(place, data):
    with fresh(place) as folder:
        write_results(folder / "results")
        damage(data, folder / "results")
        before = contents(folder)
        form = data.draw(st.sampled_from([[], ["--markdown"]]))
        check_report(folder, ["results", "--output=page", "--remarks=results", *form], before)
        check(folder, compare.main, ["results/single", "--targets=0.3"], before)
        words = ["--recipe=embracing/table3", "--scale=0.1", "--data=embedded", "--only=case1"]
        check(folder, run_experiment.main, [*words, "--output_dir=results/recipes"])
        check(folder, go_on, ["results/single"])


def go_on(arguments):
    """What a run does with its folder first."""
    try:
        results.prepare_folder(*arguments, {**SETTINGS, "rounds": 2}, {}).close()
    except results.ResultsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def check_report(folder, arguments, before):
    """As `check`, but there may be a line for each damaged file."""
    code, lines = guarded(report, arguments)
    if code == 0:
        assert lines[-1].startswith("wrote page")
        assert all(x.startswith("warning: left out: ") for x in lines[:-1]), lines
        (folder / "page").unlink()
    assert code == 0 or (code == 2 and lines and all(x.startswith("error: ") for x in lines)), lines
    assert contents(folder) == before
