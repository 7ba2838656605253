"""The names for annotations."""

import subprocess
import sys

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.core import types


def test_names_of_tensorflow_and_tff_exist():
    texts = {name: value for name, value in vars(types).items() if isinstance(value, str)}
    aliases = {name for name in texts if not name.startswith("_")}
    assert {"Tensor", "Weights", "ServerState", "Federated"} <= aliases
    for name in aliases:
        assert isinstance(eval(texts[name], {"tf": tf, "tff": tff}), type), name
    assert types.Array is np.ndarray


def test_importing_them_imports_neither():
    code = "import sys, tff_partial.core.types; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
