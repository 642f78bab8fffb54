"use strict";
// The slider. Calibration has bounded every configuration; here bounds are compared, nothing is estimated.

class TradeoffExplorer {
  constructor(data) {
    this.data = data;
    this.explorer = data.explorer;
    this.rule = data.explorer.rule;
    this.stop = data.explorer.declared;
    this.everything = false; // the band, the stops and the declared promise, on demand
    this.reading = data.explorer.readings.find((r) => r.confidence === data.confidence);
    this.unit = data.promise.of ? { factor: 100, digits: 1, text: `% of ${data.promise.of}` } : data.promise.percent ? { factor: 100, digits: 1, text: "%" } : { factor: 1, digits: 3, text: "" };
  }

  get confidence() {
    return `${+(100 * this.reading.confidence).toFixed(3)}\u00a0%`;
  }

  get isDeclared() {
    return this.stop === this.explorer.declared && this.reading.confidence === this.data.confidence;
  }

  // Judged queries that would be enough; at the declared promise that, too, is what the outcome says.
  get needed() {
    return this.isDeclared ? this.data.queries_needed : this.reading.needed[this.stop];
  }

  // The configuration that calibrating for this stop alone would use: along the path until the first that fails.
  // At the declared promise that is what the certificate says.
  used(stop = this.stop, reading = this.reading) {
    if (stop === this.explorer.declared && reading.confidence === this.data.confidence) return this.data.chosen;
    const strength = this.explorer.strengths[stop];
    let best = null;
    for (let c = 0; c < reading.levels.length; c++) {
      const holds = (this.explorer.by_definition[c] || reading.levels[c] >= strength) && reading.others_hold[c];
      if (!holds && !this.rule.one_by_one) break;
      if (holds && !this.rule.free[c] && (best === null || this.rule.preference[c] < this.rule.preference[best])) best = c;
    }
    return best;
  }

  // The configuration the band stands for at this stop: all of its bounds hold together, so any may be picked.
  together(stop = this.stop, reading = this.reading) {
    if (reading.band === null) return null;
    const target = this.explorer.targets[stop];
    let best = null;
    reading.band.forEach((bound, c) => {
      const holds = this.data.promise.at_least ? bound >= target : bound <= target;
      if (holds && !this.rule.free[c] && (best === null || this.rule.preference[c] < this.rule.preference[best])) best = c;
    });
    return best;
  }

  start() {
    const { slider, number, back } = this.controls = {
      slider: document.getElementById("promise-slider"), number: document.getElementById("promise-number"), back: document.getElementById("back"),
    };
    const targets = this.explorer.targets, last = targets.length - 1;
    Object.assign(slider, { min: 0, max: last });
    const shown = targets.map((t) => this.unit.factor * t);
    Object.assign(number, { min: Math.min(...shown).toFixed(this.unit.digits), max: Math.max(...shown).toFixed(this.unit.digits), step: 10 ** -this.unit.digits });
    document.getElementById("promise-unit").textContent = ` ${this.unit.text}`;
    const mark = document.querySelector(".declared-mark");
    mark.style.left = `calc(${this.explorer.declared / last} * (100% - 16px) + 8px)`;
    mark.classList.toggle("right", this.explorer.declared / last > 0.85);
    mark.classList.toggle("left", this.explorer.declared / last < 0.15);
    slider.addEventListener("input", () => this.move(Number(slider.value)));
    number.addEventListener("change", () => {
      const wanted = Number(number.value) / this.unit.factor;
      if (Number.isFinite(wanted)) this.move(d3.leastIndex(targets, (a, b) => Math.abs(a - wanted) - Math.abs(b - wanted)));
    });
    back.addEventListener("click", () => { this.choose(this.data.confidence); this.move(this.explorer.declared); });
    const group = document.querySelector("fieldset.confidence");
    for (const reading of this.explorer.readings) {
      const radio = element("input", { type: "radio", name: "confidence", value: String(reading.confidence) });
      radio.checked = reading === this.reading;
      radio.addEventListener("change", () => { this.choose(reading.confidence); this.move(this.stop); });
      group.append(element("label", {}, radio, `${+(100 * reading.confidence).toFixed(3)} %`));
    }
    const every = document.getElementById("every");
    every.parentElement.hidden = Boolean(this.data.second);
    every.addEventListener("change", () => { this.everything = every.checked; this.say(); this.draw(); });
    this.move(this.stop);
  }

  choose(confidence) {
    this.reading = this.explorer.readings.find((r) => r.confidence === confidence);
    for (const radio of document.querySelectorAll("fieldset.confidence input")) radio.checked = Number(radio.value) === confidence;
  }

  move(stop) {
    this.stop = stop;
    const { slider, number, back } = this.controls;
    slider.value = stop;
    slider.setAttribute("aria-valuetext", this.explorer.promises[stop]);
    const target = this.unit.factor * this.explorer.targets[stop];
    number.value = Math.abs(target - target.toFixed(this.unit.digits)) < 1e-9 ? target.toFixed(this.unit.digits) : target;
    back.disabled = this.isDeclared;
    this.say();
    if (this.drawn === this.reading) this.place(); else this.draw();
  }

  say() {
    const where = document.getElementById("readout"), c = this.used(), explorer = this.explorer;
    const confidence = this.confidence;
    const lines = [];
    where.className = `readout ${this.isDeclared && c !== null ? "certificate" : ""} ${c === null ? "abstains" : ""}`;
    Object.assign(where.dataset, { stop: this.stop, configuration: c ?? "", promise: explorer.promises[this.stop] });
    const title = this.isDeclared
      ? (c === null ? "The declared promise: abstained" : "The declared promise: certified")
      : (c === null ? "What if: it would abstain" : "What if: not a guarantee");
    lines.push(element("h3", {}, title), element("p", {}, `${explorer.promises[this.stop]}${this.data.promise.per_segment ? " in every segment" : ""}${this.data.others.map((text) => ` and ${text}`).join("")}, ${confidence} confidence`));
    if (c === null) {
      const needed = this.needed;
      where.dataset.needed = needed ?? "";
      lines.push(element("p", {}, needed === null
        ? "No number of judged queries would certify it: the safest configuration itself falls short. Ask for less, or improve the scores."
        : `With about ${count(needed, "judged query", "judged queries")}, this promise would be certified 8 times out of 10. Until then the order by score is served.`));
    } else {
      const point = this.data.configurations[c];
      lines.push(element("dl", {},
        element("dt", {}, "Ranker"), element("dd", {}, point.name),
        element("dt", {}, this.data.utility_name), element("dd", { className: "utility" }, ...withInterval(point.utility, 1, 4)),
        element("dt", {}, "Disparity removed"), element("dd", { className: "gain" }, ...withInterval(point.gain, 100, 1, "\u00a0%"))));
      where.dataset.utility = point.utility[0];
      where.dataset.gain = point.gain[0];
    }
    if (this.isDeclared) {
      lines.push(element("p", { className: "small" }, c === null
        ? "This is the outcome of the calibration." : "This position alone carries the certificate."));
    } else {
      const possible = c !== null || this.needed !== null;
      const allowed = this.banded && c !== null && this.together() === c;
      lines.push(element("p", { className: "small" },
        "This is what calibrating for this promise alone, on this path, would have said. By itself it is not a guarantee, because you chose the promise after looking. "
        + (allowed ? "The band below allows this very ranker, so you may choose it. " : "")
        + (c !== null ? "To have it certified, on fresh queries:" : possible ? "To ask again, on enough fresh queries:" : "")));
      if (possible) lines.push(element("code", {}, `isrr calibrate fresh.parquet -p '${explorer.promises[this.stop]}' --confidence ${this.reading.confidence} ${this.data.settings}`));
    }
    if (this.everything) {
      lines.push(element("p", { className: "small together" }, this.sayTogether(confidence)));
      if (this.data.choose && !this.isDeclared && this.reading.confidence === this.data.confidence && this.banded && this.together() !== null) {
        lines.push(element("p", { className: "small" }, "To save it as a certificate:"), element("code", {}, this.data.choose.replace("@", explorer.promises[this.stop])));
      }
    }
    where.replaceChildren(...lines);
  }

  get banded() {
    return this.everything && this.reading.band !== null;
  }

  get stopsKept() { // promises fixed beforehand that are certified
    return this.reading.stops.filter((s) => s.configuration !== null);
  }

  sayTogether(confidence) {
    if (this.reading.band === null) {
      const kept = this.stopsKept.length;
      return `No band without other judged queries. Of ${this.reading.stops.length} promises fixed beforehand, ${kept ? `${kept} hold together with ${confidence}: the squares` : "none is certified"}.`;
    }
    const c = this.together();
    if (c === null) return `The band, which holds for all positions of the slider at once (${confidence} confidence), certifies nothing here.`;
    const point = this.data.configurations[c];
    return `To choose a promise after looking, use the band: it holds for all positions of the slider at once, with ${confidence} confidence. Here it allows ${point.name}, which removes ${percent(point.gain[0])} of the disparity${this.data.others.length ? "; this is for the first promise alone" : ""}.`;
  }

  // Prepared once per confidence: where the curves run and from which promise on nothing is certified.
  curves() {
    this.prepared ??= new Map();
    if (!this.prepared.has(this.reading)) {
      const { spreads, second } = this.data, f = this.unit.factor;
      const across = (c, i) => (second ? Array(3).fill((second.percent ? 100 : 1) * this.explorer.second[i]) : spreads ? c.gain.map((g) => 100 * g) : c.utility);
      const points = this.data.configurations.map((c, i) => ({
        x: across(c, i)[0], low: across(c, i)[1], high: across(c, i)[2],
        certified: c.certified,
        measured: f * this.explorer.measured[i],
        alone: f * this.bound(i, this.reading),
        band: this.reading.band === null || this.explorer.by_definition[i] ? NaN : f * this.reading.band[i],
        name: c.name,
      }));
      const stops = this.explorer.targets.map((_, s) => s), none = stops.find((s) => this.used(s) === null);
      this.prepared.set(this.reading, { points, none: none === undefined ? null : f * this.explorer.targets[none] });
    }
    return this.prepared.get(this.reading);
  }

  // The strongest target certified for one configuration alone; none where the promise is kept by definition.
  bound(c, reading) {
    const strength = reading.levels[c] / 1e6, [low, high] = this.data.promise.range;
    return this.explorer.by_definition[c] ? NaN : low + (high - low) * (this.data.promise.at_least ? strength : 1 - strength);
  }

  // Whether configurations lie along a curve; where their order follows several promises they do not.
  get isCurve() {
    const steps = d3.pairs(this.curves().points, (a, b) => Math.sign(b.x - a.x));
    return d3.sum(d3.pairs(steps, (a, b) => (a * b < 0 ? 1 : 0))) <= steps.length / 4;
  }

  // Measured values, their bounds and the band: lines along a curve, else a stem for each configuration.
  traces(points) {
    const banded = this.banded;
    if (this.data.second) {
      return [
        Plot.line(this.frontier(points), { x: "x", y: "measured", stroke: colour.measured, strokeWidth: 2.5 }),
        Plot.dot(points.filter((p) => !p.certified), { x: "x", y: "measured", r: 2.2, stroke: colour.before, clip: true }),
        Plot.dot(points.filter((p) => p.certified), { x: "x", y: "measured", r: 3.2, fill: colour.alone, clip: true }),
      ];
    }
    if (this.isCurve) {
      return [
        ...(banded ? [Plot.areaY(points, { x: "x", y1: "band", y2: "measured", z: null, fill: colour.band, fillOpacity: 0.12, clip: true }),
          Plot.line(points, { x: "x", y: "band", stroke: colour.band, strokeWidth: 1.8, strokeDasharray: "5 3", clip: true })] : []),
        Plot.line(points, { x: "x", y: "alone", stroke: colour.alone, strokeWidth: 2, clip: true }),
        Plot.line(points, { x: "x", y: "measured", stroke: colour.measured, strokeWidth: 2.5, clip: true }),
      ];
    }
    return [
      Plot.link(points, { x1: "x", x2: "x", y1: banded ? "band" : "alone", y2: "measured", stroke: colour.band, strokeOpacity: 0.4, strokeWidth: 1.5, clip: true }),
      Plot.dot(points, { x: "x", y: "alone", r: 1.8, fill: colour.alone, clip: true }),
      Plot.dot(points, { x: "x", y: "measured", r: 2.8, fill: colour.measured, clip: true }),
    ];
  }

  // Configurations that no other beats at both promises, along the second.
  frontier(points) {
    const up = (p) => (this.data.promise.at_least ? p.measured : -p.measured), right = (p) => (this.data.second.at_least ? p.x : -p.x);
    let best = -Infinity;
    return d3.sort(points, (a, b) => right(b) - right(a) || up(b) - up(a)).filter((p) => up(p) > best && ((best = up(p)), true));
  }

  // What the promise on the slider does not move: drawn once per confidence and width.
  draw() {
    const where = document.querySelector("#tradeoff .chart"), { points, none } = this.curves();
    const { at_least: rising, of } = this.data.promise, { spreads, second } = this.data, f = this.unit.factor;
    const targets = this.explorer.targets.map((t) => f * t), declared = targets[this.explorer.declared];
    const edge = of && rising ? [f] : [];
    const domain = d3.extent([...targets, ...edge]), certificate = this.data.chosen;
    const metric = this.data.promise.title;
    const inside = points.filter((p) => p.measured >= domain[0] && p.measured <= domain[1]);
    const other = second && (second.percent ? 100 : 1) * second.target;
    const reach = second ? d3.extent([other, ...inside.map((p) => p.x)]) : d3.extent([0, ...inside.map((p) => p.x)].slice(spreads ? 0 : 1));
    const label = second ? `${second.title}${second.of ? `, % of ${second.of}` : second.percent ? ", %" : ""}` : spreads ? "disparity removed, %" : `expected ${this.data.utility_name}`;
    const hard = rising ? domain[1] : domain[0];
    const chart = draw(where, {
      height: Math.min(440, Math.max(320, where.clientWidth * 0.45)), marginTop: 34, marginLeft: 56, marginBottom: 44, marginRight: 12, clip: true,
      x: { label, domain: reach, nice: true },
      y: { label: this.unit.text ? `${metric}, ${this.unit.text}` : metric, domain, grid: true, nice: false },
      marks: [
        ...(none === null ? [] : [
          Plot.rect([none], { y1: none, y2: hard, fill: colour.before, fillOpacity: 0.16 }),
        ]),
        ...this.traces(points),
        Plot.dot(this.everything ? this.stopsKept : [], { x: (s) => points[s.configuration].x, y: (s) => f * s.target, symbol: "square", r: 5, fill: colour.band }),
        ...(second ? [Plot.ruleX([other], { stroke: colour.promise, strokeWidth: 2 })] : []),
        Plot.ruleY(this.everything ? [declared] : [], { stroke: colour.promise, strokeWidth: 1.5, strokeDasharray: "2 4" }),
        ...(certificate === null ? [] : [Plot.dot([points[certificate]], { x: "x", y: "measured", symbol: "star", r: 7, fill: colour.promise })]),
        ...(none === null ? [] : [Plot.text([none === targets[0] ? "it abstains at every promise shown here" : `${rising ? "above" : "below"} ${none.toFixed(this.unit.digits)}${this.unit.text.startsWith("%") ? " %" : ""} it abstains`],
          { x: reach[1], y: none, dy: (none === targets[0]) === rising ? -10 : 10, textAnchor: "end", dx: -4, fill: "currentColor", stroke: "var(--paper)", strokeWidth: 4 })]),
        Plot.tip(points, Plot.pointer({ x: "x", y: "measured", fill: "var(--paper)", title: (p) => `${p.name}\nmeasured ${p.measured.toFixed(this.unit.digits + 1)}${Number.isNaN(p.alone) ? "" : `\ncertified alone ${p.alone.toFixed(this.unit.digits + 1)}`}` })),
      ],
    }, `Trade-off: ${metric} against ${second ? second.title : spreads ? "disparity removed" : "utility"} along the path of configurations.`);
    this.drawn = this.reading;
    this.overlay(chart);
    this.explain();
    this.place();
  }

  // The promise on the slider and the ranker it would choose, laid over the chart and clipped to its frame.
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
    const { across, up, promise, interval, ring } = this.marks, c = this.used();
    const height = up(this.unit.factor * this.explorer.targets[this.stop]);
    promise.attr("y1", height).attr("y2", height);
    for (const mark of [interval, ring]) mark.attr("visibility", c === null ? "hidden" : null);
    if (c === null) return;
    const point = this.curves().points[c];
    interval.attr("x1", across(point.low)).attr("x2", across(point.high)).attr("y1", up(point.measured)).attr("y2", up(point.measured));
    ring.attr("cx", across(point.x)).attr("cy", up(point.measured));
  }

  explain() {
    const confidence = this.confidence;
    const trace = this.isCurve ? "line" : "point";
    if (this.data.second) return this.explainTwo();
    legend(document.querySelector("#tradeoff .legend"), [
      [trace, colour.measured, this.data.promise.per_segment ? "measured, in the worst segment" : "measured"],
      [trace, colour.alone, this.explorer.n_tests > 1 ? `bound at 1/${this.explorer.n_tests} of the error (${confidence} in all)` : `proven, each configuration alone (${confidence})`],
      ...(this.banded ? [[this.isCurve ? "dashed" : "stem", colour.band, `band: holds for all configurations at once (${confidence})`]]
        : this.everything && this.stopsKept.length ? [["square", colour.band, `declared stops: they hold at once (${confidence})`]] : []),
      ["line", colour.promise, "the promise on the slider"],
      ...(this.everything ? [["dotted", colour.promise, "declared"]] : []),
      ...(this.data.chosen === null ? [] : [["star", colour.promise, "certified ranker"]]),
      ["ring", "currentColor", "ranker at the slider, with interval"],
      ["hatch", colour.before, "abstains"],
    ]);
    document.querySelector("#tradeoff figcaption").textContent =
      `Each point${this.isCurve ? " of a curve" : ""} is one setting of the ranker (a configuration), from the order by score (“deterministic”) to the most random; temperature says how random. `
      + (this.rule.one_by_one ? "Where the bound keeps the promise, a configuration is certified. " : "Calibration stops at the last one whose proven value still keeps the promise. ")
      + (!this.banded ? "" : `The band was shaped by ${count(this.explorer.shaped_by, "other judged query", "other judged queries")}. `)
      + `Intervals are approximate 95 % intervals.`;
  }

  explainTwo() {
    legend(document.querySelector("#tradeoff .legend"), [
      ["line", colour.measured, "frontier: what is within reach, as measured"],
      ["point", colour.alone, "certified for both promises"], ["ring", colour.before, "tried"],
      ["line", colour.promise, "the two promises"],
      ...(this.data.chosen === null ? [] : [["star", colour.promise, "certified ranker"]]),
      ["ring", "currentColor", "ranker at the slider"], ["hatch", colour.before, "abstains"],
    ]);
    document.querySelector("#tradeoff figcaption").textContent =
      "Each point is one configuration. Those that keep both promises lie beyond both lines; the frontier shows how much of one promise costs how much of the other. "
      + "It is measured, not promised: to promise another point of it, use new queries.";
  }
}
