"""The report's page in a real browser, on a phone's screen and on a large one."""

import pytest

from tests import chromium
from tests.report.report_folders import row, write_recipe, write_run
from tff_partial.cli.report import main
from tff_partial.report import curves, page, sections
from tff_partial.report.ledger import HOLDS, NOT_RUN, UNDECIDED, Estimate, Finding

pytestmark = pytest.mark.skipif(
    chromium.find() is None,
    reason="needs Chromium: Debian's package chromium, or its path in the variable CHROMIUM",
)
SCREENS = {"phone": (360, 800), "desk": (1280, 900)}
HOSTILE = "weak</script><img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"
# How many pixels of a figure's canvas have nearly a colour of the style sheet, such as --c0, and
# are not as transparent as the bands.
PIXELS = """(() => {
  const canvas = document.querySelector('#part-0 canvas'), probe = document.createElement('i');
  probe.style.color = 'var(%s)';
  document.body.append(probe);
  const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4)
    count += data[i + 3] > 128 && wanted.every((value, k) => Math.abs(data[i + k] - value) < 12);
  return count;
})()"""
VALUES = "[...document.querySelectorAll('#part-0 .key .value')].map((e) => e.textContent)"
READOUT = "document.querySelector('#part-0 .readout').textContent"
PRESSED = "[...document.querySelectorAll('#part-0 .key')].map((e) => e.ariaPressed)"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A recipe with two rows of two seeds, and single runs."""
    root = tmp_path_factory.mktemp("report")
    rows = [row("strong", 64.01), row("weak", 50.0, label=HOSTILE), row("never", 40.0)]
    folder = write_recipe(root / "results", rows)
    for seed in (0, 1):
        strong = [0.1 + 0.01 * (7 + seed) * i for i in range(11)]
        write_run(folder / "strong" / f"seed-{seed}", strong, seed=seed)
        weak = [0.1 + 0.01 * (4 + seed) * i for i in range(11)]
        extra = {"train_accuracy_weak": 0.5, "clients_weak": 2}
        place = folder / "weak" / f"seed-{seed}"
        write_run(place, weak, is_real=False, extra=extra, tiers="weak:4", seed=seed)
    write_run(root / "results" / "single", [0.2, 0.4], extra={"discrepancy": 0.5})
    assert main([str(root / "results"), f"--output={root / 'report.html'}"]) == 0
    return root / "report.html"


FINDINGS = [
    Finding("embracing/table3", "a", "A.", "table 3", HOLDS, ours=Estimate(1.0, 0.5, 1.5), seeds=3),
    Finding("embracing/table3", "b", "B.", "table 3", UNDECIDED, ours=Estimate(1.0), paper=2.0),
    Finding("fedumf/table1", "c", "C.", "table 1", HOLDS, kind="ratio", ours=Estimate(0.5)),
    Finding("fedumf/table1", "d", "D.", "table 1", NOT_RUN, paper=0.6, kind="ratio"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium.Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(params=SCREENS)
def opened(request, browser, report):
    """The page, fresh; no test may leave an error behind or make it ask for anything."""
    browser.open(report, *SCREENS[request.param], touch=request.param == "phone")
    browser.is_phone = request.param == "phone"
    browser.see("#part-0 figure")
    yield browser
    assert browser.problems() == []


def activate(browser, selector):
    (browser.tap if browser.is_phone else browser.click)(selector)


def test_tables_and_figures_are_there_and_fit_the_screen(opened):
    assert opened.run("document.querySelectorAll('main table').length") == 4
    opened.see("#part-1 figure")
    assert opened.run("document.querySelectorAll('figure canvas').length") == 2
    assert opened.run("document.documentElement.scrollWidth <= innerWidth")
    assert opened.run("[...document.querySelectorAll('table')].every((t) => t.caption.innerText)")
    cells = opened.run(
        "[...document.querySelectorAll('#part-0 tbody tr')[0].cells].map(c => c.innerText)"
    )
    assert cells[:4] == ["strong", "64.01", "85.00 ± 7.07", "+20.99"]
    assert opened.run(PIXELS % "--c0") > 50
    assert opened.run(PIXELS % "--c1") > 50
    texts = "[...document.querySelectorAll('td, th, button, p')]"
    sizes = opened.run(f"{texts}.map((e) => parseFloat(getComputedStyle(e).fontSize))")
    assert min(sizes) >= 12


def test_a_curve_can_be_hidden_and_shown_again(opened):
    before = opened.run(PIXELS % "--c0")
    activate(opened, "#part-0 .key[data-curve='0']")
    assert opened.run(PRESSED) == ["false", "true"]
    assert opened.run(PIXELS % "--c0") == 0
    assert opened.run(PIXELS % "--c1") > 50
    activate(opened, "#part-0 .key[data-curve='0']")
    assert opened.run(PRESSED) == ["true", "true"]
    assert opened.run(PIXELS % "--c0") == pytest.approx(before, rel=0.5)
    activate(opened, "#part-0 .all[data-show='']")
    assert opened.run(PRESSED) == ["false", "false"]
    assert opened.run(PIXELS % "--c1") == 0
    activate(opened, "#part-0 .all[data-show='1']")
    assert opened.run(PRESSED) == ["true", "true"]


def test_values_can_be_read(opened):
    assert opened.run(VALUES) == ["85.00 ± 7.07", "55.00 ± 7.07"]
    (opened.tap if opened.is_phone else opened.hover)("#part-0 .u-over")
    # The axis goes from 0 to 11: its middle lies between rounds 5 and 6.
    read = opened.run(READOUT)
    assert read in ("At round 5:", "At round 6:")
    expected = {"5": ["40.00 ± 2.83", "28.00 ± 2.83"], "6": ["47.50 ± 3.54", "32.50 ± 3.54"]}
    assert opened.run(VALUES) == expected[read.split()[2][0]]

    opened.run("document.querySelector('#part-0 .plot').focus()")
    opened.press("ArrowLeft")
    assert opened.run(READOUT) == f"At round {int(read.split()[2][0]) - 1}:"


def test_the_axis_can_be_switched_and_hidden_curves_stay_hidden(opened):
    activate(opened, "#part-0 .key[data-curve='1']")
    for axis, last in (("bytes", "16.5 MB"), ("seconds", "110 s"), ("rounds", "round 11")):
        activate(opened, f"#part-0 input[value='{axis}']")
        opened.run("document.querySelector('#part-0 .plot').focus()")
        opened.press("ArrowLeft")
        assert opened.run(READOUT) == f"At {last}:"
        assert opened.run(PIXELS % "--c0") > 50
        assert opened.run(PIXELS % "--c1") == 0


def test_pictures_say_that_their_data_are_not_the_real_set(opened):
    assert opened.run(PIXELS % "--mark") > 20
    activate(opened, "#part-0 .key[data-curve='1']")
    assert opened.run(PIXELS % "--mark") == 0
    assert opened.run("window.hacked === undefined")
    assert HOSTILE in opened.run("document.querySelectorAll('#part-0 .key')[1].innerText")


def test_what_is_drawn_can_be_chosen_where_there_is_a_choice(opened):
    hidden = "[...document.querySelectorAll('.quantity')].map((e) => e.hidden)"
    opened.see("#part-1 figure")
    assert opened.run(hidden) == [False, False]
    opened.run(
        "(() => { const s = document.querySelectorAll('select')[1]; s.value = 'discrepancy';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert opened.run("document.querySelector('#part-1 .value').textContent") == "0.5"


def test_dark_where_the_reader_wants_it(browser, report):
    colours = []
    for dark in (False, True):
        browser.open(report, *SCREENS["phone"], touch=True, dark=dark)
        browser.see("#part-0 figure")
        colours.append(browser.run("getComputedStyle(document.body).backgroundColor"))
        assert browser.run(PIXELS % "--c0") > 50
    assert colours == ["rgb(255, 255, 255)", "rgb(15, 20, 25)"]


def test_figures_follow_the_width_of_the_window(browser, report):
    browser.open(report, *SCREENS["desk"])
    browser.see("#part-0 figure")
    browser.resize(500, 900)
    width = "document.querySelector('.uplot').getBoundingClientRect().width"
    assert 400 < browser.run(width) <= 500
    assert browser.problems() == []


def test_lines_are_cards_on_a_phone_and_the_navigation_stays(opened):
    display = opened.run("getComputedStyle(document.querySelector('#part-0 td')).display")
    heads = opened.run("getComputedStyle(document.querySelector('#part-0 thead')).display")
    expected = ("flex", "none") if opened.is_phone else ("table-cell", "table-header-group")
    assert (display, heads) == expected
    opened.run("scrollTo(0, document.body.scrollHeight)")
    assert opened.run("document.querySelector('.bar').getBoundingClientRect().top") == 0
    activate(opened, ".menu summary")
    activate(opened, ".menu a[href='#part-0']")
    assert opened.run("location.hash") == "#part-0"
    assert not opened.run("document.querySelector('.menu').open")


def read_at(browser, share):
    """The round that is read at this share of a figure's width."""
    box = "document.querySelector('#part-0 .u-over').getBoundingClientRect()"
    browser.see("#part-0 figure")
    left, width, top = (browser.run(f"{box}.{name}") for name in ("left", "width", "top"))
    place = {"x": left + share * width, "y": top + 40}
    if browser.is_phone:
        browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[place])
        browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    else:
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
    return int(browser.run(READOUT).split()[2].rstrip(":"))


def test_curves_can_be_zoomed(opened):
    assert read_at(opened, 0.05) == 1
    read_at(opened, 0.55)  # round 6 is where it zooms
    activate(opened, "#part-0 [data-zoom='0.5']")
    assert read_at(opened, 0.05) in (3, 4)
    assert read_at(opened, 0.95) in (8, 9)
    activate(opened, "#part-0 [data-zoom='0']")
    assert read_at(opened, 0.05) == 1


def test_the_ledger_can_be_filtered(browser, report):
    path = report.with_name("ledger.html")
    path.write_text(page.render(sections.find([str(report.parent / "results")]), FINDINGS))
    browser.open(path, *SCREENS["desk"])
    shown = "[...document.querySelectorAll('.ledger li:not([hidden])')].map(e => e.dataset.claim)"
    first = ["embracing/table3#a", "fedumf/table1#c", "embracing/table3#b"]
    assert browser.run(shown) == first  # what was not run is hidden at first
    browser.click(".filters input[value='not run']")
    assert browser.run(shown) == [*first, "fedumf/table1#d"]
    browser.run(
        "(() => { const s = document.querySelector('.filters select'); s.value = 'FedUMF';"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    assert browser.run(shown) == ["fedumf/table1#c", "fedumf/table1#d"]
    browser.click(".filters input[value='holds']")
    browser.click(".filters input[value='not run']")
    assert browser.run(shown) == []
    assert not browser.run("document.querySelector('.none').hidden")
    assert browser.run("document.querySelectorAll('.ledger svg').length") == 4
    assert browser.problems() == []


def test_a_figure_of_the_paper_shows_its_rows_and_its_quantity(browser, report):
    found = sections.find([str(report.parent / "results")])
    name = found[0].results.recipe
    drawing = curves.Drawing("own/figure9", "Figure 9", ("weak",), ("test_accuracy",))
    itself = curves.Drawing(name, "Table 1", ("strong",), ("speed", "train_loss"))
    path = report.parent / "drawing.html"
    path.write_text(page.render(found, (), {name: [itself, drawing]}))
    browser.open(path, *SCREENS["desk"])
    browser.see("#part-0 figure")
    assert browser.run(PRESSED) == ["true", "true"]
    # The recipe draws its own figure: what that shows is there at first.
    quantity = "document.querySelector('#part-0 .quantity select').value"
    assert browser.run(quantity) == "train_loss"
    browser.run(
        "(() => { const s = document.querySelector('#part-0 .drawing select');"
        " s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })()"
    )
    assert browser.run(quantity) == "test_accuracy"
    assert browser.run(PRESSED) == ["false", "true"]
    assert browser.run(PIXELS % "--c0") == 0
    assert browser.run(PIXELS % "--c1") > 50
    assert browser.problems() == []


def test_late_rounds_alone_begin_where_they_begin(browser, tmp_path):
    extra = {f"discrepancy_{step}": 0.1 * step for step in range(1, 11)}
    write_run(tmp_path / "results" / "a", [0.1] * 120, extra=extra)
    path = tmp_path / "page.html"
    assert main([str(tmp_path / "results"), f"--output={path}"]) == 0
    browser.open(path, *SCREENS["desk"])
    browser.see("#part-0 figure")
    browser.run(
        "(() => { const s = document.querySelector('#part-0 .quantity select');"
        " s.value = 'discrepancy_last'; s.dispatchEvent(new Event('change')); })()"
    )
    browser.hover("#part-0 .u-over")
    # 500 of the 1,200 steps: rounds 70.1 to 120, whose middle is 95.
    assert 90 < float(browser.run(READOUT).split()[-1].strip(":")) < 100
    assert browser.problems() == []
