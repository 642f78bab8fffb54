"""The service's page in a real browser, on a real service that keeps a log."""

import json
import shlex

import httpx
import numpy as np
import pytest

from isrr.data.log import read_log
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


@pytest.fixture(params=[1440, 390])
def page(service, tab, request):
    tab.set_viewport_size({"width": request.param, "height": 900})
    tab.complaints = []
    tab.goto(service[0].url)
    yield tab
    assert not tab.complaints


def unlocked(page):
    page.fill("#key", "secret")
    page.dispatch_event("#key", "change")
    page.wait_for_function("document.getElementById('items').value")
    return page


def drawn(page):
    page.click("#draw")
    page.wait_for_selector("#found:not([hidden])")
    return page


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
    assert str(certificate.promises[0]) in page.inner_text("#certificate")
    drawn(page)
    assert page.inner_text("#said") == "These lists are covered by the promise."
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_its_draws_are_neither_logged_nor_counted(page, service):
    server, folder = service
    before, logged = lists_counted(server), bytes_logged(folder)
    drawn(unlocked(page))
    assert lists_counted(server) == before
    assert bytes_logged(folder) == logged


def test_the_request_it_offers_serves_the_list_it_shows(page, service):
    server, folder = service
    unlocked(page).fill("#items", "it's, 1.2\nplain, 1.1\nlast, 0.3, a group\n")
    drawn(page).fill("#visitor", "7")
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
    page.click("#draw")
    page.wait_for_function("document.getElementById('said').textContent")
    assert page.inner_text("#said") == "line 2: expected id, score; found b; 3"
    assert not page.is_visible("#found")


def test_without_the_key_it_says_what_is_missing(page):
    page.wait_for_function("document.getElementById('certificate').textContent.includes('API key')")
    assert page.input_value("#items") == ""


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
