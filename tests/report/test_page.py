"""The page: marks, escaping, and what it is made of."""

import configparser
import dataclasses
import itertools
import pathlib
import re
from html.parser import HTMLParser

from tests.report.report_folders import MARK, rendered, row, tables, write_recipe, write_run
from tff_partial.report import curves, page, sections
from tff_partial.results import neurons, text_files

ROOT = pathlib.Path(__file__).parents[2]


def test_data_that_are_not_the_real_set_are_marked_once_or_line_by_line_beside_others(results):
    folder = write_recipe(results, [row("strong", 60.0), row("weak", 50.0)])
    write_run(folder / "strong" / "seed-0", [0.5])
    write_run(folder / "weak" / "seed-0", [0.4], is_real=False, tiers="strong:1,weak:3")
    write_run(results / "single", [0.3], is_real=False)
    text, html = rendered(results)
    mixed, alone = text.split("\n## ")[1:]
    assert len(tables(mixed)) == 3
    for line in itertools.chain(*tables(mixed)):
        assert (MARK in line["row"]) == ("weak" in line["row"].split())
    assert alone.count(MARK) == 1  # in the facts
    mixed, alone = re.findall(r'<section id="part.*?</section>', html, re.DOTALL)
    heads = re.findall(r"<tbody>.*?</tbody>", mixed, re.DOTALL)
    assert all(MARK in head for head in heads)
    keys = re.findall(r'class="label">(.*?)<small>', mixed)
    assert [MARK in key for key in keys] == [False, True]
    assert alone.count(MARK) == 1


def test_of_many_curves_some_are_shown_at_first_and_a_command_of_all_rows_stands_once(results):
    folder = write_recipe(results, [row(f"row{i}", 1.0) for i in range(20)])
    for i in range(20):
        write_run(folder / f"row{i}" / "seed-0", [0.5])
    text, html = rendered(results)
    pressed = re.findall(r'class="key" aria-pressed="(\w+)"', html)
    assert pressed == ["true"] * page.FIRST_SHOWN + ["false"] * (20 - page.FIRST_SHOWN)
    assert text.count("python run_experiment.py") == html.count("python run_experiment.py") == 1
    assert "method" not in tables(text)[0][0]  # it stands in the label


HOSTILE = '</script><script>alert("1")</script><img src=x onerror=alert(2)> | `x` **b** & $scripts'


class Elements(HTMLParser):
    """Which elements there are, and with which attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_hostile_text_stays_text(results):
    metric = {"name": "best_test_accuracy", "label": HOSTILE, "unit": HOSTILE}
    hostile = row("a", 1.0, HOSTILE, label=HOSTILE, columns={HOSTILE: f"{HOSTILE}!"})
    hostile["paper"]["text"] = HOSTILE
    names = ("recipe", "title", "paper", "scale_rule")
    changes = {**dict.fromkeys(names, HOSTILE), "notes": [HOSTILE], "metric": metric}
    folder = write_recipe(results, [hostile], **changes)
    write_run(folder / "a" / "seed-0", [0.5], is_real=False, data=HOSTILE, tiers="strong:4")
    text, html = rendered(results)
    elements = Elements(html).found
    assert [tag for tag, _ in elements].count("script") == 3
    assert not {"img", "b", "link", "iframe", "object"} & {tag for tag, _ in elements}
    assert not any(name.startswith("on") for _, attrs in elements for name in attrs)
    assert not any({"src", "href"} & {*attrs} and tag != "a" for tag, attrs in elements)
    outside = re.sub(r"(?s)(`{3,})\n.*?\n\1", "", text)
    assert "<script" not in outside
    assert "<img" not in outside
    assert {len(line) for table in tables(text) for line in table} == {5, 6}


def test_the_page_asks_for_nothing_and_its_policy_admits_only_its_own_scripts(results):
    write_run(results / "a", [0.5])
    _, html = rendered(results)
    policy = next(
        a["content"] for _, a in Elements(html).found if "content" in a and "http-equiv" in a
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert len(html) < 100_000
    assert "Leon Sorokin" in html  # the licence asks for it


def test_every_file_of_the_page_is_part_of_the_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    (pattern,) = config["options.package_data"]["tff_partial.report"].split()
    assets = pathlib.Path(page.ASSETS)
    assert {p.name for p in assets.parent.glob(pattern)} == {p.name for p in assets.iterdir()}
    version = re.search(r"\(v([\d.]+)\)", (assets / "uPlot.iife.min.js").read_text())[1]
    assert f"version {version}" in (assets / "README.md").read_text()


def test_a_drawing_of_the_paper_names_its_curves_and_its_quantity(results):
    write_run(results / "a", [0.1])
    write_run(results / "b", [0.2], extra={"global_loss": 0.5}, learning_rate="0.5")
    (section,) = sections.find([str(results)])
    rows = [dataclasses.replace(row, id=f"row{i}") for i, row in enumerate(section.rows)]
    section = dataclasses.replace(section, rows=tuple(rows))
    ids = [row.id for row in rows if "global_loss" in row.runs[0].rows[0]]
    known = curves.Drawing("paper/figure1", "Figure <1>", tuple(ids), ("speed", "global_loss"))
    unknown = curves.Drawing("paper/figure2", "Figure 2", ("none",), ("global_loss",))
    text = page.render([section], (), {"": [known, unknown]})
    place = [row.id for row in rows].index(ids[0])
    assert f'<option value="{place}" data-quantity="global_loss">Figure &lt;1&gt;</option>' in text
    assert "Figure 2" not in text
    assert " selected>" not in text
    own = known._replace(name=section.results.recipe)
    chosen = page.render([section], (), {"": [own]})
    assert '<option value="global_loss" selected>' in chosen
    assert 'class="drawing"' not in page.render([section])


def test_pictures_of_neurons_are_in_the_page(results):
    write_run(results / "a", [0.1])
    rows = [
        {"client": name, "layer": 1, "name": "fc1", "neuron": i, "activation": 1.0 * i}
        for name in ("client 1", "client 2", neurons.EVERYBODY)
        for i in range(1, 4)
    ]
    text_files.write_csv(str(results / "a" / neurons.ACTIVATIONS), neurons.COLUMNS, rows)
    text = page.render(sections.find([str(results)]))
    assert text.count("<figcaption>Figure ") == 3
    assert "Most active third of each layer" in text
