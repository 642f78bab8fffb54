"use strict";
// The slider. Calibration has bounded every configuration; here bounds are compared, nothing is estimated.

class TradeoffExplorer {
  constructor(data) {
    this.data = data;
    this.explorer = data.explorer;
    this.rule = data.explorer.rule;
    this.stop = data.explorer.declared;
    this.reading = data.explorer.readings.find((r) => r.confidence === data.confidence);
    this.unit = data.promise.relative ? { factor: 100, digits: 1, text: "% of deterministic" } : { factor: 1, digits: 3, text: "" };
  }

  get confidence() {
    return `${+(100 * this.reading.confidence).toFixed(3)}\u00a0%`;
  }

  get isDeclared() {
    return this.stop === this.explorer.declared && this.reading.confidence === this.data.confidence;
  }

  // The configuration that calibrating for this stop alone would use: along the path until the first that fails.
  // At the declared promise that is what the certificate says.
  used(stop = this.stop, reading = this.reading) {
    if (stop === this.explorer.declared && reading.confidence === this.data.confidence) return this.data.chosen;
    const strength = this.explorer.strengths[stop];
    let best = null;
    for (let c = 0; c < reading.levels.length; c++) {
      const holds = (this.rule.by_definition[c] || reading.levels[c] >= strength) && reading.others_hold[c];
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
      const holds = this.data.promise.utility ? bound >= target : bound <= target;
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
    this.draw();
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
    lines.push(element("h3", {}, title), element("p", {}, `${explorer.promises[this.stop]}, ${confidence} confidence`));
    if (c === null) {
      const needed = this.reading.needed[this.stop];
      where.dataset.needed = needed ?? "";
      lines.push(element("p", {}, needed === null
        ? "No number of judged queries would certify it: the safest configuration itself falls short. Lower the promise or improve the scores."
        : `About ${needed.toLocaleString("en")} judged queries would be enough, 8 times out of 10. Until then the order by score is served.`));
    } else {
      const point = this.data.configurations[c];
      const range = ([v, low, high], f, d, u = "") => `${(f * v).toFixed(d)}${u} [${(f * low).toFixed(d)}, ${(f * high).toFixed(d)}]`;
      lines.push(element("dl", {},
        element("dt", {}, "Ranker"), element("dd", {}, point.name),
        element("dt", {}, `NDCG@${this.data.k}`), element("dd", { className: "utility" }, range(point.utility, 1, 4)),
        element("dt", {}, "Disparity removed"), element("dd", { className: "gain" }, range(point.gain, 100, 1, "\u00a0%"))));
      where.dataset.utility = point.utility[0];
      where.dataset.gain = point.gain[0];
    }
    if (this.isDeclared) {
      lines.push(element("p", { className: "small" }, c === null
        ? "This is the outcome of the calibration." : "This position alone carries the certificate."));
    } else if (c !== null || this.reading.needed[this.stop] !== null) {
      const command = `${this.data.command.head} -g '${explorer.promises[this.stop]}' --confidence ${this.reading.confidence}${this.data.command.tail}`;
      lines.push(element("p", { className: "small" },
        "This is what calibrating for this promise alone, on this path, would have said. Chosen after looking, it is no guarantee. "
        + (c === null ? "To ask again, on enough fresh queries:" : "On fresh queries this makes it one:")),
      element("code", {}, command));
    }
    lines.push(element("p", { className: "small together" }, this.sayTogether(confidence)));
    where.replaceChildren(...lines);
  }

  sayTogether(confidence) {
    if (this.reading.band === null) return `No band without other judged queries; the squares are ${this.reading.stops.length} promises fixed beforehand that hold together with ${confidence}.`;
    const c = this.together();
    if (c === null) return `Holding for all positions at once (${confidence}, the band): nothing is certified here.`;
    const point = this.data.configurations[c];
    return `Holding for all positions at once (${confidence}, the band): ${point.name}, disparity removed ${(100 * point.gain[0]).toFixed(1)} %. This one you may choose after looking${this.data.n_promises > 1 ? ", for the first promise" : ""}.`;
  }

  // Prepared once per confidence: where the curves run and from which promise on nothing is certified.
  curves() {
    this.prepared ??= new Map();
    if (!this.prepared.has(this.reading)) {
      const { utility } = this.data.promise, f = this.unit.factor;
      const points = this.data.configurations.map((c, i) => ({
        x: utility ? 100 * c.gain[0] : c.utility[0],
        low: utility ? 100 * c.gain[1] : c.utility[1], high: utility ? 100 * c.gain[2] : c.utility[2],
        measured: f * this.explorer.measured[i],
        alone: f * this.bound(i, this.reading),
        band: this.reading.band === null ? null : f * this.reading.band[i],
        name: c.name,
      }));
      const stops = this.explorer.targets.map((_, s) => s), none = stops.find((s) => this.used(s) === null);
      this.prepared.set(this.reading, { points, none: none === undefined ? null : f * this.explorer.targets[none] });
    }
    return this.prepared.get(this.reading);
  }

  // The strongest target certified for one configuration alone.
  bound(c, reading) {
    const strength = reading.levels[c] / 1e6;
    return this.rule.by_definition[c] ? 1 : this.limit * (this.data.promise.utility ? strength : 1 - strength);
  }

  get limit() { // strength is a share of it
    const t = this.explorer.targets[0], s = this.explorer.strengths[0] / 1e6;
    return this.data.promise.utility ? t / s : t / (1 - s);
  }

  draw() {
    const where = document.querySelector("#tradeoff .chart"), { points, none } = this.curves();
    const { utility, relative } = this.data.promise, f = this.unit.factor, k = this.data.k;
    const targets = this.explorer.targets.map((t) => f * t), promise = targets[this.stop], declared = targets[this.explorer.declared];
    const edge = relative && utility ? [f] : [];
    const domain = d3.extent([...targets, ...edge]), chosen = this.used(), certificate = this.data.chosen;
    const metric = utility ? `NDCG@${k}` : this.data.promise.metric.replace("_", " ") + `@${k}`;
    const inside = points.filter((p) => p.measured >= domain[0] && p.measured <= domain[1]);
    const reach = d3.extent([0, ...inside.map((p) => p.x)].slice(utility ? 0 : 1));
    const hard = utility ? domain[1] : domain[0];
    draw(where, {
      height: Math.min(440, Math.max(320, where.clientWidth * 0.45)), marginTop: 34, marginLeft: 56, marginBottom: 44, marginRight: 12, clip: true,
      x: { label: utility ? "disparity removed, %" : `expected NDCG@${k}`, domain: reach, nice: true },
      y: { label: relative ? `${metric}, % of deterministic` : metric, domain, grid: true, nice: false },
      marks: [
        ...(none === null ? [] : [
          Plot.rect([none], { y1: none, y2: hard, fill: colour.before, fillOpacity: 0.16 }),
        ]),
        ...(this.reading.band === null ? [Plot.dot(this.reading.stops.filter((s) => s.configuration !== null), { x: (s) => points[s.configuration].x, y: (s) => f * s.target, symbol: "square", r: 5, fill: colour.band })]
          : [Plot.areaY(points, { x: "x", y1: "band", y2: "measured", z: null, fill: colour.band, fillOpacity: 0.12, clip: true }),
            Plot.line(points, { x: "x", y: "band", stroke: colour.band, strokeWidth: 1.8, strokeDasharray: "5 3", clip: true })]),
        Plot.line(points, { x: "x", y: "alone", stroke: colour.alone, strokeWidth: 2, clip: true }),
        Plot.line(points, { x: "x", y: "measured", stroke: colour.measured, strokeWidth: 2.5, clip: true }),
        Plot.ruleY([declared], { stroke: colour.promise, strokeWidth: 1.5, strokeDasharray: "2 4" }),
        Plot.ruleY([promise], { stroke: colour.promise, strokeWidth: 2.5 }),
        ...(certificate === null ? [] : [Plot.dot([points[certificate]], { x: "x", y: "measured", symbol: "star", r: 7, fill: colour.promise })]),
        ...(chosen === null ? [] : [
          Plot.link([points[chosen]], { x1: "low", x2: "high", y1: "measured", y2: "measured", stroke: "currentColor", strokeWidth: 1.5, clip: true }),
          Plot.dot([points[chosen]], { x: "x", y: "measured", r: 10, stroke: "currentColor", strokeWidth: 2, clip: true }),
        ]),
        ...(none === null ? [] : [Plot.text([`${utility ? "above" : "below"} this it abstains`], { x: reach[1], y: none, dy: utility ? 10 : -10, textAnchor: "end", dx: -4, fill: "currentColor", stroke: "var(--paper)", strokeWidth: 4 })]),
        Plot.tip(points, Plot.pointer({ x: "x", y: "measured", fill: "var(--paper)", title: (p) => `${p.name}\nmeasured ${p.measured.toFixed(this.unit.digits + 1)}\ncertified alone ${p.alone.toFixed(this.unit.digits + 1)}` })),
      ],
    }, `Trade-off: ${metric} against ${utility ? "disparity removed" : "utility"} along the path of configurations.`);
    this.explain(metric);
  }

  explain(metric) {
    if (this.explained === this.reading) return;
    this.explained = this.reading;
    const confidence = this.confidence;
    legend(document.querySelector("#tradeoff .legend"), [
      ["line", colour.measured, "measured"],
      ["line", colour.alone, `bound, each alone (${confidence})`],
      this.reading.band === null ? ["square", colour.band, `declared stops: all of these hold together with ${confidence}`] : ["dashed", colour.band, `band: all of these hold together with ${confidence}`],
      ["line", colour.promise, "the promise on the slider"],
      ["dotted", colour.promise, "declared"],
      ...(this.data.chosen === null ? [] : [["star", colour.promise, "certified ranker"]]),
      ["ring", "currentColor", "ranker at the slider, with interval"],
      ["hatch", colour.before, "abstains"],
    ]);
    document.querySelector("#tradeoff figcaption").textContent =
      `Each point of a curve is one configuration of the path, from the order by score to the most random. Where the promise line meets the bound, calibration stops. `
      + (this.reading.band === null ? "" : `The band was shaped by ${this.explorer.band_basis}. `)
      + `Intervals are approximate 95 % intervals.`;
  }
}
