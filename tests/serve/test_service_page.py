"""The service's page in a real browser, on a real service that keeps a log."""

import json
import shlex

import httpx
import numpy as np
import pytest

from isrr.data.log import read_log
from isrr.outcome.status import Status, status_file
from serving import Server

KEY = {"X-API-Key": "secret"}


@pytest.fixture(scope="module")
def service(certificate, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    certificate.save(folder / "ranker.json")
    server = Server(folder / "ranker.json", "--log", str(folder / "log"), "--api-key", "secret")
    yield server, folder / "log"
    server.kill()


@pytest.fixture(scope="module")
def tab(browser):
    """One tab for all tests: opening another takes the browser a second."""
    tab = browser.new_page()
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    return tab


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=str)
def page(service, tab, request):
    width, scheme = request.param
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    tab.complaints = []
    tab.goto(service[0].url)
    yield tab
    assert not tab.complaints


def unlocked(page):
    """The page with the key, and what it has drawn of its own example."""
    page.wait_for_selector("#key")
    page.fill("#key", "secret")
    page.dispatch_event("#key", "change")
    page.wait_for_selector("#lists-part:not([hidden])")
    return page


def entered(page, lines):
    """The page once it has drawn other candidates, the best of them first."""
    page.fill("#items", lines)
    best = json.dumps(lines.partition(",")[0])
    page.wait_for_function(f"document.querySelector('#exposure span')?.firstChild.data === {best}")
    return page


def bars(page, box):
    """Name, bar's length and tick's position of each row of a picture, in percent of its track."""
    rows = f"""[...document.querySelectorAll("#{box} .track")].map(track => [
        track.previousSibling.firstChild.data, parseFloat(track.children[0].style.width),
        parseFloat(track.children[1].style.left)])"""
    return page.evaluate(rows)


def lists_counted(server):
    text = server.get("/metrics", headers=KEY).text
    kinds = ("isrr_lists_total", "isrr_lists_changed", "isrr_list_items_count", "isrr_score_bins")
    return [line for line in text.splitlines() if line.startswith(kinds)]


def bytes_logged(folder):
    return sum(file.stat().st_size for file in folder.glob("*.jsonl"))


def test_the_example_is_on_the_certificates_own_scale(page, certificate):
    _, bottom, middle, top, _ = certificate.provenance.score_quantiles
    lines = unlocked(page).input_value("#items").splitlines()
    scores = np.array([float(line.split(",")[1]) for line in lines])
    assert len(scores) == 10
    assert bottom < scores.min() < middle < scores.max() < top
    assert np.all(np.diff(scores) < 0)
    told = page.inner_text("#certificate")
    for words in (str(certificate.promises[0]), "valid", "confidence 95 %", certificate.sure[0], certificate.id):
        assert words in told
    assert page.inner_text("#note") == "These lists are covered by the promise."
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_it_shows_each_items_exposure_beside_the_order_by_score(page, service, certificate):
    ids, scores = ["a", "b", "c", "d", "e", "f"], [1.2, 1.0, 0.8, 0.6, 0.4, 0.2]
    entered(unlocked(page), "\n".join(f"{name}, {score}" for name, score in zip(ids, scores, strict=True)))
    discounts = [100 / np.log2(2 + position) for position in range(5)] + [0.0]
    exposure = dict.fromkeys(ids, 0.0)
    lists = [[ids[i] for i in certificate.rank(scores, "example", f"visitor {n}")] for n in range(1, 101)]
    for shown in lists:
        for name, discount in zip(shown, discounts, strict=False):
            exposure[name] += discount / 100
    assert [name for name, _, _ in bars(page, "exposure")] == ids
    drawn, by_score = np.array([row[1:] for row in bars(page, "exposure")]).T
    assert drawn == pytest.approx([*exposure.values()], abs=0.01)
    assert by_score == pytest.approx(discounts, abs=0.01)
    columns = zip(*(row.split("\t") for row in page.locator("#visitors tbody tr").all_inner_texts()), strict=True)
    assert [list(column) for column in columns] == [[*"12345"], ids[:5], *lists[:8]]


def test_it_follows_what_the_service_has_seen(page, service):
    server, _ = service
    unlocked(page)
    items = [{"id": n, "score": 1.0 - n / 9} for n in range(9)]
    queries = [{"query_id": n, "session": "s", "items": items} for n in range(200)]
    server.post("/rank/batch", {"queries": queries}, headers=KEY)
    values = dict(
        line.rsplit(" ", 1) for line in server.get("/metrics", headers=KEY).text.splitlines() if line[0] != "#"
    )
    n_lists = float(values['isrr_lists_total{status="valid"}'])
    page.wait_for_function(f"document.getElementById('lists').textContent === '{n_lists:,.0f}'")
    changed = float(values["isrr_lists_changed_total"]) / n_lists
    assert page.inner_text("#changed") == f"{100 * changed:.1f} %"
    assert page.inner_text("#score-drift") == f"{float(values['isrr_score_drift']):.2f}"
    names, served, by_score = zip(*bars(page, "positions"), strict=True)
    assert names == (*(f"position {n}" for n in range(1, 6)), "all lower")
    assert sum(served) == pytest.approx(sum(by_score), abs=0.01)  # attention moves, and is not lost
    assert served[0] < by_score[0]
    assert served[-1] > by_score[-1] == 0


def test_it_shows_that_the_certificate_was_revoked(page, service, certificate):
    server, folder = service
    ranker_file = folder.with_name("ranker.json")
    unlocked(page)
    Status(certificate.id, "revoked", "tested").save(ranker_file)
    try:
        page.wait_for_function("document.getElementById('note').textContent === 'revoked: tested'")
        assert page.inner_text("#status") == "revoked"
    finally:
        status_file(ranker_file).unlink()
        server.wait(lambda: server.get("/info", headers=KEY).json()["certificate"]["status"] == "valid")


def test_its_draws_are_neither_logged_nor_counted(page, service):
    server, folder = service
    before, logged = lists_counted(server), bytes_logged(folder)
    unlocked(page)
    assert lists_counted(server) == before
    assert bytes_logged(folder) == logged


def test_the_request_it_offers_serves_the_list_it_shows(page, service):
    server, folder = service
    entered(unlocked(page), "it's, 1.2\nplain, 1.1\nlast, 0.3, a group\n").fill("#visitor", "7")
    shown = page.locator("#list tbody tr").all_inner_texts()
    words = shlex.split(page.inner_text("#request"))
    assert words[:4] == ["curl", f"{server.url}/rank", "-H", "X-API-Key: $ISRR_API_KEY"]
    body = json.loads(words[words.index("-d") + 1])
    assert body["session"] == "visitor 7"
    answer = httpx.post(words[1], content=words[-1], headers=KEY).json()
    served = [[str(i["rank"]), i["id"], f"{i['score']:g}", f"{100 * i['propensity']:.1f} %"] for i in answer["items"]]
    assert [row.split("\t") for row in shown] == served
    assert answer["list_id"] in [line["list_id"] for line in read_log(folder).lines()]


def test_a_line_it_cannot_read_is_named_and_nothing_is_drawn(page):
    unlocked(page).fill("#items", "a, 1.2\nb; 3")
    page.wait_for_function("document.getElementById('note').textContent.startsWith('line')")
    assert page.inner_text("#note") == "line 2: expected id, score; found b; 3"
    assert not page.is_visible("#lists-part")


def test_without_the_key_it_says_what_is_missing(page):
    page.wait_for_function("document.getElementById('certificate').textContent.includes('API key')")
    assert page.input_value("#items") == ""
    assert not page.is_visible("#unlocked")


def test_it_asks_nobody_but_the_service(page, service):
    hosts = []
    page.on("request", lambda request: hosts.append(request.url))
    page.reload()
    unlocked(page)
    assert len(hosts) > 3
    assert all(url.startswith((f"{service[0].url}/", "data:")) for url in hosts)


def test_a_preview_is_what_a_batch_would_serve(service):
    server, _ = service
    items = [{"id": n, "score": 1.0 - n / 9} for n in range(9)]
    asked = {"queries": [{"query_id": "q", "session": s, "items": items} for s in range(20)]}
    preview, served = (
        server.post(f"/{path}", asked, headers=KEY).json()["results"] for path in ("preview", "rank/batch")
    )
    assert {result["list_id"] for result in preview} == {"preview"}
    assert [{**result, "list_id": ""} for result in preview] == [{**result, "list_id": ""} for result in served]
    assert server.post("/preview", asked).status_code == 401
