"""TensorFlow and TFF are imported on first use."""

import gc
import subprocess
import sys

import pytest
import tensorflow as tf

from tff_partial.core import lazy


def test_importing_the_names_imports_nothing():
    code = "import sys; from tff_partial.core.lazy import tf, tff; sys.exit("
    code += "any(name in sys.modules for name in ('tensorflow', 'tensorflow_federated')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_module_is_imported_when_an_attribute_is_read(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    module = lazy._LazyModule("colorsys")
    assert "colorsys" not in sys.modules
    assert module.rgb_to_hsv is sys.modules["colorsys"].rgb_to_hsv


def test_attributes_are_those_of_the_module():
    assert lazy.tf.reduce_sum is tf.reduce_sum
    assert "reduce_sum" in vars(lazy.tf)


@pytest.mark.parametrize("ours", [True, False])
def test_only_what_we_imported_is_exempt_from_garbage_collection(monkeypatch, ours):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(lazy, "_loaded", {"tensorflow"} if ours else set())
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert lazy._LazyModule("colorsys").rgb_to_hsv
    assert bool(frozen) == ours
    assert gc.isenabled()
