"""deploy/'s files for workers behind stunnel: what can be held without Docker and Kubernetes.

`tests/runtime/workers/test_stunnel.py` starts its scripts and stunnel's configurations.
"""

import pathlib

import pytest

from tff_partial.cli import worker
from tff_partial.experiments import flags

DEPLOY = pathlib.Path(__file__).parent.parent / "deploy"
WORKERS = ("tff-worker-0", "tff-worker-1")


def documents(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with Ray: make ray")
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def manifests():
    """What deploy/worker.yaml declares, by kind."""
    return {document["kind"]: document for document in documents("worker.yaml")}


def containers(kind):
    """The containers of a pod, by name, those that start first included."""
    pod = manifests()[kind]["spec"]["template"]["spec"]
    return {c["name"]: c for c in (*pod.get("initContainers", ()), *pod["containers"])}


def assert_flags_of_a_run(arguments):
    names = {argument.partition("=")[0].removeprefix("--") for argument in arguments}
    assert names <= {*flags.EXECUTING, *flags.DECIDING}


def test_flags_exist():
    (compose,) = documents("compose.yaml")
    assert_flags_of_a_run(compose["services"]["run"]["command"])
    assert_flags_of_a_run(containers("Job")["run"]["args"])
    parsed = worker._parse(containers("StatefulSet")["worker"]["args"])
    assert (parsed.port, parsed.max_concurrent_computation_calls) == (8000, 4)


def test_a_raw_worker_is_reached_by_its_stunnel_only():
    (compose,) = documents("compose.yaml")
    services, networks = compose["services"], compose["networks"]
    assert not any("ports" in service for service in services.values())
    for number in "12":
        (inside,) = services[f"raw-{number}"]["networks"]
        assert networks[inside]["internal"]
        members = [name for name, s in services.items() if inside in s.get("networks", ())]
        assert members == [f"raw-{number}", f"worker-{number}"]
    (rule,) = manifests()["NetworkPolicy"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": 8443}]
    assert (
        manifests()["Job"]["spec"]["template"]["metadata"]["labels"]
        == (rule["from"][0]["podSelector"]["matchLabels"])
    )


def lines(text):
    return [line for line in text.splitlines() if line and not line.startswith(";")]


def test_stunnel_of_the_job_is_that_of_the_run_with_other_names():
    expected = (DEPLOY / "stunnel-run.conf").read_text()
    for number, name in enumerate(WORKERS, 1):
        expected = expected.replace(f"connect = worker-{number}:", f"connect = {name}.tff-worker:")
        expected = expected.replace(f"worker-{number}", name)
    assert lines(manifests()["ConfigMap"]["data"]["stunnel.conf"]) == lines(expected)


def test_every_container_is_contained():
    for name, container in (*containers("StatefulSet").items(), *containers("Job").items()):
        if name != "run":
            assert container["securityContext"]["runAsNonRoot"]
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
