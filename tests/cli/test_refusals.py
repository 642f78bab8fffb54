"""Odd files, full disks, closed pipes and Ctrl-C: one line each, the right exit code, and nothing half-written."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from command_line import ISRR, isrr
from isrr import Queries, write_queries

PROMISE = "ndcg@5 >= 90% of deterministic"
RANK = ["rank", "ranker.json", "judged.parquet", "-o", "x.parquet"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A ranker file, its judged queries, and files that are not what they should be."""
    folder = tmp_path_factory.mktemp("refusals")
    rng = np.random.default_rng(20230)
    relevance = rng.choice(3, 3_000)
    scores, query_ids = relevance + rng.normal(size=3_000), np.repeat(np.arange(300), 10)
    judged = Queries.from_arrays(scores=scores, relevance=relevance, query_ids=query_ids)
    write_queries(judged, folder / "judged.parquet")
    (folder / "no-score.csv").write_text("query_id,item_id,Score_,grade\n1,a,0.5,1\n1,b,0.2,0\n")
    done = isrr("calibrate", "judged.parquet", "-p", PROMISE, cwd=folder)
    assert done.returncode == 0, done.stderr
    whole = (folder / "ranker.json").read_text()
    (folder / "empty.json").write_text("")
    (folder / "cut.json").write_text(whole[: len(whole) // 2])
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "latin.json").write_bytes('{"kind": "Prüfung"}'.encode("latin-1"))
    (folder / "latin.csv").write_bytes("query_id,score,relevance\nMünchen,1,1\n".encode("latin-1"))
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "."], ".: not a certificate: it cannot be read: Is a directory"),
        (["show", "empty.json"], "empty.json: not a certificate: it is empty"),
        (["show", "cut.json"], "cut.json: not a certificate: it is not JSON, or cut off, at line"),
        (["show", "deep.json"], "nested too deeply"),
        (["show", "latin.json"], "latin.json: not a certificate: it is not text"),
        (["serve", "empty.json"], "it is empty"),
        (["calibrate", "latin.csv", "-p", PROMISE], "latin.csv: cannot be read"),
        (["calibrate", ".", "-p", PROMISE], "found a folder"),
        (["calibrate", "judged.parquet", "-p", PROMISE, "-o", "judged.parquet"], "would be overwritten"),
        (["rank", "ranker.json", "judged.parquet", "-o", "judged.parquet"], "would be overwritten"),
        (["report", "ranker.json", "-o", "ranker.json"], "would be overwritten"),
        (["data", "convert", "judged.parquet", "judged.parquet"], "would be overwritten"),
        (["calibrate", "nothing.parquet", "-p", PROMISE, "--confidence", "95"], "did you mean 0.95"),
        (["calibrate", "no-score.csv", "-p", PROMISE], "named by --score); the columns are query_id, item_id, Score_,"),
        (["calibrate", "no-score.csv", "-p", PROMISE], "did you mean 'Score_'?"),
        (
            ["calibrate", "judged.parquet", "-p", PROMISE, "--per-segment"],
            "no segment column (segment, or named by --seg",
        ),
        (
            ["calibrate", "judged.parquet", "-p", f"{PROMISE}, ndcg@9 >= 0.5"],
            "several promises; expected one at a time",
        ),
        (["calibrate", "judged.parquet", "-p", PROMISE, "-o", "/dev/full"], "/dev/full: No space left on device"),
        (["calibrate", "nowhere.parquet", "-p", PROMISE, "-o", "ranker.eu"], "must end in .json; this one ends in .eu"),
        (["calibrate", "judged.parquet", "-p", PROMISE, "--relevance", "rel"], "there is no column 'rel'"),
        (["rank", "ranker.json", "no-score.csv", "-o", "x.parquet"], "no score column (score, or named by --score)"),
        ([*RANK, "--engine", "sprak"], "unknown engine 'sprak'"),
        ([*RANK, "--engine", "dask", "--trust-layout"], "--engine dask cannot write rankings"),
        ([*RANK, "--trust-layout"], "--trust-layout needs --engine spark"),
        ([*RANK, "--partitions", "7"], "partitions is for engine 'spark'"),
        (["demo", "--out", "ranker.json"], "ranker.json: expected a folder, but it is a file"),
        (["demo", "--out", "ranker.json/x"], "ranker.json is a file"),
        (["demo", "-p", "ndcg@5 >= 95"], "write 0.95, or 95% of deterministic"),
        (["demo", "-p", "group_disparity@5 <= 0.2"], "the demo's items have no item group"),
        (["data", "show", "no-score.csv", "--score", "Score"], "did you mean 'Score_'?"),
        (["data", "convert", "no-score.csv", "x.csv"], "the file name must end in .arrow or .parquet"),
    ],
)
def test_what_a_user_can_put_right_is_one_line_and_exit_code_two(made, arguments, said):
    before = sorted(made.iterdir())
    done = isrr(*arguments, cwd=made)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "`" not in done.stderr
    assert sorted(made.iterdir()) == before


def test_a_port_that_is_taken_is_refused_at_once(made):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = isrr("serve", made / "ranker.json", "--port", port)
    assert done.returncode == 2
    assert done.stderr == (
        f"isrr: 127.0.0.1, port {port}: cannot listen: Address already in use; choose another --host or --port\n"
    )


def test_a_column_under_another_name_is_shown_and_converted(made, tmp_path):
    done = isrr("data", "convert", made / "no-score.csv", tmp_path / "x.parquet", "--score", "Score_")
    assert "1 query, 2 items; scores, relevance, item_ids" in done.stdout, done.stderr


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root is held to permissions by setpriv of util-linux")
def test_without_permission_nothing_is_begun(made, tmp_path):
    secret = tmp_path / "secret.parquet"
    shutil.copy(made / "judged.parquet", secret)
    secret.chmod(0)
    tmp_path.chmod(0o500)
    held = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    for arguments, said in (
        (["data", "show", secret], "is not readable"),
        (["calibrate", made / "judged.parquet", "-p", PROMISE, "-o", tmp_path / "r.json"], "is not writable"),
        (["demo", "--out", tmp_path / "demo"], "is not writable"),
    ):
        wide = {**os.environ, "COLUMNS": "300"}
        done = subprocess.run([*held, *ISRR, *map(str, arguments)], capture_output=True, text=True, env=wide)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr


def test_a_disk_that_fills_up_leaves_the_old_file_whole(made, tmp_path):
    shutil.copy(made / "ranker.json", tmp_path)
    before = (tmp_path / "ranker.json").read_bytes()

    def little_space():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [*ISRR, "calibrate", made / "judged.parquet", "-p", "ndcg@5 >= 80% of deterministic"]
    target = ["-o", tmp_path / "ranker.json"]
    done = subprocess.run([*command, *target], capture_output=True, text=True, preexec_fn=little_space)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(f"{tmp_path}/ranker.json: File too large")
    assert (tmp_path / "ranker.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ranker.json"]


def test_output_that_cannot_be_written_is_said_once(made):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ISRR, "show", str(made / "ranker.json")], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "isrr: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_closed_pipe_is_no_error(made, option):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        command = [*ISRR, "show", str(made / "ranker.json"), *option]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert done.returncode in (1, 141)
    assert done.stderr == ""


def test_ctrl_c_is_one_line(tmp_path):
    run = subprocess.Popen(
        [*ISRR, "demo"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert run.stdout.readline().startswith("queries:")
    run.send_signal(signal.SIGINT)
    _, heard = run.communicate(timeout=120)
    assert run.returncode in (130, -signal.SIGINT)  # the shell sees 130 either way
    assert heard == "isrr: interrupted; files are as they were\n"
    assert not list(tmp_path.rglob("*.tmp"))


def test_ctrl_c_that_a_library_swallows_is_heard(made, tmp_path):
    swallowing = """
        import os, signal, sys
        from isrr.cli.interrupts import hear_interrupts
        hear_interrupts()
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:  # as some do while they load
            pass
        from isrr.cli.main import main
        main()
    """
    command = [sys.executable, "-c", textwrap.dedent(swallowing), "calibrate", str(made / "judged.parquet")]
    done = subprocess.run(
        [*command, "-p", "ndcg@5 >= 80% of deterministic", "-o", str(tmp_path / "ranker.json")],
        capture_output=True, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert done.returncode == 130
    assert done.stderr == "isrr: interrupted; files are as they were\n"
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_the_program_is_being_loaded_is_one_line(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")  # what loading it amounts to if one is quick
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    path = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([*ISRR, "--version"], env=path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "isrr: interrupted\n")
