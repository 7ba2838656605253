"""Modules that are put off until they are used, and that nobody can tell."""

import gc
import importlib
import subprocess
import sys
import types

import pytest

from tff_partial.core import deferred


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `putoff` with a module `part`; each notes in `sys` that it was run."""
    folder = tmp_path / "putoff"
    folder.mkdir()
    (folder / "__init__.py").write_text("import sys\nsys.ran.append(__name__)\nvalue = 1\n")
    (folder / "part.py").write_text(
        "import sys, putoff\nsys.ran.append(__name__)\nvalue = putoff.value + 1\n"
    )
    (folder / "broken.py").write_text("import sys\nsys.ran.append(__name__)\n1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "ran", [], raising=False)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "putoff"]:
        del sys.modules[name]


def test_a_module_is_run_when_an_attribute_is_read(package):
    with deferred.quick_imports(["putoff"]):
        import putoff
    assert importlib.import_module("putoff") is putoff
    assert putoff.__name__ == putoff.__spec__.name == "putoff"
    assert putoff.__file__.endswith("__init__.py")
    assert sys.ran == []
    assert putoff.value == 1
    assert not hasattr(putoff, "other")
    assert putoff.__path__ == [str(putoff.__file__.rsplit("/", 1)[0])]
    assert sys.ran == ["putoff"]
    assert type(putoff) is types.ModuleType
    assert "_deferred" not in vars(putoff)


def test_a_part_of_a_package_runs_the_package_first(package):
    with deferred.quick_imports(["putoff"]):
        import putoff
    assert sys.ran == []
    from putoff import part

    assert sys.ran == ["putoff", "putoff.part"]
    assert putoff.part is part
    assert part.value == 2


def test_names_can_be_listed(package):
    with deferred.quick_imports(["putoff"]):
        import putoff
    assert "value" in dir(putoff)


def test_a_module_that_fails_does_so_each_time(package):
    with deferred.quick_imports(["putoff.broken"]):
        from putoff import broken
    for times in (1, 2):
        with pytest.raises(ZeroDivisionError):
            broken.value  # noqa: B018
        assert sys.ran == ["putoff", *["putoff.broken"] * times]


def test_imports_afterwards_are_as_ever(package):
    finders = list(sys.meta_path)
    with deferred.quick_imports(["putoff"]):
        assert not gc.isenabled()
    assert gc.isenabled()
    assert sys.meta_path == finders
    importlib.import_module("putoff")
    assert sys.ran == ["putoff"]


_TENSORFLOW = """
import sys
from tff_partial import runtime
runtime.set_default()
heavy = "jax", "vizier.pyvizier", "tensorflow_probability.python", "scipy.signal"
assert not [name for name in heavy if name in sys.modules], sys.modules.keys() & {*heavy}

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

assert tf.lite.TFLiteConverter.__module__ == "tensorflow.lite.python.lite"
assert tf.compat.v1.lite.TFLiteConverter.__name__ == "TFLiteConverter"
assert callable(tff.learning.programs.train_model_with_vizier)

import jax.numpy as jnp
import tensorflow_probability as tfp
from scipy import stats
import scipy.stats

@tff.jax.computation(np.float32)
def double(x):
    return jnp.multiply(x, 2)

assert str(double.type_signature) == "(float32 -> float32)"
assert float(tfp.distributions.Normal(0.0, 1.0).cdf(0.0)) == stats.norm.cdf(0) == 0.5
assert scipy.stats is stats
import dp_accounting
assert dp_accounting.pld.PLDAccountant.__name__ == "PLDAccountant"
"""


def test_what_tensorflow_and_tff_put_off_is_there_when_it_is_used():
    ended = subprocess.run(
        [sys.executable, "-c", _TENSORFLOW], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
