"""The page in a real browser: nothing is fetched, the slider reads a table, strings stay text."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from msgspec import structs

from isrr import Queries, start
from isrr.calibration.calibrate import calibrate
from isrr.ranker.gpl import GPLRanker
from isrr.reporting.levels import explore
from isrr.reporting.page import page, report
from isrr.reporting.portrait import Row, Sample, portray, retrace
from isrr.reporting.words import inversion
from isrr_paper.further_evidence import POINTWISE

HOSTILE = [
    "<script>window.broken = 1</script>",
    "</script><img src=x onerror='window.broken = 1'>",
    '"\' onload="window.broken = 1',
    "x" * 10_000,
    "\u202eמימין לשמאל",
    "@@data@@ &amp; ${window.broken = 1}",
]


def judged(n_queries=200, groups=("Alder", "Birch"), item="item {}", query="query {}"):
    rng = np.random.default_rng(20230)
    sizes = rng.integers(3, 25, n_queries)
    relevance = rng.choice(4, sizes.sum(), p=[0.5, 0.25, 0.15, 0.1])
    return Queries.from_arrays(
        scores=0.7 * relevance + rng.normal(size=relevance.size),
        relevance=relevance,
        query_ids=np.repeat([query.format(q) for q in range(n_queries)], sizes),
        item_ids=[item.format(i) for i in range(sizes.sum())],
        item_groups=rng.choice(np.array(groups, object), sizes.sum()),
    )


def made(queries, promise, **options):
    outcome = calibrate(queries, promise, **options)
    tested = retrace(outcome, queries)
    return outcome, explore(outcome, tested), portray(outcome, tested)


@pytest.fixture(scope="module")
def tab(browser):
    """One tab for all pages: opening another takes the browser a second. It collects requests and complaints."""
    tab = browser.new_page()
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    return tab


@pytest.fixture
def opened(tab, tmp_path):
    """Opens a page from file:// and collects what it asks for and complains about."""

    def open_page(text, width=1440, color_scheme="light"):
        file = tmp_path / "report.html"
        file.write_text(text, "utf-8")
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=color_scheme)
        tab.asked, tab.complaints = [], []
        tab.goto(file.as_uri())
        tab.asked = [url for url in tab.asked if url != file.as_uri() and not url.startswith("data:")]
        return tab

    return open_page


@pytest.fixture(scope="module")
def relative():
    return made(judged(), "ndcg@5 >= 90% of deterministic", path="temperature")


@pytest.fixture(scope="module")
def absolute():
    return made(judged(), "ndcg@5 >= 0.80", path="temperature")


def move(tab, stop):
    """Move the slider as a hand does, and read what the page says."""
    return tab.evaluate(
        """stop => {
            const slider = document.getElementById("promise-slider");
            slider.value = stop;
            slider.dispatchEvent(new Event("input"));
            const readout = document.getElementById("readout");
            return { ...readout.dataset, class: readout.className, text: readout.innerText };
        }""",
        stop,
    )


@pytest.mark.parametrize("which", ["relative", "absolute", "fairness", "group", "two promises", "certificate alone"])
def test_a_page_opens_without_a_request_or_a_complaint(which, opened, relative, absolute):
    if which == "fairness":
        parts = made(judged(), "normalized_disparity@5 <= 60% of deterministic", path="temperature")
    elif which == "group":
        parts = made(
            judged(groups=("new", *["known"] * 4)), ["exposure(new)@5 >= 20%", "ndcg@5 >= 80% of deterministic"]
        )
    elif which == "two promises":
        parts = made(judged(), ["ndcg@5 >= 80% of deterministic", "normalized_disparity@5 <= 0.5"])
    else:
        parts = {"relative": relative, "absolute": absolute, "certificate alone": relative[:1]}[which]
    for scheme, width in (("light", 1440), ("dark", 390)):
        tab = opened(page(*parts), width, scheme)
        assert tab.asked == []
        assert tab.complaints == []
        assert tab.locator("svg[role=img]").count() >= (1 if which == "certificate alone" else 6)
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_slider_reads_the_table_and_only_what_is_certified_looks_so(opened, relative, absolute):
    seen = set()
    for outcome, explorer, portrait in (relative, absolute):
        tab = opened(page(outcome, explorer, portrait))
        tab.evaluate("window.chart = document.querySelector('#tradeoff svg[role=img]')")
        assert int(tab.get_attribute("#promise-slider", "max")) == len(explorer.rows) - 1
        for i, row in enumerate(explorer.rows):
            said = move(tab, i)
            text, missing = said["text"], row.configuration is None
            assert (said["kind"], said["promise"]) == (row.kind, row.promise)
            assert said["configuration"] == ("" if missing else str(row.configuration))
            assert row.promise in text
            assert ("certificate" in said["class"]) == (row.kind != "measured" and not missing)
            seen.add((row.kind, missing))
            if not missing:
                point = outcome.curve[row.configuration]
                assert point.ranker.in_words in text
                assert f"{point.utility}" in text
            if row.kind == "measured":
                assert text.startswith("Measured, not promised")
            elif row.kind == "declared":
                assert ("carries the certificate" in text) == (not outcome.abstained)
            elif missing:
                assert "Fixed beforehand: not certified" in text
                assert f"isrr calibrate fresh.parquet -p '{row.promise}' --confidence 0.95" in text
            else:
                assert f'isrr.load("ranker.json").curve[{row.configuration}].ranker' in text
        assert tab.evaluate("chart.isConnected")  # a move draws nothing anew
        tab.click("#back")
        assert "The declared promise" in tab.inner_text("#readout")
    assert seen == {(kind, missing) for kind in ("declared", "level") for missing in (False, True)} | {
        ("measured", False)
    }


def test_the_eight_levels_are_a_table_that_needs_no_script(relative, absolute):
    for outcome, explorer, portrait in (relative, absolute):
        text = page(outcome, explorer, portrait)
        table = re.search(r'<div id="levels">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)[1]
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]
        assert [unescape(row[0]) for row in rows] == [level.promise for level in explorer.levels]
        for (_, utility, _, ranker), level in zip(rows, explorer.levels, strict=True):
            if level.configuration is None:
                assert (utility, ranker) == ("", "not certified")
            else:
                point = outcome.curve[level.configuration]
                assert (utility, ranker) == (f"{point.utility.value:.4f}", point.ranker.in_words)
        assert "hold together with 95\xa0% confidence" in text
        assert ("with the declared promise, 90\xa0%" in text) == (not outcome.abstained)


def test_a_start_shows_who_is_seen_without_a_label(opened):
    outcome = start(judged(groups=("<b>new</b>", "known")), "ndcg@5 >= 90% of deterministic")
    tab = opened(report(outcome, judged(groups=("<b>new</b>", "known"))).html, width=390)
    assert tab.asked == []
    assert tab.complaints == []
    assert tab.locator("svg[role=img]").count() == 3
    assert (
        tab.inner_text("h1")
        == "Every query keeps at least 90\xa0% of the NDCG@5 it has in the order by score, on average over its lists."
    )
    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tab.locator("#by-group summary").click()
    assert "<b>new</b>" in tab.inner_text("#by-group")


def test_the_first_screen_is_a_picture_and_sentences_that_cannot_be_misread(opened):
    outcome, explorer, portrait = made(judged(400), "ndcg@5 >= 95% of deterministic", path="temperature", floor=0.3)
    text = opened(page(outcome, explorer, portrait)).locator("header").text_content().replace("\xa0", " ")
    below = portrait.shown[5]
    assert (below.position, below.before) == (6, 0.0)
    share = 100 * outcome.utility.value / outcome.deterministic_utility.value
    for said in (
        "On new queries like the judged ones, mean NDCG@5 is at least 95 % of what the order by score reaches.",
        f"Measured, {share:.1f} % of NDCG@5 remains, and an item one position below the cut (position 6) was shown in "
        f"0 % of the visits, now in {100 * below.after:.0f} %.",
        "Two different 95s. The 95 % in the promise is how much of today's NDCG@5 is left on average.",
        "The 95 % confidence is how sure that is: of all calibrations like this one, at most 5 % promise something",
        "Every query keeps at least 30 % of its NDCG@5 in the order by score, averaged over its random lists",
        "It does not mean that each single list keeps that much",
    ):
        assert said in text
    spread, text = portrait.spread, page(outcome, explorer, portrait)
    assert f"{spread.worst_before:.3f}; the same queries have {spread.worst_after:.3f}" in text
    assert "Two different" not in page(structs.replace(outcome, confidence=0.9))


def test_the_first_screen_says_what_becomes_of_a_promised_share():
    queries = judged(400)
    promises = ["exposure(Birch)@5 >= 20%", "ndcg@5 >= 90% of deterministic"]
    outcome, explorer, portrait = made(queries, promises)
    in_birch = retrace(outcome, queries).item_groups == "Birch"
    for share, ranker in zip(("before", "after"), (GPLRanker.deterministic(5), outcome.ranker), strict=True):
        tested = retrace(outcome, queries)
        exposure = tested.in_query_order(ranker.exposure(tested), "exposure")
        ours, all_of_it = (np.add.reduceat(e, tested.offsets[:-1]) for e in (exposure * in_birch, exposure))
        assert getattr(portrait.promised[0], share) == pytest.approx(float(np.mean(ours / all_of_it)))
    text = unescape(page(outcome, explorer, portrait)).replace("\xa0", " ")
    (share,) = portrait.promised
    before, after = (f"{100 * part:.1f} %" for part in (share.before, share.after))
    assert f"remains, and the share of exposure of 'Birch'@5 goes from {before} to {after}." in text
    for named in ("share of exposure of 'Birch'@5 (promised ≥ 20.0 %)", "NDCG@5 (promised ≥ 90.0 %)"):
        assert f"<dt>Proven {named}</dt>" in text


def test_an_irrelevant_item_shown_more_often_than_a_relevant_one_is_explained():
    rows = [Row(name, None, grade, 0.0, (chance,)) for name, grade, chance in
            (("low", 1.0, 0.6), ("none", 0.0, 0.5), ("best", 3.0, 0.3), ("good", 2.0, 0.6))]  # fmt: skip
    said = "none (grade 0) is shown more often than best (grade 3) because the scores rank it higher"
    assert inversion(Sample("q", 4, tuple(rows))).startswith(said)
    assert inversion(Sample("q", 4, tuple(sorted(rows, key=lambda row: -row.relevance)))) == ""


def test_an_abstention_says_why_and_what_would_help(opened):
    tab = opened(page(*made(judged(), "ndcg@5 >= 0.95", path="temperature")))
    assert tab.inner_text(".badge") == "Abstained"
    assert "The declared promise: abstained" in tab.inner_text("#readout")
    text = tab.inner_text("header")
    assert "not met even by the safest ranker" in text
    assert "needs far fewer queries" in text


def test_hostile_strings_are_shown_as_text(opened):
    queries = judged(60, groups=HOSTILE, item="<b>{}</b><script>window.broken = 1</script>", query=HOSTILE[1] + "{}")
    outcome, explorer, portrait = made(queries, "ndcg@5 >= 60% of deterministic")
    tab = opened(page(outcome, explorer, portrait, command=HOSTILE[1]))
    assert tab.complaints == []
    assert tab.evaluate("window.broken") is None
    assert tab.locator("script").count() == 6
    assert tab.locator("img, main b").count() == 0
    shown = tab.text_content("main")
    for text in HOSTILE:
        assert text[:100] in shown, text[:40]
    assert tab.inner_text("#sample tbody th >> nth=0").startswith("<b>")


def test_a_page_is_small_however_many_queries(relative):
    outcome, explorer, portrait = relative
    spread = replace(portrait.spread, before=(50_000,) * 20, after=(50_000,) * 20)
    text = page(outcome, explorer, replace(portrait, n_queries=1_000_000, spread=spread))
    assert "1,000,000 queries" in text
    assert len(text.encode()) < 700_000


def test_levels_are_certified_along_the_path_whatever_selected_the_ranker(opened):
    parts = made(judged(), "ndcg@5 >= 0.5", selection="holm", path="temperature")
    assert any(level.configuration is not None for level in parts[1].levels)
    tab = opened(page(*parts))
    assert tab.complaints == []
    assert tab.is_visible("#promise-slider")
    assert "Holm's step-down" in tab.inner_text("#method")


def test_without_the_judged_queries_the_curve_stands_still(opened, relative):
    tab = opened(page(relative[0]))
    assert not tab.is_visible("#promise-slider")
    assert "isrr report ranker.json judged.parquet" in tab.inner_text("#explorer")
    assert tab.locator("#levels").count() == 0


def test_a_verdict_without_a_guarantee_is_not_shown_as_one_with(opened):
    tab = opened(page(*made(judged(60), "ndcg@5 >= 0.5", selection=POINTWISE)))
    assert tab.inner_text(".badge") == "Certified, with a warning"
    assert "no guarantee over the path" in tab.inner_text("header")
    assert "before the first failure" not in tab.inner_text("#method")


def test_the_page_prints(opened, relative):
    pdf = opened(page(*relative)).pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) < 12


def test_data_cannot_close_their_script_element(relative):
    text = page(*relative, command="</script>")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in data
    assert json.loads(data)["k"] == 5


@pytest.mark.parametrize("scheme", [0, 1])
def test_text_and_marks_stand_out_in_light_and_dark(scheme):
    css = re.search(r"<style>(.*?)</style>", page(calibrate(judged(60), "ndcg@5 >= 0.95")), re.DOTALL)[1]
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))

    def luminance(name):
        parts = np.array([int(colours[name][i : i + 2], 16) / 255 for i in (1, 3, 5)])
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    def contrast(a, b):
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    for ground in ("paper", "card", "warn-card", "good-card"):
        for ink in ("ink", "soft"):
            assert contrast(ink, ground) >= 4.5, (ink, ground)
    assert min(contrast("green", "good-card"), contrast("orange", "warn-card")) >= 4.5
    for mark in ("blue", "orange", "green", "purple", "grey"):
        assert contrast(mark, "paper") >= 3, mark
