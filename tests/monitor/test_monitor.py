"""The monitor by judgments: what counts, what is remembered, what an alarm says."""

import json
from contextlib import suppress
from dataclasses import replace
from threading import Barrier, BrokenBarrierError, Thread

import numpy as np
import pytest
from msgspec import structs

from isrr import Monitor, Queries, calibrate
from isrr.errors import CertificateError, DataError, PromiseError
from isrr.monitor.stream import Stream
from isrr.outcome.status import Status, read_status
from isrr.promises import Promise
from isrr.risk.eprocess import EProcess, bets


@pytest.fixture(scope="module")
def relative(many_queries):
    outcome = calibrate(many_queries, "ndcg@5 >= 85% of deterministic")
    return structs.replace(outcome, curve=outcome.curve[:1])  # a short one: its id is asked for often


def about(certificate, promise, *segments):
    """The same certificate, about another promise."""
    test = structs.replace(certificate.tests[0], promise=promise, level=None)
    tests = tuple(structs.replace(test, segment=segment) for segment in segments or (None,))
    ranker = replace(certificate.ranker, k=promise.k)
    return structs.replace(certificate, promises=(promise,), tests=tests, ranker=ranker)


@pytest.fixture(scope="module")
def promised(relative):
    """A promise that is easy to reason about."""
    return about(relative, Promise("ndcg", 2, at_least=0.6))


@pytest.fixture(scope="module")
def per_segment(relative):
    return about(relative, Promise("ndcg", 2, at_least=0.6, per="segment"), "new", "old")


def line(certificate, query, top, *, time=0.0, session="s", deterministic=None, production=None, status="valid"):
    return {
        "time": time, "certificate": certificate.id, "status": status, "query_id": query, "session": session,
        "top": top, "deterministic": deterministic or top, "production": production,
    }  # fmt: skip


def served(certificate, tops):
    """One list per query, one a second."""
    return [line(certificate, f"q{i}", [top, "b"], time=i) for i, top in enumerate(tops)]


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
    for loss in (-0.01, 1.01, np.nan):
        with pytest.raises(ValueError, match="losses in \\[0, 1\\]"):
            process.after(loss)


def test_a_promise_seems_broken_since_the_start_from_which_a_bet_would_have_won_most():
    rng, alpha = np.random.default_rng(20231), 0.3
    for losses in (np.r_[[0.2] * 60, [0.6] * 20], rng.random(300) * 0.8, np.full(5, 0.9), np.full(5, 0.1)):
        stream = Stream("p", None, alpha, 0.5)
        for i, loss in enumerate(losses.tolist()):
            stream.add(loss, 10.0 * i, 1.0, 1.0)
        total = np.vstack((np.zeros(12), np.cumsum(np.log1p(bets(alpha) * (losses[:, None] - alpha)), axis=0)))
        lowest = np.argmin(total[:-1], axis=0)
        since = int(lowest[np.argmax(total[-1] - total[lowest, np.arange(12)])])
        alarm = stream.alarm("query")
        assert alarm.since_loss == since
        assert alarm.shortfall == pytest.approx((losses[since:].mean() - alpha) / 0.5)
        assert f"{10 * since // 60:02}:{10 * since % 60:02}+00:00" in alarm.since


def test_kept_promises_raise_no_alarm_and_broken_ones_do(promised, tmp_path):
    good, bad, file = Monitor(promised), Monitor(promised), tmp_path / "ranker.json"
    assert good.update(served(promised, "a" * 200), judged(200)) is None
    alarm = bad.update(served(promised, "a" * 100 + "c" * 100), judged(200))
    assert (alarm.since_loss, alarm.since) == (100, "1970-01-01T00:01:40+00:00")
    assert alarm.shortfall == pytest.approx(0.6)
    assert "is broken" in str(bad)
    assert good.evidence < 1 <= bad.evidence
    Status(promised.id, expires="2999-01-01").save(file)
    bad.revoke(file)
    status = read_status(file, promised.id)
    assert (status.status, status.expires, status.reason) == ("revoked", "2999-01-01", str(alarm))


def test_a_query_counts_once_with_the_mean_of_its_lists(promised):
    monitor = Monitor(promised)
    lists = [
        line(promised, "q0", ["a", "b"], session=1),
        line(promised, "q0", ["c", "b"], session=2),
        line(promised, "q0", ["c", "b"], session=2),  # its second page
        line(promised, "q0", ["c", "b"], session=3, status="uncovered"),
        {**line(promised, "q0", ["c", "b"], session=4), "certificate": "another"},
    ]
    for _ in range(2):
        monitor.update(lists, judged(1))
    assert (monitor._state.streams[0].total, monitor.n_judged) == (0.5, 1)


def test_a_relative_promise_is_judged_against_the_order_by_score(relative):
    monitor, keep = Monitor(relative), relative.promises[0].target
    monitor.update([line(relative, "q0", ["b", "a", "c"], deterministic=["a", "b", "c"])], judged(1))
    assert monitor._state.streams[0].total == pytest.approx((keep - 1 / np.log2(3) + 1) / (1 + keep))


def test_queries_without_a_relevant_item_or_a_judgment_are_left_out_and_counted(promised):
    monitor = Monitor(promised)
    monitor.update([line(promised, "q0", ["a", "b"]), line(promised, "q1", ["a", "z"])], judged(2, (0, 0, 0)))
    assert (monitor.n_judged, monitor.n_counted, monitor.batch.n_incomplete) == (1, 0, 1)
    assert "query 'q1' was served item 'z', which is not judged" in monitor.batch.note
    monitor = Monitor(promised)
    monitor.update([line(promised, "q0", ["a", "b"])], judged(2, (0, 0, 0)))
    assert (monitor.n_counted, monitor.batch.note) == (0, "of 1 judged query none has a relevant item")


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ([], "the log holds no served list yet"),
        ([("Q7", "a", "valid")], "1 list served, of queries such as 'Q7'; judgments are for queries such as 'q0'"),
        ([("q0", "a", "uncovered")], "the first is uncovered under certificate"),
        ([("q0", "A", "valid")], "item 'A', which is not judged; judgments are for items such as 'a'"),
        ([("q0", "a", "valid"), ("Q7", "a", "valid")], ""),
    ],
)
def test_judgments_that_match_nothing_served_are_said_to(relative, lists, said):
    monitor = Monitor(relative)
    for _ in range(2):  # what was counted before is matched all the same
        monitor.update([line(relative, query, [item], status=status) for query, item, status in lists], judged(2))
        assert said in monitor.batch.note
        assert (said == "") == (monitor.batch.note == "")
        assert ("\nnote  " in str(monitor)) == (said != "")
        assert ("none (nothing was counted)" in str(monitor)) == (said != "")


def test_a_killed_monitor_goes_on_where_it_stopped(promised, tmp_path):
    lists, state = served(promised, ["a" if i % 3 else "c" for i in range(60)]), tmp_path / "state.json"
    whole = Monitor(promised)
    whole.update(lists, judged(60))
    for end in (20, 20, 45, 60):  # each time a new process; the second batch brings nothing new
        part = Monitor(promised, state=state)
        part.update(lists[:end], judged(60))
    assert (part.evidence, part.n_judged) == (whole.evidence, 60)
    again = "ignored      45 queries counted before: each counts once, as first judged\n"
    assert str(part).replace(again, "") == str(whole) != str(part)
    known = str(Monitor(promised, state=state))
    assert "kept so far  0.6667, promised ≥ 0.6000; evidence against the promise 0." in known
    assert "kept so far  nothing, promised ≥ 0.6000" in str(Monitor(promised))
    with pytest.raises(DataError, match=r"state of another monitor \(delta 0.05"):
        Monitor(promised, delta=0.01, state=state)


def test_each_segment_is_monitored_and_delta_is_split(per_segment):
    monitor = Monitor(per_segment)
    segments = ["new" if i % 2 else "old" for i in range(200)]
    alarm = monitor.update(served(per_segment, "ac" * 100), judged(200, segment=segments))
    assert alarm.segment == "new"
    assert alarm.evidence >= 2 / 0.05
    with pytest.raises(DataError, match=r"the judgments have no segments.*in each segment: new, old"):
        Monitor(per_segment).update(served(per_segment, "c"), judged(1))


def test_queries_in_segments_that_are_not_monitored_are_counted_apart_and_noted(per_segment):
    monitor, lists = Monitor(per_segment), served(per_segment, "ccc")
    monitor.update(lists, judged(3, segment=["other", "third", "other"]))
    assert (monitor.batch.n_unmonitored, monitor.n_counted) == (3, 0)
    assert "such as 'other'; monitored are 'new', 'old'" in monitor.batch.note
    assert "3 in segments that are not monitored" in str(monitor)
    monitor.update(lists, judged(3, segment=["new", "old", "other"]))  # two were labelled wrongly
    assert (monitor.batch.n_unmonitored, monitor.n_counted) == (1, 2)
    overall = structs.replace(per_segment.tests[0], promise=Promise("ndcg", 2, at_least=0.6), segment=None)
    both = Monitor(structs.replace(per_segment, tests=(*per_segment.tests, overall)))
    both.update([{**entry, "certificate": both.certificate} for entry in lists], judged(3, segment=["other"] * 3))
    assert (both.batch.n_unmonitored, both.n_counted) == (3, 3)


def test_what_cannot_be_monitored_is_refused(relative, many_queries):
    with pytest.raises(PromiseError, match="expected exposure"):
        Monitor(about(relative, Promise("normalized_disparity", 5, at_most=0.5)))
    with pytest.raises(CertificateError, match="nothing was certified"):
        Monitor(calibrate(many_queries[:50], "ndcg@5 >= 0.99"))
    with pytest.raises(DataError, match="no item ids"):
        Monitor(relative).update([], many_queries)
    with pytest.raises(PromiseError, match="is not about clicks; monitor it with judgments"):
        Monitor(relative).update_clicks("served", None, now=0.0)
    for delta in (0.0, 1.0, 1.5, -0.05):
        with pytest.raises(PromiseError, match=r"delta must lie in \(0, 1\)"):
            Monitor(relative, delta=delta)


@pytest.mark.parametrize("segments", [(), ("new", "old")])
def test_the_alarm_comes_at_the_first_query_whose_evidence_reaches_what_revokes(relative, segments):
    promise = Promise("ndcg", 2, at_least=0.7, per="segment" if segments else None)
    promised, loss = about(relative, promise, *segments), 1 - 1 / np.log2(3)  # the relevant item comes second
    process, reached = EProcess.start(0.3), []
    for _ in range(400):
        process = process.after(loss)
        reached.append(float(process.evidence))
    enough = max(len(segments), 1) / 0.05
    first, later = (1 + int(np.argmax(np.array(reached) >= level)) for level in (enough, 1.2 * enough))
    assert 1 < first < later  # so that a larger threshold would be noticed
    monitor = Monitor(promised)
    for n in range(first):
        assert monitor.alarm is None
        batch = judged(n + 1, segment=["new"] * (n + 1) if segments else None)
        monitor.update([line(promised, f"q{n}", ["b", "a"], time=n)], batch)
    assert monitor.alarm.n == first
    assert enough <= monitor.alarm.evidence < 1.2 * enough


def test_monitors_that_run_at_the_same_time_lose_nothing(promised, tmp_path):
    state, file, lists = tmp_path / "state.json", tmp_path / "ranker.json", served(promised, "c" * 120)
    alone = Monitor(promised)
    alone.update(lists, judged(120))
    several = [Monitor(promised, state=state) for _ in range(6)]  # all of them begin before the first has counted
    halfway = Barrier(6)

    def count(n):
        part = iter(lists[20 * n : 20 * n + 20])

        def slowly():
            yield next(part)
            with suppress(BrokenBarrierError):
                halfway.wait(0.2)  # where nobody waits for the others, all of them are here at once
            yield from part

        if several[n].update(slowly(), judged(120)) is not None:
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
        lambda state, stream: stream["wealth"].__setitem__(0, float("nan")),
        lambda state, stream: stream["wealth"].__setitem__(0, -1.0),
        lambda state, stream: stream["wealth"].pop(),
        lambda state, stream: stream["won"].__setitem__(0, "yesterday"),
        lambda state, stream: stream.update(n=-1),
        lambda state, stream: stream.update(total=7.0),
        lambda state, stream: stream.update(promise="ndcg@2 >= 0.7"),
        lambda state, stream: state["streams"].pop(),
        lambda state, stream: state["seen"].append("q"),
        lambda state, stream: state.update(n_empty=2),
        lambda state, stream: state.update(alarm={"promise": "x"}),
        lambda state, stream: state.update(streams=None),
        lambda state, stream: state.update(schema=1),
        lambda state, stream: state.update(more=1),
    ],
)
def test_a_damaged_state_is_refused_and_nothing_of_it_is_taken_over(promised, tmp_path, damage):
    file = tmp_path / "state.json"
    Monitor(promised, state=file).update(served(promised, "a"), judged(1))
    state = json.loads(file.read_text())
    damage(state, state["streams"][0])
    file.write_text(json.dumps(state))
    with pytest.raises(DataError, match=r"state\.json: not the state of a monitor"):
        Monitor(promised, state=file)


def test_a_promise_of_merit_cannot_be_monitored(relative):
    with pytest.raises(PromiseError, match="expected exposure or merit, which served lists do not show"):
        Monitor(about(relative, Promise.parse("exposure(new)@5 >= 80% of merit")))


@pytest.mark.parametrize("text", ["ndcg@2 >= 98% of production", "ndcg@2 >= 98% of production in 90% of lists"])
@pytest.mark.parametrize(("top", "broken"), [("b", True), ("a", False)])
def test_a_promise_of_production_is_compared_with_the_order_in_the_log(relative, text, top, broken):
    """Item a is relevant; production shows it first, as the order by score never does."""
    certificate = about(relative, Promise.parse(text))
    watch = Monitor(certificate)
    lists = [
        line(certificate, f"q{i}", [top, "c"], time=i, deterministic=["b", "c"], production=["a", "b"])
        for i in range(200)
    ]
    alone = [line(certificate, f"q{i}", ["a", "b"], time=i) for i in range(200, 203)]
    alarm = watch.update([*lists, *alone], judged(203))
    assert (alarm is not None) == broken
    assert watch.n_counted == 200
    assert watch.kept == [0.0 if broken else 1.0]
    assert watch.batch.note == (
        "3 lists of judged queries came without the order of production and do not count; send it as `production` in "
        "requests"
    )
