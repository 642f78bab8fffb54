"""Odd files, full disks, closed pipes and Ctrl-C: one line each, the right exit code, and nothing half-written."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

from command_line import ISRR, isrr, run
from isrr import load

PROMISE = "ndcg@5 >= 90% of deterministic"
CALIBRATE = ["calibrate", "judged.parquet", "-p", PROMISE]
RANK = ["rank", "ranker.json", "judged.parquet", "-o", "x.parquet"]
REFUSALS = [
    (["show", "."], ".: not a certificate: it cannot be read: Is a directory"),
    (["show", "empty.json"], "empty.json: not a certificate: it is empty"),
    (["show", "cut.json"], "cut.json: not a certificate: it is not JSON, or cut off, at line"),
    (["show", "deep.json"], "nested too deeply"),
    (["show", "latin.json"], "latin.json: not a certificate: it is not text"),
    (["show", "judged.parquet"], "expected a ranker file (.json), found a table of queries"),
    (["serve", "empty.json"], "it is empty"),
    (["calibrate", "latin.csv", "-p", PROMISE], "latin.csv: cannot be read"),
    (["calibrate", ".", "-p", PROMISE], "found a folder"),
    (["calibrate", "nowhere.parquet", "-p", PROMISE], "nowhere.parquet"),
    (["calibrate", "nowhere.parquet", "-p", PROMISE, "--confidence", "95"], "did you mean 0.95"),
    (["calibrate", "nowhere.parquet", "-p", PROMISE, "-o", "ranker.eu"], "must end in .json; this one ends in .eu"),
    (["calibrate", "no-score.csv", "-p", PROMISE], "named by --score); the columns are query_id, item_id, Score_,"),
    (["calibrate", "no-score.csv", "-p", PROMISE], "did you mean 'Score_'?"),
    ([*CALIBRATE, "-o", "judged.parquet"], "would be overwritten"),
    ([*CALIBRATE, "-o", "/dev/full"], "/dev/full: No space left on device"),
    ([*CALIBRATE, "-o", "no/such/folder/r.json"], "does not exist"),
    ([*CALIBRATE, "--per-segment"], "no segment column (segment, or named by --seg"),
    ([*CALIBRATE, "--relevance", "rel"], "there is no column 'rel'"),
    ([*CALIBRATE, "--query", "Query_ID"], "did you mean 'query_id'?"),
    ([*CALIBRATE, "--confidence", "5"], "did you mean 0.95?"),
    ([*CALIBRATE, "--confidence", "0.05"], "did you mean 0.95?"),
    ([*CALIBRATE, "--validation", "judged.parquet"], "validation queries too"),
    ([*CALIBRATE[:-1], "nonsense"], "cannot read the promise"),
    ([*CALIBRATE[:-1], "ndgc@5 >= 0.7"], "did you mean ndcg?"),
    ([*CALIBRATE[:-1], "ndcg@5>=0.95 of deterministic"], "did you mean 'ndcg@5>=95% of deterministic'?"),
    ([*CALIBRATE[:-1], "disparity@5 <= 0.2"], "expected 'with bound B', where B is the largest value a query"),
    ([*CALIBRATE[:-1], f"{PROMISE}, ndcg@9 >= 0.5"], "several promises; expected one at a time"),
    ([*CALIBRATE[:-1], "clicks@3 >= 80% of deterministic"], "isrr clicks calibrate"),
    (["calibrate", "-p", PROMISE], "expected a table of judged queries, or --run and --qrels"),
    ([*CALIBRATE, "--sample", "few"], "--sample must be a number of queries or all"),
    ([*RANK, "--master", "local[2]"], "--master is for --engine spark; the engine is local"),
    (["rank", "nowhere.json", "judged.parquet", "-o", "x.parquet"], "no such file"),
    (["rank", "ranker.json", "no-score.csv", "-o", "x.parquet"], "no score column (score, or named by --score)"),
    ([*RANK[:-1], "judged.parquet"], "would be overwritten"),
    ([*RANK[:-1], "ranked.txt"], "must end in .parquet or .csv or .jsonl"),
    (["report", "ranker.json", "-o", "ranker.json"], "would be overwritten"),
    (["plan", "-p", "ndcg@5 >= 0.5"], "a plan needs judged pilot queries, or --utility"),
    (["plan", "-p", "ndcg@5 >= 0.5", "--utility", "0.6", "--confidence", "95"], "did you mean 0.95"),
    (["plan", "-p", "ndcg@5 >= 0.5", "--utility", "0.6", "--per-segment"], "a plan for a promise per segment needs"),
    (["demo", "--out", "ranker.json"], "ranker.json: expected a folder, but it is a file"),
    (["demo", "--out", "ranker.json/x"], "ranker.json is a file"),
    (["demo", "-p", "ndcg@5 >= 95"], "write 0.95, or 95% of deterministic"),
    (["demo", "-p", "group_disparity@5 <= 0.2"], "the demo's items have no item group"),
    (["data", "show", "no-score.csv", "--score", "Score"], "did you mean 'Score_'?"),
    (["data", "convert", "no-score.csv", "x.csv"], "the file name must end in .arrow or .parquet"),
    (["data", "convert", "judged.parquet", "judged.parquet"], "would be overwritten"),
]


@pytest.fixture(scope="module")
def odd(tmp_path_factory, judged, ranker):
    """A ranker file, its judged queries, and files that are not what they should be."""
    folder = tmp_path_factory.mktemp("refusals")
    shutil.copy(judged, folder)
    shutil.copy(ranker, folder)
    whole = ranker.read_text()
    (folder / "no-score.csv").write_text("query_id,item_id,Score_,grade\n1,a,0.5,1\n1,b,0.2,0\n")
    (folder / "empty.json").write_text("")
    (folder / "cut.json").write_text(whole[: len(whole) // 2])
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "latin.json").write_bytes('{"kind": "Prüfung"}'.encode("latin-1"))
    (folder / "latin.csv").write_bytes("query_id,score,relevance\nMünchen,1,1\n".encode("latin-1"))
    (folder / ".isrr-analyses.jsonl").write_text("{}\n")
    return folder


@pytest.mark.parametrize(("arguments", "said"), REFUSALS, ids=lambda value: "")
def test_what_a_user_can_put_right_is_one_line_and_exit_code_two(odd, arguments, said):
    before = sorted(odd.iterdir())
    done = isrr(*arguments, cwd=odd)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "`" not in done.stderr
    assert sorted(odd.iterdir()) == before


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root is held to permissions by setpriv of util-linux")
def test_without_permission_nothing_is_begun(judged, tmp_path):
    secret = tmp_path / "secret.parquet"
    shutil.copy(judged, secret)
    secret.chmod(0)
    tmp_path.chmod(0o500)
    limits = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    for arguments, said in (
        (["data", "show", secret], "is not readable"),
        (["calibrate", judged, "-p", PROMISE, "-o", tmp_path / "r.json"], "is not writable"),
        (["demo", "--out", tmp_path / "demo"], "is not writable"),
    ):
        wide = {**os.environ, "COLUMNS": "300"}
        done = subprocess.run([*limits, *ISRR, *map(str, arguments)], capture_output=True, text=True, env=wide)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr


def test_a_disk_that_fills_up_leaves_the_old_file_whole(odd, tmp_path):
    shutil.copy(odd / "ranker.json", tmp_path)
    before = (tmp_path / "ranker.json").read_bytes()

    def little_space():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = run("-m", "isrr", *CALIBRATE, "-o", tmp_path / "ranker.json", cwd=odd, preexec_fn=little_space)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(f"{tmp_path}/ranker.json: File too large")
    assert (tmp_path / "ranker.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ranker.json"]


def test_output_that_cannot_be_written_is_said_once_and_a_closed_pipe_is_no_error(ranker):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*ISRR, "show", str(ranker)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "isrr: the output cannot be written: No space left on device\n"
    for option in ([], ["--json"]):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as closed:
            command = [*ISRR, "show", str(ranker), *option]
            done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
        assert done.returncode in (1, 141)
        assert done.stderr == ""


def hear_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_is_one_line_and_leaves_the_old_file_whole(ranker, tmp_path):
    shutil.copy(ranker, tmp_path)
    running = subprocess.Popen(
        [*ISRR, "demo", "--out", str(tmp_path)], preexec_fn=hear_interrupts,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout.readline().startswith("queries:")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode in (130, -signal.SIGINT)  # the shell sees 130 either way
    assert said == "isrr: interrupted; files are as they were\n"
    assert load(tmp_path / "ranker.json") == load(ranker)
    assert not list(tmp_path.rglob("*.tmp"))


def test_ctrl_c_that_a_library_swallows_is_heard(judged, tmp_path):
    swallowing = """
        import os, signal
        from isrr.cli.interrupts import remember_interrupts
        remember_interrupts()
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:  # as some do while they load
            pass
        from isrr.cli.main import main
        main()
    """
    words = ("calibrate", judged, "-p", "ndcg@5 >= 80% of deterministic", "-o", tmp_path / "ranker.json")
    done = run("-c", textwrap.dedent(swallowing), *words, preexec_fn=hear_interrupts)
    assert done.returncode == 130
    assert done.stderr == "isrr: interrupted; files are as they were\n"
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_the_program_is_being_loaded_is_one_line(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")  # what loading it amounts to if one is quick
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = run("-m", "isrr", "--version", env={**os.environ, "PYTHONPATH": paths})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "isrr: interrupted\n")
