"""Tables of similarities, tiers and capacities, with numbers computed by hand."""

import json

from tests.report.report_folders import rendered, row, tables, write_recipe, write_run


def test_exact_tables_and_analyses_need_no_training(results):
    metric = {"name": "capacity", "label": "capacity", "unit": ""}
    exact = write_recipe(results, [row("weak", 0.16)], "a/exact", metric=metric, kind="exact")
    (exact / "weak" / "seed-0").mkdir(parents=True)
    summary = {"capacity": 0.15, "text": "1,000 / 0.15"}
    (exact / "weak" / "seed-0" / "summary.json").write_text(json.dumps(summary))
    metric = {"name": "similarity", "label": "similarity", "unit": ""}
    rows = [row("figure1")]
    analysis = write_recipe(results, rows, "b/figure1", metric=metric, kind="analysis")
    for seed, (largest, mean) in enumerate(((0.5, 0.25), (0.7, 0.35))):
        place = write_run(analysis / "figure1" / f"seed-{seed}", [], rounds=5, seed=seed)
        lines = ["scheme,steps,block,name,maximum,mean,clients", "none,0,0,conv,0.9,0.9,4"]
        lines.append(f"none,20,0,conv,{largest},{mean},4")
        (place / "similarity.csv").write_text("\n".join(lines))
    text, _ = rendered(results)
    (capacity,), (compared,), (similarity,) = tables(text)
    assert (capacity["ours"], capacity["difference"]) == ("1,000 / 0.15", "−0.01")
    assert compared["ours"] == "see the table below"
    assert similarity["largest similarity"] == "0.6 ± 0.1"
    assert similarity["mean similarity"] == "0.3 ± 0.1"
    assert (similarity["scheme"], similarity["block"]) == ("none", "conv")


def test_tiers_and_capacity(results):
    extra = {"clients_strong": 1, "clients_weak": 3, "clients_late": 1}
    extra |= {"train_accuracy_strong": 0.5, "train_accuracy_weak": 0.25}
    tiers = {"tiers": "strong:4,weak:12", "algo": "embracing"}
    for seed in (0, 1):
        place = results / f"tiers-{seed}"
        write_run(place, [0.5], summary={"average_capacity": 0.27}, extra=extra, seed=seed, **tiers)
    text, _ = rendered(results)
    costs, (strong, weak) = tables(text)
    assert costs[0]["late clients a round"] == "1"
    assert strong["average capacity"] == weak["average capacity"] == "0.27"
    assert (strong["tier"], strong["clients"], strong["clients a round"]) == ("strong", "4", "1")
    assert (weak["tier"], weak["clients"], weak["clients a round"]) == ("weak", "12", "3")
    assert weak["training accuracy, %"] == "25.00 ± 0.00"


COSTS = {
    "strong": {"memory": 1.0, "compute": 1.0, "parameters": 2000, "bytes_down": 8e6},
    "memory_0.25": {"memory": 0.24, "compute": 0.3, "parameters": 500, "bytes_down": 2e6},
}


def test_what_tiers_take_and_how_accurate_they_are_where_clients_are(results):
    extra = {"clients_strong": 1, "clients_memory_0.25": 3, "test_accuracy_memory_0.25": 0.625}
    extra |= {f"test_client_accuracy_{name}": 0.5 for name in ("mean", "lowest_tenth", "spread")}
    tiers = {"tiers": "strong:25%,memory:0.25:75%", "algo": "heterofl", "clients": 16}
    write_run(results / "a", [0.5], extra=extra, tier_costs=COSTS, **tiers)
    text, _ = rendered(results)
    (costs,), (strong, weak) = tables(text)
    assert costs["lowest tenth of clients, %"] == costs["mean over clients, %"] == "50.00"
    assert [strong["clients"], weak["clients"], weak["tier"]] == ["4", "12", "memory:0.25"]
    assert weak["clients a round"] == "3"
    assert (weak["memory"], weak["parameters"], weak["MB down"]) == ("0.24", "500", "2")
    assert (strong["MB up"], strong["test accuracy, %"]) == ("–", "–")
    assert weak["test accuracy, %"] == "62.50"


def test_damaged_costs_of_tiers_are_left_out(results):
    for i, damaged in enumerate(([], {"strong": 3}, {"strong": {"memory": "all"}})):
        write_run(results / f"{i}", [0.5], tier_costs=damaged, tiers="strong:4", algo="embracing")
    _, tiers = tables(rendered(results)[0])
    assert {line["clients"] for line in tiers} == {"4"}


def test_a_target_that_was_reached_on_a_sample_says_so(results):
    extra = {"sampled_test_accuracy": 0.75, "test_examples": 1000}
    write_run(results / "a", ["", ""], extra=extra, eval_examples=1000)
    ((costs,),) = tables(rendered(results)[0])
    assert costs["rounds to target"] == "1 (on 1,000 test examples)"
    assert (costs["final accuracy, %"], costs["best accuracy, %"]) == ("–", "–")


def test_drawn_capacities_are_tiers_with_their_share(results):
    extra = {"clients_1/2": 1, "clients_1/16": 3}
    extra |= {"train_accuracy_1/2": 0.5, "train_accuracy_1/16": 0.25}
    write_run(
        results / "a", [0.5], extra=extra, capacities="1/2:0.2,1/4:0.004,1/16:0.8", algo="feddse"
    )
    _, (half, sixteenth) = tables(rendered(results)[0])
    assert (half["tier"], half["clients"], half["clients a round"]) == (
        "1/2",
        "19.9 % of draws",
        "1",
    )
    assert sixteenth["clients"] == "79.7 % of draws"
    assert sixteenth["training accuracy, %"] == "25.00"
