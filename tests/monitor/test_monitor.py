"""The watch over a promise: what counts, what is remembered, what an alarm says."""

import json
from contextlib import suppress
from dataclasses import replace
from threading import Barrier, BrokenBarrierError, Thread

import numpy as np
import pytest
from msgspec import structs

from isrr import Monitor, Queries
from isrr.calibration.calibrate import calibrate
from isrr.errors import CertificateError, DataError, PromiseError
from isrr.outcome.certificate import Certificate
from isrr.outcome.status import Status, read_status, revoke, set_term, status_file
from isrr.promises import Promise
from isrr.risk.eprocess import EProcess, bets


@pytest.fixture(scope="module")
def certificate(many_queries):
    found = calibrate(many_queries, "ndcg@5 >= 85% of deterministic")
    assert isinstance(found, Certificate)
    return structs.replace(found, curve=found.curve[:1])  # a short one: its id is asked for often


def absolute(certificate, target=0.6, k=2):
    """The same certificate, about a promise that is easy to reason about."""
    promise = Promise("ndcg", k, at_least=target)
    return about(certificate, (promise,), (structs.replace(certificate.tests[0], promise=promise, level=None),))


def about(certificate, promises, tests):
    """The same certificate, with other promises."""
    ranker = replace(certificate.ranker, k=promises[0].k)
    return structs.replace(certificate, promises=promises, tests=tests, ranker=ranker)


def line(certificate, query, top, *, time=0.0, session="s", deterministic=None, status="valid"):
    return {
        "time": time, "certificate": certificate.id, "status": status, "query_id": query, "session": session,
        "top": top, "deterministic": deterministic or top,
    }  # fmt: skip


def judged(n, relevance=(1, 0, 0), segment=None):
    return Queries.from_arrays(
        relevance=np.tile(relevance, n),
        query_ids=np.repeat([f"q{i}" for i in range(n)], 3),
        item_ids=np.tile(["a", "b", "c"], n),
        segments=None if segment is None else np.repeat(segment, 3),
    )


def test_the_evidence_is_the_mixture_written_out():
    rng, alpha = np.random.default_rng(20230), 0.3
    losses, process = rng.random(200) * 0.8, EProcess.start(0.3)
    for loss in losses:
        process = process.after(loss)
    stakes, n = bets(alpha), losses.size
    wealth = sum(
        np.prod(1 + b * (losses[start:] - alpha)) / (stakes.size * (start + 1) * (start + 2))
        for b in stakes
        for start in range(n)
    )
    assert process.evidence == pytest.approx(wealth + 1 / (n + 1), rel=1e-9)


@pytest.mark.parametrize("loss", [-0.01, 1.01, np.nan])
def test_losses_outside_the_unit_interval_are_refused(loss):
    with pytest.raises(ValueError, match="losses in \\[0, 1\\]"):
        EProcess.start(0.3).after(loss)


def test_kept_promises_raise_no_alarm_and_broken_ones_do(certificate):
    promised = absolute(certificate)
    good, bad = Monitor(promised), Monitor(promised)
    queries = judged(200)
    assert good.update([line(promised, f"q{i}", ["a", "b"], time=i) for i in range(200)], queries) is None
    alarm = bad.update([line(promised, f"q{i}", ["a" if i < 100 else "c", "b"], time=i) for i in range(200)], queries)
    assert alarm is not None
    assert alarm.since_loss == 100
    assert alarm.shortfall == pytest.approx(0.6)
    assert alarm.since == "1970-01-01T00:01:40+00:00"
    assert "is broken" in str(bad)
    assert good.evidence < 1 <= bad.evidence


def test_a_query_counts_once_with_the_mean_of_its_lists(certificate):
    promised = absolute(certificate)
    monitor = Monitor(promised)
    lists = [
        line(promised, "q0", ["a", "b"], session=1),
        line(promised, "q0", ["c", "b"], session=2),
        line(promised, "q0", ["c", "b"], session=2),  # its second page
        line(promised, "q0", ["c", "b"], session=3, status="uncovered"),
        {**line(promised, "q0", ["c", "b"], session=4), "certificate": "another"},
    ]
    monitor.update(lists, judged(1))
    monitor.update(lists, judged(1))
    assert (monitor._state.streams[0].total, monitor.n_judged) == (0.5, 1)


def test_a_relative_promise_is_judged_against_the_order_by_score(certificate):
    monitor = Monitor(certificate)
    lists = [line(certificate, "q0", ["b", "a", "c"], deterministic=["a", "b", "c"])]
    monitor.update(lists, judged(1))
    keep = certificate.promises[0].target
    assert monitor._state.streams[0].total == pytest.approx((keep - 1 / np.log2(3) + 1) / (1 + keep))


def test_queries_without_a_relevant_item_or_a_judgment_are_left_out_and_counted(certificate):
    promised = absolute(certificate)
    monitor = Monitor(promised)
    monitor.update([line(promised, "q0", ["a", "b"]), line(promised, "q1", ["a", "z"])], judged(2, (0, 0, 0)))
    assert (monitor._state.n_empty, monitor.batch.n_incomplete, monitor.n_judged) == (1, 1, 1)
    assert monitor._state.streams[0].n == 0
    monitor = Monitor(promised)
    monitor.update([line(promised, "q0", ["a", "b"])], judged(2, (0, 0, 0)))
    assert (monitor.n_counted, monitor.batch.note) == (0, "of 1 judged query none has a relevant item")


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ([], "the log holds no served list yet"),
        ([("Q7", "a", "valid")], "1 list served, of queries such as 'Q7'; judgments are for queries such as 'q0'"),
        ([("q0", "a", "uncovered")], "the first is uncovered under certificate"),
        (
            [("q0", "A", "valid")],
            "query 'q0' was served item 'A', which is not judged; judgments are for items such as 'a'",
        ),
        ([("q0", "a", "valid"), ("Q7", "a", "valid")], ""),
    ],
)
def test_judgments_that_match_nothing_served_are_said_to(certificate, served, said):
    monitor = Monitor(certificate)
    for _ in range(2):  # what was counted before is matched all the same
        monitor.update([line(certificate, query, [item], status=status) for query, item, status in served], judged(2))
        assert said in monitor.batch.note
        assert (said == "") == (monitor.batch.note == "")
        assert ("\nnote  " in str(monitor)) == (said != "")
        assert ("none (nothing was judged)" in str(monitor)) == (said != "")


def test_a_killed_monitor_goes_on_where_it_stopped(certificate, tmp_path):
    promised = absolute(certificate)
    queries = judged(60)
    lists = [line(promised, f"q{i}", ["a" if i % 3 else "c", "b"], time=i) for i in range(60)]
    whole = Monitor(promised)
    whole.update(lists, queries)
    for end in (20, 20, 45, 60):  # each time a new process; the second batch brings nothing new
        part = Monitor(promised, state=tmp_path / "state.json")
        part.update(lists[:end], queries)
    assert part.evidence == whole.evidence
    assert part.n_judged == 60
    again = "ignored      45 queries counted before: each counts once, as first judged\n"
    assert str(part).replace(again, "") == str(whole) != str(part)


def test_the_state_of_another_watch_is_refused(certificate, tmp_path):
    state = tmp_path / "state.json"
    Monitor(certificate, state=state).update([], judged(1))
    with pytest.raises(DataError, match="state of another monitor"):
        Monitor(certificate, delta=0.01, state=state)
    state.write_text('{"schema": 1}')
    with pytest.raises(DataError, match="not the state of a monitor"):
        Monitor(certificate, state=state)


def test_each_segment_is_watched_and_delta_is_split(certificate):
    promised = per_segment(certificate, "new", "old")
    monitor = Monitor(promised)
    segments = ["new" if i % 2 else "old" for i in range(200)]
    lists = [line(promised, f"q{i}", ["c" if i % 2 else "a", "b"], time=i) for i in range(200)]
    alarm = monitor.update(lists, judged(200, segment=segments))
    assert alarm is not None
    assert alarm.segment == "new"
    assert alarm.evidence >= 2 / 0.05


def per_segment(certificate, *names):
    promise = Promise("ndcg", 2, at_least=0.6, per="segment")
    tests = tuple(structs.replace(certificate.tests[0], promise=promise, level=None, segment=name) for name in names)
    return about(certificate, (promise,), tests)


def test_a_promise_about_segments_needs_judgments_with_segments(certificate):
    promised = per_segment(certificate, "new", "old")
    with pytest.raises(DataError, match=r"the judgments have no segments.*in each segment: new, old"):
        Monitor(promised).update([line(promised, "q0", ["c", "b"])], judged(1))


def test_queries_in_segments_that_are_not_watched_are_counted_apart_and_noted(certificate):
    promised = per_segment(certificate, "new", "old")
    monitor = Monitor(promised)
    lists = [line(promised, f"q{i}", ["c", "b"], time=i) for i in range(3)]
    monitor.update(lists, judged(3, segment=["other", "third", "other"]))
    assert (monitor.batch.n_unmonitored, monitor.n_counted) == (3, 0)
    assert "such as 'other'; monitored are 'new', 'old'" in monitor.batch.note
    assert "3 in segments that are not monitored" in str(monitor)
    monitor.update(lists, judged(3, segment=["new", "old", "other"]))  # two were labelled wrongly
    assert (monitor.batch.n_unmonitored, monitor.n_counted) == (1, 2)
    overall = structs.replace(promised.tests[0], promise=Promise("ndcg", 2, at_least=0.6), segment=None)
    both = Monitor(structs.replace(promised, tests=(*promised.tests, overall)))
    both.update([{**entry, "certificate": both.certificate} for entry in lists], judged(3, segment=["other"] * 3))
    assert (both.batch.n_unmonitored, both.n_counted) == (3, 3)


def test_what_cannot_be_watched_is_refused(certificate, many_queries):
    fair = Promise("normalized_disparity", 5, at_most=0.5)
    with pytest.raises(PromiseError, match="expected exposure"):
        Monitor(
            structs.replace(certificate, promises=(fair,), tests=(structs.replace(certificate.tests[0], promise=fair),))
        )
    with pytest.raises(CertificateError, match="nothing was certified"):
        Monitor(calibrate(many_queries[:50], "ndcg@5 >= 0.99"))
    with pytest.raises(DataError, match="no item ids"):
        Monitor(certificate).update([], many_queries)
    for delta in (0.0, 1.0, 1.5, -0.05):
        with pytest.raises(PromiseError, match=r"delta must lie in \(0, 1\)"):
            Monitor(certificate, delta=delta)


@pytest.mark.parametrize("segments", [None, ("new", "old")])
def test_the_alarm_comes_at_the_first_query_whose_evidence_reaches_what_revokes(certificate, segments):
    promise = Promise("ndcg", 2, at_least=0.7, per=None if segments is None else "segment")
    tests = [
        structs.replace(certificate.tests[0], promise=promise, level=None, segment=segment)
        for segment in segments or [None]
    ]
    promised, loss = about(certificate, (promise,), tuple(tests)), 1 - 1 / np.log2(3)  # the relevant item comes second
    process, reached = EProcess.start(0.3), []
    for _ in range(400):
        process = process.after(loss)
        reached.append(float(process.evidence))
    enough = len(tests) / 0.05
    first, later = (1 + int(np.argmax(np.array(reached) >= level)) for level in (enough, 1.2 * enough))
    assert 1 < first < later  # so that a larger threshold would be noticed
    monitor = Monitor(promised)
    for n in range(first):
        assert monitor.alarm is None
        batch = judged(n + 1, segment=None if segments is None else ["new"] * (n + 1))
        monitor.update([line(promised, f"q{n}", ["b", "a"], time=n)], batch)
    assert monitor.alarm is not None
    assert monitor.alarm.n == first
    assert enough <= monitor.alarm.evidence < 1.2 * enough


def test_an_alarm_revokes_the_certificate_beside_its_file(certificate, tmp_path):
    promised, file = absolute(certificate), tmp_path / "ranker.json"
    Status(promised.id, expires="2999-01-01").save(file)
    monitor = Monitor(promised)
    monitor.update([line(promised, f"q{i}", ["c", "b"], time=i) for i in range(100)], judged(100))
    monitor.revoke(file)
    found = read_status(file, promised.id)
    assert (found.status, found.expires) == ("revoked", "2999-01-01")
    assert "is broken" in found.reason
    assert read_status(file, "another").status == "valid"


def test_no_two_ranker_files_share_what_lies_beside_them(certificate, tmp_path):
    for name in ("ranker.eu", "ranker", "ranker.JSON"):
        with pytest.raises(CertificateError, match=r"must end in \.json; this one"):
            certificate.save(tmp_path / name)
        with pytest.raises(CertificateError, match=r"must end in \.json"):
            Status(certificate.id, "revoked").save(tmp_path / name)
        with pytest.raises(CertificateError, match=r"must end in \.json"):
            read_status(tmp_path / name, certificate.id)
    assert not list(tmp_path.iterdir())
    beside_them = [status_file(tmp_path / name).name for name in ("ranker.eu.json", "ranker.us.json", "ranker.json")]
    assert beside_them == ["ranker.eu.status.json", "ranker.us.status.json", "ranker.status.json"]


def test_a_damaged_status_file_is_refused(tmp_path):
    file = tmp_path / "ranker.json"
    assert status_file(file).name == "ranker.status.json"
    for content in ("{", json.dumps({"certificate": "x", "status": "fine"}), json.dumps({"certificate": "x", "a": 1})):
        status_file(file).write_text(content)
        with pytest.raises(CertificateError, match="not a certificate status"):
            read_status(file, "x")
    with pytest.raises(ValueError, match="2027-01-31"):
        Status("x", expires="soon")


def test_monitors_that_run_at_the_same_time_lose_nothing(certificate, tmp_path):
    promised, state, file = absolute(certificate), tmp_path / "state.json", tmp_path / "ranker.json"
    lists = [line(promised, f"q{i}", ["c", "b"], time=i) for i in range(120)]
    alone = Monitor(promised)
    alone.update(lists, judged(120))
    several = [Monitor(promised, state=state) for _ in range(6)]  # all of them begin before the first has counted
    halfway = Barrier(6)

    def count(n):
        part = iter(lists[20 * n : 20 * n + 20])

        def served():
            yield next(part)
            with suppress(BrokenBarrierError):
                halfway.wait(0.2)  # where nobody waits for the others, all of them are here at once
            yield from part

        several[n].update(served(), judged(120))
        if several[n].alarm is not None:
            several[n].revoke(file)

    threads = [Thread(target=count, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = Monitor(promised, state=state)
    assert last.n_judged == 120
    assert last.alarm is not None
    assert read_status(file, promised.id).status == "revoked"
    assert last.evidence == pytest.approx(alone.evidence)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["streams"][0]["wealth"].__setitem__(0, float("nan")),
        lambda state: state["streams"][0]["wealth"].__setitem__(0, -1.0),
        lambda state: state["streams"][0]["wealth"].pop(),
        lambda state: state["streams"][0]["won"].__setitem__(0, "yesterday"),
        lambda state: state["streams"][0].update(n=-1),
        lambda state: state["streams"][0].update(total=7.0),
        lambda state: state["streams"][0].update(promise="ndcg@2 >= 0.7"),
        lambda state: state["streams"].pop(),
        lambda state: state["seen"].append("q"),
        lambda state: state.update(n_empty=2),
        lambda state: state.update(alarm={"promise": "x"}),
        lambda state: state.update(streams=None),
        lambda state: state.update(schema=1),
        lambda state: state.update(more=1),
    ],
)
def test_a_damaged_state_is_refused_and_nothing_of_it_is_taken_over(certificate, tmp_path, damage):
    promised, file = absolute(certificate), tmp_path / "state.json"
    Monitor(promised, state=file).update([line(promised, "q0", ["a", "b"])], judged(1))
    state = json.loads(file.read_text())
    damage(state)
    file.write_text(json.dumps(state))
    with pytest.raises(DataError, match=r"state\.json: not the state of a monitor"):
        Monitor(promised, state=file)


def test_a_damaged_status_blocks_no_revocation_but_no_term_is_written_over_it(certificate, tmp_path):
    promised, file = absolute(certificate), tmp_path / "ranker.json"
    monitor = Monitor(promised)
    monitor.update([line(promised, f"q{i}", ["c", "b"], time=i) for i in range(100)], judged(100))
    for damaged in (b"{", b"\xff", b"[]", b"null", b'{"certificate": 1}', b'{"certificate": "x", "status": "fine"}'):
        status_file(file).write_bytes(damaged)
        with pytest.raises(CertificateError, match="not a certificate status"):
            set_term(file, promised.id, "2999-01-01")
        monitor.revoke(file)
        assert read_status(file, promised.id).status == "revoked"
    set_term(file, promised.id, "2999-01-01")
    found = read_status(file, promised.id)
    assert (found.status, found.expires) == ("revoked", "2999-01-01")


def test_a_revocation_and_a_term_written_at_the_same_time_are_both_kept(tmp_path, monkeypatch):
    file, both = tmp_path / "ranker.json", Barrier(2)

    def read_and_wait(*asked):
        found = read_status(*asked)
        with suppress(BrokenBarrierError):
            both.wait(0.2)  # where nobody waits for the other, each has read before the other writes
        return found

    monkeypatch.setattr("isrr.outcome.status.read_status", read_and_wait)
    threads = [
        Thread(target=revoke, args=(file, "x", "broken")),
        Thread(target=set_term, args=(file, "x", "2999-01-01")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_status(file, "x")
    assert (found.status, found.expires) == ("revoked", "2999-01-01")


def test_it_says_what_was_kept_beside_what_is_promised_and_remembers_it(certificate, tmp_path):
    promised, queries = absolute(certificate), judged(10)
    monitor = Monitor(promised, state=tmp_path / "state.json")
    monitor.update([line(promised, f"q{i}", ["a" if i else "c", "b"], time=i) for i in range(10)], queries)
    for found in (monitor, Monitor(promised, state=tmp_path / "state.json")):
        assert "kept so far  0.9000, promised ≥ 0.6000; evidence against the promise 0." in str(found)
        assert " of the 20 that revoke it\n" in str(found)
    assert "kept so far  nothing, promised ≥ 0.6000" in str(Monitor(promised))
