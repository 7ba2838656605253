"""What recipes may set, and what may be given beside them."""

import pytest

from tests.recipes.planning import plan
from tff_partial.cli import run as run_experiment


def test_flags_that_would_have_no_effect_are_refused():
    with pytest.raises(ValueError, match=r"exactly, must be given no flags .*\['--rounds'\]"):
        plan("embracing/table1", rounds=5, seed=1)
    with pytest.raises(ValueError, match=r"an analysis, must .*\['--clip_norm'\]"):
        plan("embracing/figure1", 0.1, data="embedded", clip_norm=1.0, width=0.5)
    with pytest.raises(ValueError, match="algorithm of the rows, fedavg"):
        plan("fedumf/table1", 0.1, only="fedavg", data="embedded", fedumf_alpha=0.5)
    assert plan("embracing/table1", output_dir="elsewhere", seed=1).runs == ()
    [run] = plan("embracing/figure3", 0.1, data="embedded", width=0.5, momentum=0.5).runs
    assert {"--width=0.5", "--momentum=0.5"} <= {*run.arguments}


ANALYSIS = """
title = "Figure 1: x"
paper = "x"
kind = "analysis"
source = {source}
[metric]
name = "svcca"
label = "x"
unit = ""
[[rows]]
id = "a"
label = "a"
paper = "x"
[rows.settings]
algo = "periodic_averaging"
paper = "embracingfl"
task = "cifar10"
"""


RUNS = """
title = "Table 1: x"
paper = "x"
kind = "runs"
[metric]
name = "best_test_accuracy"
label = "x"
unit = "%"
higher_is_better = true
[[rows]]
id = "a"
label = "a"
paper = "1"
[rows.settings]
algo = "embracing"
paper = "embracingfl"
task = "cifar10"
"""


def run_file(folder, text, *arguments):
    (folder / "r.toml").write_text(text)
    words = [f"--recipe={folder / 'r.toml'}", "--scale=0.01", "--data=embedded", *arguments]
    return run_experiment.main([*words, f"--output_dir={folder / 'out'}"])


@pytest.mark.parametrize(
    "source",
    [
        "pdb -c __import__('os').system('touch${IFS}%s')",
        "tff_partial.similarity --figure=1 --output_dir=%s",
        "tff_partial.similarity --figure=2",
        "tff_partial.compare %s",
        "",
    ],
)
def test_a_recipe_runs_no_program_but_the_known_analyses(source, tmp_path, capsys):
    source = source.replace("%s", str(tmp_path / "pwned"))
    assert run_file(tmp_path, ANALYSIS.format(source=f'"{source}"')) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {tmp_path.name}/r, source must be one of tff_partial.simil")
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]


@pytest.mark.parametrize(
    "setting",
    [
        "embracing_record_dir = '%s'",
        "flagfile = '%s'",
        "undefok = 'x'",
        "output_dir = '%s'",
        "runtime = 'local_cpp'",
        "workers = 'a:1'",
        "seed = 1",
        "data_dir = '%s'",
        "preset = 'demo'",
        "recipe = 'x'",
        "list = true",
        "clients = [8]",
        "tiers = { strong = 1 }",
    ],
)
def test_a_recipe_sets_nothing_but_what_decides_results(setting, tmp_path, capsys):
    setting = setting.replace("%s", str(tmp_path / "elsewhere"))
    assert run_file(tmp_path, f"{RUNS}{setting}\n", "--dry_run") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {tmp_path.name}/r, a must have ")
    assert setting.partition(" =")[0] in line
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]


def test_analyses_are_given_no_settings_that_they_do_not_take(tmp_path, capsys):
    source = '"tff_partial.similarity --figure=1"'
    assert run_file(tmp_path, f"{ANALYSIS.format(source=source)}clip_norm = 1\n") == 2
    assert "['clip_norm']" in capsys.readouterr().err
    assert run_file(tmp_path, ANALYSIS.format(source=source), "--runtime=in_process") == 2
    assert "['--runtime']" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag",
    [
        "--runtime=nowhere",
        "--workers=a:1",
        "--runtime=remote",
        "--runtime=local_cpp --client_parallelism=2",
        "--client_state=paper",
        "--device_speeds=fast",
        "--round_deadline=-1",
        "--full_model_seconds=nan",
        "--seeds=100000000",
        "--local_steps=100000000000000000000",
        "--partition=dirichlet:1e-300",
        "--clients=100000000000",
    ],
)
def test_flags_of_a_recipe_are_checked_before_anything_is_written(flag, tmp_path, capsys):
    assert run_file(tmp_path, RUNS, *flag.split()) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]
