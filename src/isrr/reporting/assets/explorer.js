"use strict";
// The slider moves over a table: the declared promise, eight levels tested beforehand, and measurements between them.

class TradeoffExplorer {
  constructor(data) {
    this.data = data;
    this.rows = data.explorer.rows;
    this.declared = this.rows.findIndex((row) => row.kind === "declared");
    this.unit = data.promise.of ? { factor: 100, digits: 1, text: ` % of ${data.promise.of}` } : data.promise.percent ? { factor: 100, digits: 1, text: " %" } : { factor: 1, digits: 4, text: "" };
    const { spreads, second } = data, f = this.unit.factor;
    this.isLine = data.is_curve && !second; // one promise against the other is a cloud
    const across = (c, i) => (second ? Array(3).fill((second.percent ? 100 : 1) * data.explorer.second[i]) : spreads ? c.gain.map((g) => 100 * g) : c.utility);
    this.points = data.configurations.map((c, i) => {
      const [x, low, high] = across(c, i);
      return { x, low, high, certified: c.certified, measured: f * data.explorer.measured[i], name: c.name };
    });
  }

  start() {
    this.slider = document.getElementById("promise-slider");
    this.back = document.getElementById("back");
    const last = this.rows.length - 1, position = this.declared / last;
    Object.assign(this.slider, { min: 0, max: last });
    const mark = document.querySelector(".declared-mark");
    mark.style.left = `calc(${position} * (100% - 16px) + 8px)`;
    mark.classList.toggle("right", position > 0.85);
    mark.classList.toggle("left", position < 0.15);
    this.slider.addEventListener("input", () => this.move(Number(this.slider.value)));
    this.back.addEventListener("click", () => this.move(this.declared));
    this.draw();
    this.move(this.declared);
  }

  move(i) {
    this.row = this.rows[i];
    this.slider.value = i;
    this.back.disabled = i === this.declared;
    this.say();
    this.place();
  }

  say() {
    const { kind, value, promise, configuration: c } = this.row, where = document.getElementById("readout"), { data } = this;
    const others = data.others.map((text) => ` and ${text}`).join(""), everywhere = data.promise.per_segment ? " in every segment" : "";
    const worst = data.promise.per_segment ? " in the worst segment" : "";
    const text = kind === "measured" ? `${data.promise.title}${worst}: ${(this.unit.factor * value).toFixed(this.unit.digits)}${this.unit.text}` : `${promise}${everywhere}${others}`;
    const title = { declared: ["The declared promise: certified", "The declared promise: abstained"], level: ["Fixed beforehand: certified", "Fixed beforehand: not certified"], measured: ["Measured, not promised"] }[kind][c === null ? 1 : 0];
    const lines = [element("h3", {}, title), element("p", {}, text)];
    if (c !== null) {
      const point = data.configurations[c];
      lines.push(element("dl", {},
        element("dt", {}, "Ranker"), element("dd", {}, point.name),
        element("dt", {}, data.utility_name), element("dd", {}, ...withInterval(point.utility, 1, 4)),
        element("dt", {}, "Disparity removed"), element("dd", {}, ...withInterval(point.gain, 100, 1, "\u00a0%"))));
    }
    lines.push(element("p", { className: "small" }, {
      declared: c === null ? "This is the outcome of the calibration." : "This position carries the certificate.",
      level: c === null ? "To ask again, on more and fresh queries:" : "You may use it after looking, see the table below. In Python it is:",
      measured: `This is what one configuration was measured to do${data.configurations[c]?.certified ? "; it is certified for the declared promise" : ""}. To promise it, declare it and calibrate on fresh queries.`,
    }[kind]));
    if (kind === "level") lines.push(element("code", {}, c === null ? data.ask.replace("@", promise) : `isrr.load("ranker.json").curve[${c}].ranker`));
    where.className = `readout ${kind !== "measured" && c !== null ? "certificate" : kind === "measured" ? "" : "abstains"}`;
    Object.assign(where.dataset, { kind, promise, configuration: c ?? "" });
    this.slider.setAttribute("aria-valuetext", `${title}: ${text}`);
    where.replaceChildren(...lines);
  }

  // Measured values, and which configurations are certified for the declared promise.
  traces() {
    const { points } = this;
    if (!this.isLine) {
      return [
        ...(this.data.second ? [Plot.line(this.data.explorer.frontier.map((c) => points[c]), { x: "x", y: "measured", stroke: colour.measured, strokeWidth: 2.5 })] : []),
        Plot.dot(points.filter((p) => !p.certified), { x: "x", y: "measured", r: 2.2, stroke: colour.before, clip: true }),
        Plot.dot(points.filter((p) => p.certified), { x: "x", y: "measured", r: 3.2, fill: colour.alone, clip: true }),
      ];
    }
    return [
      Plot.line(points.filter((p) => p.certified), { x: "x", y: "measured", stroke: colour.alone, strokeWidth: 7, strokeOpacity: 0.45 }),
      Plot.line(points, { x: "x", y: "measured", stroke: colour.measured, strokeWidth: 2.5, clip: true }),
    ];
  }

  // What the slider does not move: drawn once per width.
  draw() {
    const where = document.querySelector("#tradeoff .chart"), { points, data } = this, { spreads, second } = data, f = this.unit.factor;
    const other = second && (second.percent ? 100 : 1) * second.target, xs = points.map((p) => p.x);
    const label = second ? `${second.title}${second.of ? `, % of ${second.of}` : second.percent ? ", %" : ""}` : spreads ? "disparity removed, %" : `expected ${data.utility_name}`;
    const kept = this.rows.filter((row) => row.kind === "level" && row.configuration !== null);
    const metric = data.promise.title, [lowest, highest] = d3.extent(this.rows, (row) => f * row.value), room = 0.03 * (highest - lowest);
    const chart = draw(where, {
      height: Math.min(440, Math.max(320, where.clientWidth * 0.45)), marginTop: 34, marginLeft: 56, marginBottom: 44, marginRight: 12, clip: true,
      x: { label, domain: d3.extent(second ? [other, ...xs] : spreads ? [0, ...xs] : xs), nice: true },
      y: { label: this.unit.text ? `${metric}, ${this.unit.text.trim()}` : metric, domain: [lowest - room, highest + room], grid: true },
      marks: [
        ...this.traces(),
        ...(second ? [Plot.ruleX([other], { stroke: colour.promise, strokeWidth: 2 })] : []),
        Plot.ruleY([f * this.rows[this.declared].value], { stroke: colour.promise, strokeWidth: 1.5, strokeDasharray: "2 4" }),
        Plot.dot(kept, { x: (row) => points[row.configuration].x, y: (row) => f * row.value, symbol: "square", r: 5, fill: colour.band }),
        ...(data.chosen === null ? [] : [Plot.dot([points[data.chosen]], { x: "x", y: "measured", symbol: "star", r: 7, fill: colour.promise })]),
        Plot.tip(points, Plot.pointer({ x: "x", y: "measured", fill: "var(--paper)", title: (p) => `${p.name}\nmeasured ${p.measured.toFixed(this.unit.digits)}${this.unit.text}` })),
      ],
    }, `Trade-off: ${metric} against ${second ? second.title : spreads ? "disparity removed" : "utility"} of the rankers tested.`);
    this.overlay(chart);
    this.explain(kept);
    if (this.row) this.place();
  }

  // The promise and the ranker at the slider, laid over the chart and clipped to its frame.
  overlay(chart) {
    const x = chart.scale("x"), y = chart.scale("y"), [left, right] = d3.extent(x.range), [top, bottom] = d3.extent(y.range);
    const frame = d3.select(chart).append("svg").attr("x", left).attr("y", top).attr("width", right - left).attr("height", bottom - top)
      .attr("overflow", "hidden").attr("pointer-events", "none");
    const line = (stroke, width) => frame.append("line").attr("stroke", stroke).attr("stroke-width", width);
    this.marks = {
      across: (value) => x.apply(value) - left, up: (value) => y.apply(value) - top,
      promise: line(colour.promise, 2.5).attr("x1", 0).attr("x2", right - left),
      interval: line("currentColor", 1.5),
      ring: frame.append("circle").attr("r", 10).attr("fill", "none").attr("stroke", "currentColor").attr("stroke-width", 2),
    };
  }

  place() {
    const { across, up, promise, interval, ring } = this.marks, { kind, value, configuration: c } = this.row;
    const height = up(this.unit.factor * value);
    promise.attr("y1", height).attr("y2", height).attr("visibility", kind === "measured" ? "hidden" : null);
    for (const mark of [interval, ring]) mark.attr("visibility", c === null ? "hidden" : null);
    if (c === null) return;
    const point = this.points[c];
    interval.attr("x1", across(point.low)).attr("x2", across(point.high)).attr("y1", up(point.measured)).attr("y2", up(point.measured));
    ring.attr("cx", across(point.x)).attr("cy", up(point.measured));
  }

  explain(kept) {
    const { data } = this, line = this.isLine;
    legend(document.querySelector("#tradeoff .legend"), [
      ...(line ? [["line", colour.measured, data.promise.per_segment ? "measured, in the worst segment" : "measured"]] : [["ring", colour.before, "measured"]]),
      ...(data.second ? [["line", colour.measured, "frontier: what is within reach, as measured"]] : []),
      ...(this.points.some((p) => p.certified) ? [[line ? "thick" : "point", colour.alone, "certified for the declared promise"]] : []),
      ...(kept.length ? [["square", colour.band, "certified levels fixed beforehand"]] : []),
      ["line", colour.promise, data.second ? "the two promises" : "the promise at the slider"], ["dotted", colour.promise, "declared"],
      ...(data.chosen === null ? [] : [["star", colour.promise, "certified ranker"]]),
      ["ring", "currentColor", "ranker at the slider, with interval"],
    ]);
    document.querySelector("#tradeoff figcaption").textContent =
      `Each point${line ? " of the curve" : ""} is one ranker, from the order by score (“deterministic”) to the most random; temperature says how random. `
      + (data.second ? "Rankers that keep both promises lie beyond both lines; the frontier shows how much of one costs how much of the other. " : "")
      + (kept.length ? "A square stands at its level, over the ranker certified for it. " : "")
      + "Intervals are approximate 95 % intervals.";
  }
}
