"""A user's modules: found, named, and told apart."""

import functools
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from tff_partial.core import own_code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_names_of_modules_and_what_is_in_them():
    assert own_code.is_name("my_module:fn")
    assert own_code.is_name("my.module:Class.method")
    for text in ("resnet20", "0.1,5:0.2", "my_module:", ":fn", "0.4~6", "a-b:c", None, 3):
        assert not own_code.is_name(text)


def test_modules_of_the_current_folder_are_found(folder):
    (folder / "own_one.py").write_text("import own_two\nVALUE = own_two.VALUE + 1\n")
    (folder / "own_two.py").write_text("VALUE = 4\n")
    assert own_code.load("model", "own_one:VALUE") == 5


@pytest.mark.parametrize(
    ("content", "text", "message"),
    [
        (None, "own_no:fn", "a module in this folder or installed. Received: model='own_no:fn'"),
        ("x = 1", "own_a:fn", r"something in own_a \(x\). Received: model='own_a:fn'"),
        ("create = 1", "own_e:creat", "something in own_e .*:creat'. Did you mean create[?]"),
        (
            "import own_gone",
            "own_b:fn",
            "a module that can be imported. .* No module named 'own_gone'",
        ),
        (
            "x = 1 / 0",
            "own_c:x",
            "a module that can be imported. .* ZeroDivisionError: division by zero",
        ),
        ("x = (", "own_d:x", "a module that can be imported. .* SyntaxError"),
    ],
)
def test_errors_are_one_line(folder, content, text, message):
    if content is not None:
        (folder / f"{text.partition(':')[0]}.py").write_text(content)
    with pytest.raises(ValueError, match=f"model my_module:name must name {message}") as caught:
        own_code.load("model", text)
    assert "\n" not in str(caught.value)


def module(folder, name, source):
    (folder / f"{name}.py").write_text(textwrap.dedent(source))
    return own_code.load("test", f"{name}:fn")


def test_names_are_those_of_the_source_not_of_its_form(folder):
    first = module(folder, "same_a", "def fn(x):\n    '''Says.'''\n    return x + 1\n")
    again = module(folder, "same_b", "# a comment\ndef fn( x ):\n    return (x + 1)\n")
    other = module(folder, "same_c", "def fn(x):\n    return x + 2\n")
    digests = [own_code.name_of(fn).partition("#")[2] for fn in (first, again, other)]
    assert digests[0] == digests[1] != digests[2]
    assert own_code.name_of(first).startswith("same_a:fn#")


def test_names_see_constants_and_functions_of_the_module(folder):
    source = (
        "GAMMA = {}\ndef helper(x):\n    return x{}\ndef fn(x):\n    return GAMMA * helper(x)\n"
    )
    found = [
        own_code.name_of(module(folder, f"used_{i}", source.format(*values)))
        for i, values in enumerate([(1, ""), (1, ""), (2, ""), (1, " + 1")])
    ]
    digests = [name.partition("#")[2] for name in found]
    assert digests[0] == digests[1]
    assert len({*digests}) == 3


@pytest.mark.parametrize(
    "source",
    [
        "W = [{}, 9]\ndef fn():\n    return W\n",
        "W = {{'a': ({}, 9)}}\ndef fn():\n    return W\n",
        "import numpy as np\nW = np.array([{}])\ndef fn():\n    return W\n",
        "W = {}\ndef fn():\n    def inner():\n        return W\n    return inner\n",
        "class Layer:\n    def call(self):\n        return {}\ndef fn():\n    return Layer()\n",
        "class A:\n    size = {}\nclass Layer(A):\n    pass\ndef fn():\n    return Layer()\n",
        "import functools\ndef d(f):\n    @functools.wraps(f)\n    def g():\n"
        "        return f() + {}\n    return g\n@d\ndef fn():\n    return 1\n",
    ],
)
def test_names_see_lists_arrays_classes_and_decorators(folder, source):
    stem = f"seen_{abs(hash(source))}"
    found = [
        own_code.name_of(module(folder, f"{stem}_{i}", source.format(value)))
        for i, value in enumerate((1, 1, 2))
    ]
    digests = [name.partition("#")[2] for name in found]
    assert digests[0] == digests[1] != digests[2]


def test_sets_have_the_same_name_in_every_process():
    text = (
        "from tff_partial.core import own_code; W = {'a', 'b', 'c', 'd'}; "
        "print(own_code.name_of([W]).partition('#')[2])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(found) == 1


def test_names_tell_closures_partials_lambdas_and_objects_apart():
    def scaled(factor):
        return lambda x: factor * x

    def power(x, exponent):
        return x**exponent

    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return self.factor * x

    for create in (
        scaled,
        lambda n: functools.partial(power, exponent=n),
        Scale,
        lambda n: Scale(np.full(3, n)),
        lambda n: Scale(n).__call__,
        lambda n: tf.keras.losses.BinaryCrossentropy(label_smoothing=n / 10),
    ):
        assert own_code.name_of(create(1)) == own_code.name_of(create(1))
        assert own_code.name_of(create(1)) != own_code.name_of(create(2))


def test_names_of_columns():
    def focal(labels, logits):
        return logits

    assert own_code.short_name(focal) == "focal"
    assert own_code.short_name(functools.partial(focal, logits=1)) == "focal"
    assert own_code.short_name(tf.keras.losses.MeanSquaredError(name="mse")) == "mse"
