"""The README's example runs as it stands, and its links lead somewhere."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_examples_with_an_own_model_run_and_learn(capsys):
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    namespace = {}
    for example in examples:
        exec(compile(example, "README.md", "exec"), namespace)
    assert len(namespace["store"]) >= 4
    accuracies = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert len(accuracies) == 10
    assert accuracies[-1] > accuracies[0] + 0.2


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_algorithm_has_its_row():
    from tff_partial.algorithms import registry

    for name in registry.ALGORITHMS:
        assert f"--algo={name}`" in README, name
