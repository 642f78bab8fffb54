"""Files appear whole or not at all, and nothing that is not a plain file is replaced by one."""

import errno
import os
import stat
import threading
import time

import pytest

from isrr.files import locked, replacing, write_atomically


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


def test_what_goes_wrong_in_the_body_keeps_the_name_it_has_unless_it_is_about_the_new_file(tmp_path):
    def write(body):
        with replacing(tmp_path / "copy.json") as partial:
            body(partial)

    def run_out_of_room(partial):
        raise OSError(errno.ENOSPC, "no name is given")

    with pytest.raises(FileNotFoundError, match=r"source\.json"):
        write(lambda partial: (tmp_path / "source.json").read_bytes())
    with pytest.raises(FileExistsError, match=r"/copy\.json"):
        write(lambda partial: partial.mkdir())
    with pytest.raises(OSError, match=r"/copy\.json"):
        write(run_out_of_room)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_an_old_file_keeps_its_mode_and_is_never_more_open_on_the_way(tmp_path, mode):
    file = tmp_path / "secret.json"
    file.write_text("old")
    file.chmod(mode)
    with replacing(file) as partial:
        partial.write_text("new")
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_new_file_has_the_mode_of_any_other_and_the_umask_is_left_alone(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.delattr(os, "umask")
        write_atomically(tmp_path / "new.json", b"")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o640


def test_the_folder_is_on_disk_after_the_rename(tmp_path, monkeypatch):
    synced, sync = [], os.fsync

    def noted(handle):
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "new.json").exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    write_atomically(tmp_path / "new.json", b"new")
    assert synced == [(False, False), (True, True)]


def test_what_a_killed_process_left_is_removed_once_it_is_old(tmp_path):
    old, fresh, other = (
        tmp_path / name for name in (".a.json.0123abcd.tmp", ".a.json.89abcdef.tmp", ".b.json.0123abcd.tmp")
    )
    for file in (old, fresh, other):
        file.write_text("half")
    for file in (old, other):
        os.utime(file, (time.time() - 7_200,) * 2)
    write_atomically(tmp_path / "a.json", b"{}")
    assert sorted(tmp_path.iterdir()) == [fresh, other, tmp_path / "a.json"]


def test_a_lock_is_held_by_one_at_a_time_and_errors_of_the_body_are_its_own(tmp_path):
    events = []

    def wait():
        with locked(tmp_path / "state.json"):
            events.append("second")

    with locked(tmp_path / "state.json"):
        other = threading.Thread(target=wait)
        other.start()
        time.sleep(0.1)
        events.append("first")
    other.join()
    assert events == ["first", "second"]
    with pytest.raises(FileNotFoundError, match="other"), locked(tmp_path / "state.json"):
        (tmp_path / "other").read_bytes()
    with pytest.raises(FileNotFoundError, match=r"nowhere/state\.json"), locked(tmp_path / "nowhere" / "state.json"):
        pass
