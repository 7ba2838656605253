import subprocess
import sys

import pytest

from tff_partial.runtime.ray import options
from tff_partial.runtime.ray.options import RayOptions


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"address": "garbage"}, "ray_address must be auto or host:port. Received: 'garbage'"),
        ({"address": "ray://head:10001"}, "ray_address must be auto or host:port"),
        ({"actors": 0}, "ray_actors must be at least 1. Received: ray_actors=0"),
        ({"cpus_per_actor": 0.0}, "ray_cpus_per_actor must be positive"),
        ({"gpus_per_actor": 1.5}, "ray_gpus_per_actor must be from 0 to 1, or a whole number"),
        ({"gpus_per_actor": -1.0}, "ray_gpus_per_actor must be"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, line):
    with pytest.raises(ValueError, match="Received") as error:
        RayOptions(**wrong)
    assert str(error.value).startswith(line)


def test_an_actor_has_as_many_threads_as_cpus():
    assert [RayOptions(cpus_per_actor=cpus).threads for cpus in (0.5, 1, 2.5)] == [1, 1, 2]
    assert RayOptions("auto").address == "auto"
    assert RayOptions("10.0.0.1:6379", gpus_per_actor=2).gpus_per_actor == 2


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(options.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="install it with `make ray`"):
        options.check_installed()


def test_options_import_neither_ray_nor_tensorflow():
    code = (
        "import sys\nfrom tff_partial import runtime\nruntime.RayOptions(actors=2)\n"
        "sys.exit(any(m in sys.modules for m in ('ray', 'tensorflow', 'grpc')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
