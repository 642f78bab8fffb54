"""The page at `/`: candidates on the certificate's scale, their exposure over 100 draws, and the list of each visitor.

Everything comes from `/info` and `/preview`, so the page itself holds nothing of the certificate and needs no key.
"""

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>isrr</title>
<style>
 body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
 textarea { width: 100%; height: 15rem; font: 14px/1.4 ui-monospace, monospace; box-sizing: border-box }
 button, input { font: inherit; padding: .3rem .6rem }
 input[type=number] { width: 4rem }
 label[for=items] { display: block }
 h2 { font-size: 1.15rem; margin: 2rem 0 .3rem }
 table { border-collapse: collapse; width: 100%; margin-top: .5rem }
 th, td { text-align: left; padding: .15rem .6rem .15rem 0; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; vertical-align: top }
 .item { overflow-wrap: anywhere; min-width: 4.2rem }
 #exposure th:nth-child(n+3) { width: 30% }
 .meter { display: flex; align-items: center; gap: .4rem }
 .meter i { flex: 1; max-width: 8rem; height: .7rem }
 .meter b { display: block; height: 100%; background: #0072B2 }
 .score b { background: #666666 }
 .note { border-left: 4px solid #009E73; padding-left: .8rem }
 .note.off { border-color: #D55E00 }
 .soft { color: #555 }
 pre { background: #f3f5f7; padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px }
</style>
<h1>isrr</h1>
<p id="certificate" class="note">…</p>
<label for="items">Candidates, one per line: id, score (and group, if the ranker uses groups)</label>
<textarea id="items" spellcheck="false"></textarea>
<p class="soft" id="scale"></p>
<p><label>API key, if the service has one: <input id="key" type="password" autocomplete="off"></label></p>
<p><button id="draw">Rank for 100 visitors</button> <span id="said" role="status"></span></p>
<p class="soft">This is a preview: it is not written to the log of served lists and not counted in the metrics.</p>
<div id="found" hidden>
<h2>Who is seen</h2>
<p class="soft">Exposure is the attention an item gets from its places, on average over the visitors: 1 for first place, 0.63 for second, 0.5 for third.</p>
<table id="exposure"><thead><tr><th>item<th>score<th>exposure<th>sorted by score</tr></thead><tbody></tbody></table>
<h2>What one visitor sees</h2>
<p><label>Visitor <input id="visitor" type="number" min="1" max="100" value="1"></label></p>
<table id="list"><thead><tr><th>place<th>item<th>score<th>chance there</tr></thead><tbody></tbody></table>
<p class="soft">The chance is that of the item at this place, given the items above it. This request serves and logs the same list:</p>
<pre id="request"></pre>
</div>
<script>
const at = id => document.getElementById(id), discount = rank => 1 / Math.log2(1 + rank);
const names = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett"];
const normal = [1.645, 1.036, .674, .385, .126, -.126, -.385, -.674, -1.036, -1.645];  // at 95, 85, …, 5 %
let k = 5, boosted = false, filled = null, asked = [], results = [];
const headers = () => at("key").value ? {"X-API-Key": at("key").value} : {};
const row = (table, cells) => { const line = at(table).tBodies[0].insertRow(); for (const c of cells) line.insertCell().append(c); return line; };
const named = (line, i) => line.cells[i].classList.add("item");
function meter(value, kind) {
  const box = document.createElement("span"), track = document.createElement("i"), fill = document.createElement("b");
  box.className = "meter " + kind; fill.style.width = 100 * value + "%";
  track.append(fill); box.append(track, value.toFixed(2));
  return box;
}
function example({score_quantiles: [, low, middle, high]}, {boost}) {  // two half normals through the 1, 50 and 99 % points
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(high - low || 1)), 0), 12);
  const group = i => boost.length && i % 2 ? `, ${boost[(i - 1) / 2 % boost.length][0]}` : "";
  return names.map((name, i) => {
    const score = middle + normal[i] / 2.326 * (normal[i] > 0 ? high - middle : middle - low);
    return `${name}, ${score.toFixed(digits)}${group(i)}`;
  }).join("\\n");
}
async function show() {
  const answer = await fetch("info", {headers: headers()}), found = await answer.json();
  if (!answer.ok) { at("certificate").textContent = found.error; at("certificate").classList.add("off"); return; }
  const {certificate: c, content} = found, {score_quantiles: q} = content.provenance;
  k = found.k; boosted = content.ranker.boost.length > 0;
  at("certificate").textContent = `${c.promise}, with confidence ${+(100 * c.confidence).toPrecision(4)} %. Certificate ${c.id}: ${c.status}${c.reason ? ` (${c.reason})` : ""}. Lists show ${k} places.`;
  at("certificate").classList.toggle("off", c.status !== "valid");
  at("scale").textContent = `The example is on the scale of the certificate's own scores, 98 % of which lie between ${+q[1].toPrecision(3)} and ${+q[3].toPrecision(3)}.`;
  if (["", filled].includes(at("items").value)) at("items").value = filled = example(content.provenance, content.ranker);
}
function read(line, i) {
  const [, id, score, group] = line.match(/^(.*?),\\s*([-+.\\deE]+)\\s*(?:,(.*))?$/) || [];
  if (id === undefined || isNaN(score)) throw new Error(`line ${i + 1}: expected id, score; found ${line}`);
  return {id: id.trim(), score: Number(score), ...(group?.trim() ? {group: group.trim()} : boosted && {group: []})};
}
async function draw() {
  const items = at("items").value.split("\\n").filter(line => line.trim()).map(read);
  asked = Array.from({length: 100}, (_, i) => ({query_id: "example", session: `visitor ${i + 1}`, k, items}));
  const answer = await fetch("preview", {method: "POST", headers: headers(), body: JSON.stringify({queries: asked})});
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  results = found.results;
  const exposure = new Map(items.map(item => [item.id, 0])), {status, reason} = results[0].certificate;
  for (const {items: ranked} of results) for (const {id, rank} of ranked) exposure.set(id, exposure.get(id) + discount(rank) / 100);
  at("said").textContent = status === "valid" ? "These lists are covered by the promise." : `${status}: ${reason}`;
  at("exposure").tBodies[0].replaceChildren();
  [...items].sort((a, b) => b.score - a.score).forEach((item, i) =>
    named(row("exposure", [item.id, String(item.score), meter(exposure.get(item.id), ""), meter(i < k ? discount(i + 1) : 0, "score")]), 0));
  at("found").hidden = false;
  visit();
}
function visit() {
  const i = Math.min(Math.max(Math.round(at("visitor").value) || 1, 1), 100) - 1;
  at("list").tBodies[0].replaceChildren();
  for (const {id, rank, score, propensity} of results[i].items) named(row("list", [String(rank), id, String(score), (100 * propensity).toFixed(1) + " %"]), 1);
  const key = at("key").value ? ' -H "X-API-Key: $ISRR_API_KEY"' : "";
  at("request").textContent = `curl ${new URL("rank", location.href)}${key} -d '${JSON.stringify(asked[i]).replaceAll("'", "'\\\\''")}'`;
}
const said = step => step().catch(error => { at("found").hidden = true; at("said").textContent = error.message; });
said(show); at("key").onchange = () => said(show); at("draw").onclick = () => said(draw); at("visitor").oninput = visit;
</script>
</html>
"""  # noqa: E501
