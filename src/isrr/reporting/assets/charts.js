"use strict";
// Charts, drawn with Observable Plot into SVG. Colours are CSS variables, so light, dark and print need no redrawing.

const colour = { measured: "var(--blue)", alone: "var(--green)", band: "var(--purple)", promise: "var(--orange)", before: "var(--grey)" };
const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)}\u00a0%`;

const count = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// A legend entry draws the very mark it names: colour is never the only difference.
const swatches = {
  line: (c) => `<line x1="0" y1="7" x2="26" y2="7" stroke="${c}" stroke-width="2.5"/>`,
  thick: (c) => `<line x1="0" y1="7" x2="26" y2="7" stroke="${c}" stroke-width="6" opacity=".45"/>`,
  dashes: (c) => `<line x1="0" y1="7" x2="26" y2="7" stroke="${c}" stroke-width="2.5" stroke-dasharray="6 3"/>`,
  dotted: (c) => `<line x1="0" y1="7" x2="26" y2="7" stroke="${c}" stroke-width="2" stroke-dasharray="2 3"/>`,
  point: (c) => `<circle cx="13" cy="7" r="3" fill="${c}"/>`,
  dot: (c) => `<circle cx="13" cy="7" r="5" fill="${c}"/>`,
  ring: (c) => `<circle cx="13" cy="7" r="4.5" fill="none" stroke="${c}" stroke-width="2"/>`,
  square: (c) => `<rect x="8" y="2" width="10" height="10" fill="${c}"/>`,
  tick: (c) => `<line x1="13" y1="0" x2="13" y2="14" stroke="${c}" stroke-width="3"/>`,
  star: (c) => `<path d="M13 0l2 5h5l-4 3 2 6-5-4-5 4 2-6-4-3h5z" fill="${c}"/>`,
  bar: (c) => `<rect x="4" width="18" height="14" fill="${c}" opacity=".5"/>`,
  outline: (c) => `<rect x="4" y="1" width="18" height="12" fill="none" stroke="${c}" stroke-width="2"/>`,
};
function legend(where, entries) {
  where.replaceChildren(...entries.map(([kind, c, text]) => {
    const entry = element("span");
    entry.innerHTML = `<svg width="26" height="14" aria-hidden="true">${swatches[kind](c)}</svg>`;
    entry.append(text);
    return entry;
  }));
}

function draw(where, options, description) {
  const chart = Plot.plot({ width: Math.max(where.clientWidth, 280), style: { background: "none", fontSize: "13px" }, ...options });
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", description);
  where.replaceChildren(chart);
  return chart;
}

// A value with its interval, which stays on one line.
const withInterval = ([value, low, high], factor, digits, unit = "") => {
  const text = (x) => (factor * x).toFixed(digits);
  return [`${text(value)}${unit} `, element("span", {}, `[${text(low)}, ${text(high)}]`)];
};

// A table behind each chart: the same numbers for screen readers and for copying.
function tableBehind(figure, heads, rows) {
  const table = element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((h) => element("th", { scope: "col" }, h)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, element("bdi", {}, cell)))))));
  figure.append(element("details", {}, element("summary", {}, "The numbers"), element("div", { className: "scroll" }, table)));
}

const cut = (text, n) => ([...text].length > n ? [...text].slice(0, n - 1).join("") + "…" : text);

// Positions and grades are numbers; a reader wants to know of what.
const named = (id, name) => (id === "by-position" ? `position${/^\d+$/.test(name) ? "" : "s"} ${name}` : id === "by-grade" ? `grade ${name}` : name);

// How often the item at each position of the order by score is shown at all: the picture of the first screen.
function drawShown(figure, { k, shown }, first) {
  legend(figure.querySelector(".legend"), [["outline", colour.before, "today, by score"], ["bar", colour.measured, "with this ranker"]]);
  draw(figure.querySelector(".chart"), {
    height: 250, marginTop: 30, marginLeft: 56, marginBottom: 44,
    x: { type: "band", label: "position of the item in the order by score", padding: 0.25 },
    y: { label: `visits in which the item is among the first ${k}, %`, domain: [0, 100], grid: true, ticks: 5 },
    marks: [
      Plot.barY(shown, { x: "position", y: (s) => 100 * s.after, fill: colour.measured, fillOpacity: 0.5 }),
      Plot.barY(shown.filter((s) => s.before), { x: "position", y: (s) => 100 * s.before, fill: "none", stroke: colour.before, strokeWidth: 2 }),
      ...[true, false].map((tall) => Plot.text(shown.filter((s) => (s.after > 0.15) === tall), { x: "position", y: (s) => 100 * s.after, text: (s) => (100 * s.after).toFixed(0), dy: tall ? 9 : -7, fill: "currentColor" })),
      Plot.ruleY([0]),
    ],
  }, `How often the item at each position of the order by score is among the first ${k}, before and after.`);
  if (first) tableBehind(figure, ["position", "before", "after"], shown.map((s) => [String(s.position), percent(s.before, 0), percent(s.after)]));
}

function drawShares(figure, shares, changed) {
  const rows = shares.map((s, i) => ({ ...s, name: named(figure.id, s.name), key: i }));
  const longest = figure.clientWidth > 400 ? 17 : 15, name = (row) => cut(row.name, longest);
  draw(figure.querySelector(".chart"), {
    height: 62 + 28 * rows.length, marginLeft: 22 + 7.2 * Math.max(...rows.map((row) => [...name(row)].length)), marginRight: 16, marginBottom: 42,
    x: { label: "share of the total, %", grid: true, zero: true, transform: (x) => 100 * x, nice: true },
    y: { type: "band", label: null, domain: rows.map((r) => r.key), tickFormat: (i) => name(rows[i]), tickSize: 0 },
    marks: [
      Plot.tickX(rows.filter((r) => r.deserved !== null), { x: "deserved", y: "key", stroke: colour.alone, strokeWidth: 3, insetTop: 3, insetBottom: 3 }),
      Plot.tickX(rows.filter((r) => figure.id === "by-group" && Object.hasOwn(data.promised_groups, r.name)), { x: (r) => data.promised_groups[r.name], y: "key", stroke: colour.promise, strokeWidth: 3 }),
      ...(changed ? [Plot.arrow(rows.filter((r) => Math.abs(r.after - r.before) > 0.004), { x1: "before", x2: "after", y: "key", stroke: colour.measured, strokeWidth: 2, headLength: 0, insetStart: 6, insetEnd: 6 })] : []),
      Plot.dot(rows, { x: "before", y: "key", r: 5, stroke: colour.before, strokeWidth: 2 }),
      ...(changed ? [Plot.dot(rows, { x: "after", y: "key", r: 5.5, fill: colour.measured })] : []),
    ],
  }, `Share of exposure before and after for ${count(rows.length, "kind", "kinds")} of items; the numbers are in the table below.`);
}

// How unequally items of one grade in one query are seen.
function drawEquals(figure, equals, changed) {
  const rows = equals.map((e, i) => ({ ...e, key: i }));
  draw(figure.querySelector(".chart"), {
    height: 62 + 28 * rows.length, marginLeft: 22 + 7.2 * Math.max(9, ...rows.map((row) => [...row.name].length + 6)), marginRight: 16, marginBottom: 42,
    x: { label: "difference in exposure", grid: true, zero: true, nice: true },
    y: { type: "band", label: null, domain: rows.map((r) => r.key), tickFormat: (i) => `grade ${rows[i].name}`, tickSize: 0 },
    marks: [
      ...(changed ? [Plot.arrow(rows.filter((r) => Math.abs(r.after - r.before) > 0.004), { x1: "before", x2: "after", y: "key", stroke: colour.measured, strokeWidth: 2, headLength: 0, insetStart: 6, insetEnd: 6 })] : []),
      Plot.dot(rows, { x: "before", y: "key", r: 5, stroke: colour.before, strokeWidth: 2 }),
      ...(changed ? [Plot.dot(rows, { x: "after", y: "key", r: 5.5, fill: colour.measured })] : []),
    ],
  }, `How unequally items of the same grade are seen, before and after, for ${count(rows.length, "grade", "grades")}.`);
}

function drawSpread(where, spread, changed) {
  const bins = spread.before.map((n, i) => ({ x1: spread.edges[i], x2: spread.edges[i + 1], before: n, after: spread.after[i] }));
  draw(where, {
    height: 260, marginTop: 32, marginLeft: 56, marginBottom: 42,
    x: { label: `expected ${data.utility_name} of a query`, domain: [spread.edges[0], spread.edges.at(-1)] }, y: { label: "queries", grid: true, nice: true, ticks: Math.min(6, d3.max(bins, (b) => Math.max(b.before, b.after))), tickFormat: "~s" },
    marks: [
      ...(changed ? [Plot.rectY(bins, { x1: "x1", x2: "x2", y: "after", fill: colour.measured, fillOpacity: 0.5, inset: 1 })] : []),
      Plot.rectY(bins, { x1: "x1", x2: "x2", y: "before", fill: "none", stroke: colour.before, strokeWidth: 2, inset: 1 }),
      Plot.ruleX([spread.worst_before], { stroke: colour.before, strokeWidth: 2.5, strokeDasharray: "2 3" }),
      ...(changed ? [Plot.ruleX([spread.worst_after], { stroke: colour.promise, strokeWidth: 2.5 })] : []),
      Plot.ruleY([0]),
    ],
  }, "Histogram of the expected utility of each query, before and after.");
}

function drawRisk(where, data) {
  const { risk, tolerated } = data.explorer;
  const points = risk.map((value, c) => ({ i: c + 1, risk: value, bound: data.configurations[c].bound }));
  const least = d3.min(risk), near = Math.max(tolerated, least) + Math.max(2.5 * Math.abs(tolerated - least), 0.02);
  const shown = points.filter((p) => p.risk <= near); // where the promise is decided
  draw(where, {
    height: 280, marginTop: 32, marginLeft: 60, marginBottom: 42,
    x: { label: "rankers in the order tested, safest first" }, y: { label: "risk: the mean loss that is tested", grid: true, nice: true },
    marks: [
      Plot.ruleY([tolerated], { stroke: colour.promise, strokeWidth: 2 }),
      Plot.line(shown, { x: "i", y: "risk", stroke: colour.measured, strokeWidth: 2 }),
      Plot.line(shown, { x: "i", y: "bound", stroke: colour.alone, strokeWidth: 2, strokeDasharray: "6 3" }),
      ...(data.chosen === null ? [] : [Plot.dot([points[data.chosen]], { x: "i", y: "risk", r: 6, fill: colour.measured, stroke: "var(--paper)" })]),
    ],
  }, "Measured risk, its upper bound and the tolerated risk of the rankers, in the order tested.");
}
