"use strict";
// Draws the figures. Each curve is three series of uPlot (mean, upper and lower edge of its band).
(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const DASHES = [[], [8, 4], [2, 3], [10, 4, 2, 4]];
  const COLOURS = 8;
  const AXIS_TITLES = { rounds: "rounds", seconds: "simulated seconds", bytes: "bytes, down and up" };
  const ROUNDS = [1, 10, 100, 1e3, 1e4, 1e5].flatMap((n) => [n, 2 * n, 5 * n]);
  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function number(value) {
    return Number(value.toPrecision(4)).toLocaleString("en-GB", { maximumSignificantDigits: 4 });
  }

  function short(value, unit) {
    const [size, prefix] = PREFIXES.find(([size]) => Math.abs(value) >= size) || [1, ""];
    return number(value / size) + (unit || prefix ? " " : "") + prefix + unit;
  }

  const onAxis = {
    rounds: (value) => number(value),
    seconds: (value) => short(value, "s"),
    bytes: (value) => short(value, "B"),
  };

  // The nearest place at which a series has a value: curves need not share their x.
  function nearest(xs, ys, at, x) {
    let left = at, right = at;
    while (left >= 0 && ys[left] == null) left--;
    while (right < ys.length && ys[right] == null) right++;
    if (left < 0) return right < ys.length ? right : null;
    if (right >= ys.length) return left;
    return x - xs[left] <= xs[right] - x ? left : right;
  }

  // [x, mean 0, upper 0, lower 0, mean 1, ...], on the union of the curves' x.
  function aligned(curves, quantity, axis) {
    const tables = curves.map((curve) => {
      const found = curve.quantities[quantity];
      if (!found || !found[axis]) return [[], [], [], []];
      const edge = (sign) => found.mean.map((y, i) => (found.spread ? y + sign * found.spread[i] : null));
      return [found[axis], found.mean, edge(1), edge(-1)];
    });
    return uPlot.join(tables, tables.map(() => [0, 0, 0, 0]));
  }

  function start(element) {
    const figure = figures[Number(element.dataset.figure)];
    const plot = element.querySelector(".plot");
    const readout = element.querySelector(".readout");
    const select = element.querySelector(".quantity select");
    const drawing = element.querySelector(".drawing select");
    const keys = [...element.querySelectorAll(".key")];
    const shown = keys.map((key) => key.getAttribute("aria-pressed") === "true");
    let chart = null, axis = "rounds", quantity = select.value, seen = null;

    function style(i) {
      return { colour: css("--c" + (i % COLOURS)), dash: DASHES[Math.floor(i / COLOURS) % DASHES.length] };
    }

    function series() {
      const found = [{}];
      figure.curves.forEach((curve, i) => {
        const { colour, dash } = style(i);
        const points = { show: (u, s) => u.data[s].filter((y) => y != null).length < 2, size: 7 };
        const edge = { show: shown[i], scale: "y", stroke: "transparent", spanGaps: true, points: { show: false } };
        found.push({ label: curve.label, show: shown[i], scale: "y", stroke: colour, width: 2, dash, spanGaps: true, points });
        found.push({ ...edge }, { ...edge });
      });
      return found;
    }

    function bands() {
      return figure.curves.map((_, i) => ({ series: [3 * i + 2, 3 * i + 3], fill: style(i).colour + "2b" }));
    }

    function size() {
      const width = plot.clientWidth;
      return { width, height: Math.round(Math.min(380, Math.max(230, width * 0.6))) };
    }

    // The words and the target's line belong to the picture, so that they are in every copy of it.
    function drawMarks(u) {
      const { ctx, bbox } = u, ratio = devicePixelRatio;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      if (figure.target != null && quantity.includes("test_accuracy")) {
        const y = u.valToPos(figure.target, "y", true);
        ctx.strokeStyle = css("--quiet");
        ctx.lineWidth = ratio;
        ctx.setLineDash([4 * ratio, 4 * ratio]);
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
      }
      const marked = figure.curves.filter((curve, i) => !curve.is_real && shown[i]).length;
      if (marked) {
        const words = marked < shown.filter(Boolean).length ? "partly not the real set" : "not the real set";
        ctx.font = "600 " + 15 * ratio + "px system-ui, sans-serif";
        ctx.fillStyle = css("--mark");
        ctx.textAlign = "right";
        ctx.fillText(words, bbox.left + bbox.width - 8 * ratio, bbox.top + bbox.height - 10 * ratio);
      }
      ctx.restore();
    }

    function value(y) {
      return quantity.includes("test_accuracy") ? y.toFixed(2) : number(y);
    }

    function showValues(u) {
      const xs = u.data[0], at = u.cursor.idx;
      const here = at == null ? null : xs[at];
      readout.textContent = here == null
        ? "Last values; point at the plot or tap it to read others."
        : "At " + (axis === "rounds" ? "round " : "") + onAxis[axis](here) + ":";
      figure.curves.forEach((curve, i) => {
        const ys = u.data[3 * i + 1], found = curve.quantities[quantity];
        const place = nearest(xs, ys, here == null ? xs.length - 1 : at, here == null ? Infinity : here);
        const output = keys[i].querySelector(".value");
        if (!found || place == null) { output.textContent = "–"; return; }
        const high = u.data[3 * i + 2][place];
        output.textContent = value(ys[place]) + (high == null ? "" : " ± " + value(high - ys[place]));
      });
    }

    // Where the x axis begins: at 0, unless only late rounds have values.
    function first(xs) {
      return xs.length && xs[0] > xs[xs.length - 1] / 2 ? xs[0] : 0;
    }

    // Shows the part of the x axis between two values; all of it without them.
    function zoom(range) {
      const last = chart.data[0][chart.data[0].length - 1] || 1, begin = first(chart.data[0]);
      const from = range ? Math.max(begin, range[0]) : begin, to = range ? Math.min(last, range[1]) : last;
      if (to - from <= last * 1e-3) return;
      seen = from > begin || to < last ? [from, to] : null;
      chart.setScale("x", { min: from, max: to });
    }

    function zoomToSelection(u) {
      const { left, width } = u.select;
      if (width < 8) return;
      const range = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      zoom(range);
    }

    // Half or twice as much around the cursor, else around the middle.
    function zoomBy(factor) {
      if (!factor) return zoom(null);
      const { min, max } = chart.scales.x, at = chart.cursor.idx;
      const middle = at == null ? (min + max) / 2 : chart.data[0][at], half = (factor * (max - min)) / 2;
      zoom([middle - half, middle + half]);
    }

    function draw() {
      if (chart) chart.destroy();
      const line = css("--line"), ink = css("--quiet"), font = "12px system-ui, sans-serif";
      const common = { stroke: ink, font, labelFont: font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
      chart = new uPlot({
        ...size(),
        legend: { show: false },
        series: series(),
        bands: bands(),
        padding: [10, 14, 0, 0],
        scales: {
          x: { time: false, range: (u, from, to) => (seen || [first(u.data[0] || []), (u.data[0] || []).slice(-1)[0] || 1]) },
          y: { range: { min: { pad: 0.05, soft: 0, mode: 3 }, max: { pad: 0.05 } } },
        },
        axes: [
          { ...common, label: AXIS_TITLES[axis], labelSize: 20, size: 32, space: 64, incrs: axis === "rounds" ? ROUNDS : undefined, values: (u, at) => at.map((x) => (x == null ? "" : onAxis[axis](x))) },
          { ...common, label: figure.quantities[quantity], labelSize: 20, size: 54, values: (u, at) => at.map((y) => (y == null ? "" : number(y))) },
        ],
        cursor: {
          drag: { x: true, y: false, setScale: false },
          y: false,
          dataIdx: (u, s, at, x) => (s % 3 === 1 ? nearest(u.data[0], u.data[s], at, x) : null),
          points: { show: (u, s) => s % 3 === 1 && undefined },
        },
        hooks: { setCursor: [showValues], draw: [drawMarks], setSelect: [zoomToSelection] },
      }, aligned(figure.curves, quantity, axis), plot);
      keys.forEach((key, i) => {
        const swatch = key.querySelector(".swatch");
        swatch.style.borderTopColor = style(i).colour;
        swatch.style.borderTopStyle = ["solid", "dashed", "dotted", "double"][Math.floor(i / COLOURS) % 4];
      });
      ["pointerdown", "pointermove"].forEach((kind) => chart.over.addEventListener(kind, (event) => {
        if (event.pointerType === "mouse") return;
        const box = chart.over.getBoundingClientRect();
        chart.setCursor({ left: event.clientX - box.left, top: event.clientY - box.top });
      }));
      showValues(chart);
    }

    function show(i, isShown) {
      shown[i] = isShown;
      keys[i].setAttribute("aria-pressed", String(isShown));
      chart.batch(() => [1, 2, 3].forEach((k) => chart.setSeries(3 * i + k, { show: isShown })));
    }

    function step(by) {
      const xs = chart.data[0], at = chart.cursor.idx;
      const next = at == null ? (by > 0 ? 0 : xs.length - 1) : Math.min(Math.max(at + by, 0), xs.length - 1);
      if (xs.length) chart.setCursor({ left: chart.valToPos(xs[next], "x"), top: 1 });
    }

    keys.forEach((key, i) => key.addEventListener("click", () => show(i, !shown[i])));
    element.querySelectorAll(".all").forEach((button) =>
      button.addEventListener("click", () => keys.forEach((_, i) => show(i, Boolean(button.dataset.show)))));
    element.querySelectorAll("input").forEach((input) =>
      input.addEventListener("change", () => { axis = input.value; seen = null; draw(); }));
    element.querySelectorAll("[data-zoom]").forEach((button) =>
      button.addEventListener("click", () => zoomBy(Number(button.dataset.zoom))));
    plot.addEventListener("dblclick", () => zoom(null));
    select.addEventListener("change", () => { quantity = select.value; seen = null; draw(); });
    // A figure of the paper: its rows, and what it draws of them first.
    if (drawing) drawing.addEventListener("change", () => {
      const option = drawing.selectedOptions[0], rows = option.value.split(" ").filter(Boolean).map(Number);
      if (option.dataset.quantity) { select.value = quantity = option.dataset.quantity; seen = null; draw(); }
      if (rows.length) keys.forEach((_, i) => show(i, rows.includes(i)));
    });
    select.parentElement.hidden = select.options.length < 2;
    plot.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) { event.preventDefault(); step(by); }
    });
    new ResizeObserver(() => { if (plot.clientWidth !== chart.width) chart.setSize(size()); }).observe(plot);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    draw();
  }

  // The ledger shows the claims of the chosen paper and verdicts.
  const filters = document.querySelector(".filters");
  if (filters) {
    const claims = [...document.querySelectorAll(".ledger li")], boxes = [...filters.querySelectorAll("input")];
    const apply = () => {
      const paper = filters.querySelector("select").value;
      const verdicts = boxes.filter((box) => box.checked).map((box) => box.value);
      claims.forEach((claim) => {
        claim.hidden = (paper && claim.dataset.paper !== paper) || !verdicts.includes(claim.dataset.verdict);
      });
      document.querySelector(".none").hidden = claims.some((claim) => !claim.hidden);
    };
    filters.hidden = false;
    apply();
    filters.addEventListener("change", apply);
    filters.addEventListener("submit", (event) => event.preventDefault());
  }
  document.querySelectorAll(".menu a").forEach((link) =>
    link.addEventListener("click", () => { link.closest("details").open = false; }));

  // A figure is drawn when the reader comes near it: a report may have many.
  const waiting = new Set(document.querySelectorAll("figure[data-figure]"));
  const draw = (element) => { if (waiting.delete(element)) start(element); };
  const near = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) { near.unobserve(entry.target); draw(entry.target); }
  }), { rootMargin: "600px" });
  waiting.forEach((element) => near.observe(element));
  addEventListener("beforeprint", () => waiting.forEach(draw));
})();
