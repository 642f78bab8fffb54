"use strict";
// Puts the page together. Everything that came with the data reaches the page as text.

const data = JSON.parse(document.getElementById("data").textContent);
const changed = !data.abstained;

function drawStill() { // without a slider: the curve as the certificate holds it
  document.querySelector(".still").hidden = false;
  document.querySelector(".explore").hidden = true;
  document.querySelector(".plain").before(document.getElementById("tradeoff")); // the picture of the first screen
  const points = data.configurations.map((c) => ({ x: 100 * c.gain[0], y: c.utility[0], certified: c.certified }));
  legend(document.querySelector("#tradeoff .legend"), [[data.is_curve ? "line" : "point", colour.measured, "measured"], ...(data.chosen === null ? [] : [[data.is_curve ? "thick" : "point", colour.alone, "certified"], ["star", colour.promise, "in use"]])]);
  draw(document.querySelector("#tradeoff .chart"), {
    height: 360, marginTop: 34, marginLeft: 56, marginBottom: 44, x: { label: "disparity removed, %" }, y: { label: `expected ${data.utility_name}`, grid: true },
    marks: [
      ...(data.is_curve ? [
        Plot.line(points.filter((p) => p.certified), { x: "x", y: "y", stroke: colour.alone, strokeWidth: 7, strokeOpacity: 0.45 }),
        Plot.line(points, { x: "x", y: "y", stroke: colour.measured, strokeWidth: 2.5 }),
      ] : [
        Plot.dot(points.filter((p) => !p.certified), { x: "x", y: "y", r: 2.5, fill: colour.measured }),
        Plot.dot(points.filter((p) => p.certified), { x: "x", y: "y", r: 3.5, fill: colour.alone }),
      ]),
      ...(data.chosen === null ? [] : [Plot.dot([points[data.chosen]], { x: "x", y: "y", symbol: "star", r: 9, fill: colour.promise, stroke: "var(--paper)" })]),
    ],
  }, "Trade-off between utility and disparity removed of the rankers tested.");
}

function drawPortrait(portrait, first) {
  const show = (id) => { document.getElementById(id).hidden = false; };
  [...(changed ? ["shown"] : []), "exposure", "spread", "sample", ...(portrait.groups.length ? ["by-group"] : [])].forEach(show); // shown before drawn: charts take the width there is
  if (changed) drawShown(document.getElementById("shown"), { k: data.k, shown: portrait.shown }, first);
  legend(document.querySelector(".shares-legend"), [
    ["ring", colour.before, "order by score"], ...(changed ? [["dot", colour.measured, "ranker in use"]] : []), ["tick", colour.alone, "share of relevance"],
    ...(Object.keys(data.promised_groups).length ? [["line", colour.promise, "promised"]] : []),
  ]);
  const equals = document.getElementById("by-equals");
  drawEquals(equals, portrait.equals, changed);
  if (first) tableBehind(equals, ["grade", "items", "before", "after"], portrait.equals.map((e) => [e.name, e.n_items.toLocaleString("en"), e.before.toFixed(3), e.after.toFixed(3)]));
  const grades = document.getElementById("by-grade");
  for (const [id, shares] of [["by-group", portrait.groups], ["by-position", portrait.positions], ["by-grade", portrait.grades]]) {
    if (!shares.length) continue;
    const figure = document.getElementById(id);
    if (figure === grades && !grades.open) grades.ontoggle = () => drawShares(grades, portrait.grades, changed);
    else drawShares(figure, shares, changed);
    if (first) tableBehind(figure, [id.slice(3), "items", "before", "after", "relevance"],
      shares.map((s) => [named(id, s.name), s.n_items.toLocaleString("en"), percent(s.before), percent(s.after), percent(s.deserved)]));
  }
  const spread = portrait.spread, section = document.getElementById("spread");
  legend(section.querySelector(".legend"), [
    ["outline", colour.before, "order by score"], ...(changed ? [["bar", colour.measured, "ranker in use"]] : []),
    ["dotted", colour.before, `mean of the worst tenth${changed ? ", before" : ""}`], ...(changed ? [["line", colour.promise, "the same queries, after"]] : []),
  ]);
  drawSpread(section.querySelector(".chart"), spread, changed);
  if (first) {
    tableBehind(section.querySelector("figure"), [`${data.utility_name} from`, "to", "queries before", "after"],
      spread.before.map((n, i) => [spread.edges[i].toFixed(2), spread.edges[i + 1].toFixed(2), n.toLocaleString("en"), spread.after[i].toLocaleString("en")]));
    sampleTable(portrait.sample);
  }
}

function sampleTable(sample) {
  const section = document.getElementById("sample"), k = data.k;
  section.querySelector("#sample-words bdi").textContent = `Query ${sample.query}`;
  const grouped = sample.rows.some((row) => row.group !== null);
  const heads = [["item"], ...(grouped ? [["group", "words aside"]] : []), ["grade"], ["score", "aside"], ...d3.range(1, k + 1).map((j) => [`position ${j}`]), ["shown at all"]];
  const body = sample.rows.map((row, i) => {
    const tr = element("tr", {}, element("th", { scope: "row" }, element("bdi", { title: row.item }, row.item)));
    if (grouped) tr.append(element("td", { className: "words aside" }, element("bdi", {}, row.group ?? "")));
    tr.append(element("td", {}, String(row.relevance)), element("td", { className: "aside" }, row.score.toPrecision(3)));
    row.chances.forEach((chance, j) => {
      const cell = element("td", { className: i === j ? "before" : "" }, percent(chance, chance > 0.995 || chance === 0 ? 0 : 1));
      cell.style.backgroundColor = `rgba(var(--heat), ${(0.5 * Math.min(chance, 1)).toFixed(3)})`;
      tr.append(cell);
    });
    tr.append(element("td", {}, percent(d3.sum(row.chances), 0)));
    return tr;
  });
  section.querySelector("table").replaceChildren(
    element("thead", {}, element("tr", {}, ...heads.map(([text, className = ""]) => element("th", { scope: "col", className }, text)))), element("tbody", {}, ...body));
}

const tradeoff = data.explorer ? new TradeoffExplorer(data) : null;
if (tradeoff) tradeoff.start(); else drawStill();
function drawRest(first) {
  if (data.portrait) drawPortrait(data.portrait, first);
  if (data.explorer) {
    const section = document.getElementById("risk");
    const bounded = data.configurations.some((c) => c.bound !== null);
    section.hidden = false;
    legend(section.querySelector(".legend"), [["line", colour.measured, "measured risk"], ...(bounded ? [["dashes", colour.alone, "upper bound"]] : []), ["line", colour.promise, "tolerated risk"], ...(data.chosen === null ? [] : [["dot", colour.measured, "in use"]])]);
    drawRisk(section.querySelector(".chart"), data);
    if (first) tableBehind(section.querySelector("figure"), ["ranker", "risk", ...(bounded ? ["bound"] : []), data.utility_name, "disparity removed"],
      data.configurations.map((c, i) => [c.name, data.explorer.risk[i].toFixed(4), ...(bounded ? [c.bound === null ? "" : c.bound.toFixed(4)] : []), c.utility[0].toFixed(4), percent(c.gain[0])]));
  }
}
drawRest(true);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  if (tradeoff) tradeoff.draw(); else drawStill();
  drawRest(false);
});
