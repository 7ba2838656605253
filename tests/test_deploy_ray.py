"""Ray's part of deploy/: what can be held without Docker, Kubernetes and Slurm."""

import pathlib
import re
import shutil
import subprocess

import pytest

from tff_partial.experiments import flags

ROOT = pathlib.Path(__file__).parent.parent
FILES = sorted((ROOT / "deploy").glob("ray*"))


def documents(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with Ray: make ray")
    return list(yaml.safe_load_all((ROOT / "deploy" / name).read_text()))


def test_every_flag_of_a_run_exists():
    for path in FILES:
        for command in re.findall(r"run_experiment\.py(.*?)(?<!\\)\n", path.read_text(), re.DOTALL):
            names = re.findall(r"--(\w+)=", command)
            assert set(names) <= {*flags.EXECUTING, *flags.DECIDING}, path


def test_the_slurm_script_is_bash():
    bash = shutil.which("bash")
    script = ROOT / "deploy" / "ray-slurm.sh"
    assert subprocess.run([bash, "-n", script], check=False).returncode == 0


def test_nodes_of_the_compose_file_have_the_token_and_publish_nothing():
    (compose,) = documents("ray-compose.yaml")
    for service in compose["services"].values():
        assert service["environment"]["RAY_AUTH_MODE"] == "token"
        assert service["secrets"] == ["ray-token"]
        assert "ports" not in service
    assert compose["networks"]["ray"]["internal"]
    assert compose["services"]["node"]["deploy"]["replicas"] == 2


def test_pods_have_the_token_and_only_the_cluster_reaches_them():
    cluster, policy = documents("ray-kuberay.yaml")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        variables = {variable["name"]: variable for variable in container["env"]}
        assert variables["RAY_AUTH_MODE"]["value"] == "token"
        assert "secretKeyRef" in variables["RAY_AUTH_TOKEN"]["valueFrom"]
        assert container["securityContext"]["runAsNonRoot"]
    assert [*policy["spec"]["podSelector"]["matchLabels"].values()] == [cluster["metadata"]["name"]]
    pins = (ROOT / "requirements-ray.txt").read_text()
    assert f"ray=={cluster['spec']['rayVersion']} " in pins


def test_the_image_copies_what_is_there():
    for line in (ROOT / "deploy" / "ray.Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            *sources, _ = line.split()[1:]
            assert all((ROOT / source).exists() for source in sources), line
