"""The page at `/`: paste candidates, draw a hundred rankings, see the exposure."""

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>isrr</title>
<style>
 body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
 textarea { width: 100%; height: 11rem; font: 14px/1.4 ui-monospace, monospace; box-sizing: border-box }
 button { font: inherit; padding: .3rem 1rem }
 table { border-collapse: collapse; width: 100%; margin-top: 1rem }
 th, td { text-align: left; padding: .15rem .6rem .15rem 0; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }
 .bar { display: inline-block; height: .7rem; background: #0072B2; vertical-align: middle }
 .score { background: #666666 }
 .note { border-left: 4px solid #009E73; padding-left: .8rem }
 .note.off { border-color: #D55E00 }
</style>
<h1>isrr</h1>
<p id="certificate" class="note">…</p>
<p><label for="items">Candidates, one per line: id, score</label></p>
<textarea id="items">alpha, 2.1
bravo, 1.9
charlie, 1.8
delta, 0.4
echo, 0.1</textarea>
<p><label>API key, if the service has one: <input id="key" type="password" autocomplete="off"></label></p>
<p><button id="draw">Draw 100 rankings</button> <span id="said" role="status"></span></p>
<table hidden><thead><tr><th>item<th>score<th>exposure<th>exposure if sorted by score</tr></thead><tbody></tbody></table>
<script>
const at = id => document.getElementById(id), discount = rank => 1 / Math.log2(1 + rank);
const cell = (row, content) => row.insertCell().append(content);
function bar(value, kind) {
  const box = document.createElement("span"), fill = document.createElement("span");
  fill.className = "bar " + kind; fill.style.width = 8 * value + "rem";
  box.append(fill, " " + value.toFixed(3));
  return box;
}
const headers = () => at("key").value ? {"X-API-Key": at("key").value} : {};
const show = () => fetch("info", {headers: headers()}).then(r => r.json()).then(({certificate: c, k}) => {
  at("certificate").textContent = `${c.promise}, confidence ${c.confidence}, ${c.status} (certificate ${c.id}); first ${k} places`;
  at("certificate").classList.toggle("off", c.status !== "valid");
  at("items").dataset.k = k;
}).catch(() => { at("certificate").textContent = "the certificate could not be read"; });
show(); at("key").onchange = show;
at("draw").onclick = async () => {
  const items = at("items").value.split("\\n").filter(line => line.trim()).map(line => {
    const cut = line.lastIndexOf(",");
    return {id: line.slice(0, cut).trim(), score: parseFloat(line.slice(cut + 1))};
  });
  const k = Number(at("items").dataset.k || 5);
  const queries = Array.from({length: 100}, (_, i) => ({query_id: "page", session: `draw ${i}`, k, items}));
  const answer = await fetch("rank/batch", {method: "POST", headers: headers(), body: JSON.stringify({queries})});
  const found = await answer.json();
  if (!answer.ok) { at("said").textContent = found.error; return; }
  const exposure = new Map(items.map(item => [item.id, 0]));
  for (const {items: ranked} of found.results)
    for (const {id, rank} of ranked) exposure.set(id, exposure.get(id) + discount(rank) / 100);
  const first = found.results[0].certificate;
  at("said").textContent = first.status + (first.reason ? ": " + first.reason : "");
  const table = document.querySelector("table"), body = table.tBodies[0];
  table.hidden = false; body.replaceChildren();
  items.sort((a, b) => b.score - a.score).forEach((item, i) => {
    const row = body.insertRow();
    cell(row, item.id); cell(row, item.score.toFixed(3));
    cell(row, bar(exposure.get(item.id), "")); cell(row, bar(i < k ? discount(i + 1) : 0, "score"));
  });
};
</script>
</html>
"""  # noqa: E501
