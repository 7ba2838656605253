"""Ray's part of deploy/: what can be held without Docker, Kubernetes and Slurm."""

import os
import pathlib
import re
import shlex
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


def assert_ray_knows(command):
    """Assert that a command of Ray's exists and has these flags."""
    import click

    scripts = pytest.importorskip("ray.scripts.scripts", reason="Ray is not installed: make ray")
    ray, name, *arguments = command
    assert ray == "ray"
    found = scripts.cli.commands[name]
    found.make_parser(click.Context(found)).parse_args(arguments)


def test_commands_of_the_documents_are_those_of_ray():
    page = (ROOT / "docs" / "runtimes.md").read_text()
    commands = re.findall(r"^(ray start .*?)(?: {2,}#.*)?$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert_ray_knows(shlex.split(command))


STUB = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
"""
# What it starts on a node, it runs here.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
STUBS = {
    "ray": STUB,
    "python": STUB + '[ "$1" != -c ] || echo secret',
    "srun": SRUN,
    "scontrol": "#!/bin/bash\nprintf 'one\\ntwo\\nthree\\n'",
    "hostname": "#!/bin/bash\necho 10.0.0.1 10.0.0.2",
}


def test_what_the_slurm_script_starts(tmp_path):
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name, text in STUBS.items():
        (folder / name).write_text(text + "\n")
        (folder / name).chmod(0o755)
    calls = tmp_path / "calls"
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_CPUS_PER_TASK": "16"}
    script = [shutil.which("bash"), ROOT / "deploy" / "ray-slurm.sh", "--task=mnist"]
    variables = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_GPUS_ON_NODE": "4", "CALLS": str(calls)}
    # The pipe ends with the last of what the script starts in the background.
    subprocess.run(
        script,
        check=True,
        env={**os.environ, **slurm, **variables},
        stdout=subprocess.PIPE,
        timeout=30,
    )
    commands = [shlex.split(line) for line in calls.read_text().splitlines()]
    started = [command for command in commands if command[0] == "ray"]
    assert sorted(command[1] for command in started) == ["health-check", "start", "start"]
    for command in started:
        assert_ray_knows(command)
        assert {"--address=10.0.0.1:10007", "--port=10007"} & {*command}
        assert command[1] != "start" or {"--num-cpus=16", "--num-gpus=4"} <= {*command}
    run = ["run_experiment.py", "--runtime=ray", "--ray_address=10.0.0.1:10007", "--task=mnist"]
    assert ["python", *run] in commands
    assert not [*tmp_path.glob(".ray-token*")]  # gone with the job


def test_nodes_of_the_compose_file_have_the_token_and_publish_nothing():
    (compose,) = documents("ray-compose.yaml")
    for service in compose["services"].values():
        assert service["environment"]["RAY_AUTH_MODE"] == "token"
        assert service["secrets"] == ["ray-token"]
        assert "ports" not in service
        assert_ray_knows(service["command"].split())
    assert compose["networks"]["ray"]["internal"]
    assert_ray_knows(compose["services"]["head"]["healthcheck"]["test"][1:])
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
        assert_ray_knows(
            ["ray", "start", *(f"--{k}={v}" for k, v in group["rayStartParams"].items())]
        )
        assert_ray_knows(container["readinessProbe"]["exec"]["command"][-1].split())
    assert [*policy["spec"]["podSelector"]["matchLabels"].values()] == [cluster["metadata"]["name"]]
    pins = (ROOT / "requirements-ray.txt").read_text()
    assert f"ray=={cluster['spec']['rayVersion']} " in pins


def test_the_image_copies_what_is_there():
    for line in (ROOT / "deploy" / "ray.Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            *sources, _ = line.split()[1:]
            assert all((ROOT / source).exists() for source in sources), line
