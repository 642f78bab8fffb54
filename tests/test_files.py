"""Files appear whole or not at all, and nothing that is not a plain file is replaced by one."""

import os
import threading

import pytest

from isrr.files import replacing, write_atomically


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "kept.json"
    file.write_text("old")

    def write_half():
        with replacing(file) as partial:
            partial.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "release-2.json").write_text("old")
    (tmp_path / "current.json").symlink_to("release-2.json")
    write_atomically(tmp_path / "current.json", b"new")
    assert (tmp_path / "current.json").is_symlink()
    assert (tmp_path / "release-2.json").read_text() == "new"


def test_a_pipe_is_sent_what_was_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    heard = []
    listener = threading.Thread(target=lambda: heard.append((tmp_path / "pipe").read_bytes()))
    listener.start()
    write_atomically(tmp_path / "pipe", b"all of it")
    listener.join()
    assert heard == [b"all of it"]
    assert (tmp_path / "pipe").is_fifo()


def test_what_the_system_refuses_names_the_target(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/ranker\.json"):
        write_atomically(tmp_path / "nowhere" / "ranker.json", b"")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write_atomically(tmp_path, b"")
