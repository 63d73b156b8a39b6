"""Control groups: reading their files, making ours, and removing them."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from harness.processes import cgroup, freezer
from harness.records import stale_folders
from harness.sandbox.bubblewrap import find_covers

EVENTS = b"low 0\nhigh 0\nmax 803\noom 46\noom_kill 2\noom_group_kill 1\n"


@pytest.fixture
def group():
    group = freezer.find_cgroup()
    if not group:
        pytest.skip("no cgroup v2 folder that we may write to on this machine")
    yield group
    group.remove()
    assert not group.folder.exists()


@pytest.fixture
def limited_to_a_gigabyte():
    """The file of a group with a memory limit, to which a process writes its pid to enter the group."""
    if not (folder := find_limited(1 << 30)):
        pytest.skip("no group with a memory controller that we may write to on this machine")
    yield folder / "cgroup.procs"
    folder.rmdir()


def find_limited(limit_bytes):
    """A new group with this limit, if we may make one."""
    version_1 = [(group, "memory.limit_in_bytes") for _, group in cgroup._mounted_groups("cgroup", "memory")]
    bases = [base for base in cgroup.find_bases() if "memory" in cgroup.delegate_controllers(base)]
    for group, limit in [*version_1, *((base, "memory.max") for base in bases)]:
        folder = group / f"limited-{os.getpid()}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            (folder / limit).write_text(str(limit_bytes))
            return folder
    return None


@pytest.fixture
def sleeper():
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleep) as sleeper:
        yield sleeper.pid
        sleeper.kill()


@pytest.mark.parametrize(
    ("text", "event", "count"),
    [
        (EVENTS, "oom", 46),
        (EVENTS, "oom_kill", 2),
        (EVENTS, "kill", 0),
        (b"low 0\nhigh 0\nmax 0\noom 0\n", "oom_kill", 0),
        (b"", "oom", 0),
        (b"nr_free_pages 5\noom_kill 12\nunevictable_pgs_culled 7\n", "oom_kill", 12),
    ],
)
def test_events_are_counted_by_their_whole_name(text, event, count):
    assert cgroup.count_events(text, event) == count


@pytest.mark.parametrize(
    ("has", "hands_on", "written"),
    [
        ("cpu memory pids", "memory pids", "memory pids"),  # the normal case
        ("cpu memory pids", "cpu", "+memory +pids"),
        ("cpu memory pids", "pids", "+memory +pids"),
        ("memory", "", "+memory"),
        ("cpu pids", "cpu", "cpu"),  # without memory, the judge leaves it alone
        ("", "", ""),
    ],
)
def test_a_group_hands_on_the_limits_it_has(tmp_path, has, hands_on, written):
    (tmp_path / "cgroup.controllers").write_text(has)
    control = tmp_path / "cgroup.subtree_control"
    control.write_text(hands_on)
    cgroup.delegate_controllers(tmp_path)
    assert control.read_text() == written


def test_a_folder_that_is_not_a_group_hands_on_no_limits(tmp_path):
    assert cgroup.delegate_controllers(tmp_path / "gone") == set()


def test_only_the_limits_that_a_group_has_are_set(tmp_path):
    limits = cgroup.CgroupLimits(memory_bytes=1 << 30, processes=64)
    for there in ([], ["pids.max"], ["memory.max", "memory.oom.group", "pids.max"], ["memory.swap.max"]):
        for name in there:
            (tmp_path / name).write_text("max")
        assert cgroup.set_limits(tmp_path, limits) is ("memory.max" in there or (tmp_path / "memory.max").exists())
    values = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert values == {
        "memory.max": "1073741824",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "64",
    }


def test_a_containers_memory_is_what_it_may_use(limited_to_a_gigabyte):
    code = f"""
open({str(limited_to_a_gigabyte)!r}, "w").write("0")
from harness.processes.watched_memory import USABLE_BYTES, Meminfo
before = Meminfo.read().available
held = b"x" * (256 << 20)
print(USABLE_BYTES, before, before - Meminfo.read().available)
"""
    usable, before, taken = map(int, subprocess.check_output([sys.executable, "-c", code]).split())
    assert usable == 1 << 30 > before
    assert 0.9 < taken / (256 << 20) < 1.1


V1 = "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
V2 = "30 23 0:27 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
OTHERS = "34 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"


@pytest.mark.parametrize(
    ("own", "mounts", "kind", "group"),
    [
        ("0::/user.slice/s.scope\n", V2.format(root="/"), "cgroup2", "/sys/fs/cgroup/user.slice/s.scope"),
        ("0::/\n", V2.format(root="/"), "cgroup2", "/sys/fs/cgroup"),  # a container with a namespace
        ("8:pids:/x\n4:memory:/docker/ab\n", V1.format(root="/docker/ab"), "cgroup", "/sys/fs/cgroup/memory"),
        ("4:cpu,memory:/a/b\n0::/\n", V1.format(root="/"), "cgroup", "/sys/fs/cgroup/memory/a/b"),
        ("4:memory:/a\n0::/b\n", V1.format(root="/") + V2.format(root="/"), "cgroup2", "/sys/fs/cgroup/b"),
    ],
)  # fmt: skip
def test_our_group_is_found_in_both_versions_and_in_containers(tmp_path, own, mounts, kind, group):
    (tmp_path / "cgroup").write_text("9:name=systemd:/wrong\n" + own)
    (tmp_path / "mountinfo").write_text(OTHERS + mounts)
    controller = "memory" if kind == "cgroup" else ""
    assert [str(found) for _, found in cgroup._mounted_groups(kind, controller, tmp_path)] == [group]


def test_a_mount_whose_name_is_not_utf_8_does_not_matter(tmp_path):
    (tmp_path / "cgroup").write_text("0::/judge\n")
    usb_stick = b"60 27 8:1 / /media/Fotos_f\xfcr_\xe3\x80\x80Oma\x0c rw - vfat /dev/sda1 rw\n"
    own = b"35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
    (tmp_path / "mountinfo").write_bytes(usb_stick + own)
    assert [str(found) for _, found in cgroup._mounted_groups("cgroup2", proc=tmp_path)] == ["/sys/fs/cgroup/judge"]
    assert find_covers(os.fsdecode(usb_stick + own)) == []


def test_our_group_is_a_child_of_one_of_the_bases(group):
    assert group.folder.parent in cgroup.find_bases()
    assert group.folder.name.startswith(f"pullrank-{os.getpid()}-")


def test_a_players_group_lists_its_processes_and_is_removed_on_close(group, sleeper):
    player = freezer.CgroupFreezer(group.folder, sleeper)
    assert player.processes() == [sleeper]
    player.stop()
    os.kill(sleeper, 9)  # a frozen process ends all the same
    freezer.await_end([sleeper])
    player.close()
    assert not player.folder.exists()


def test_a_players_group_gets_the_requested_limits(group, sleeper):
    if not group.limits_memory:
        pytest.skip("the group above hands on no limit of memory: see pullrank doctor")
    player = freezer.CgroupFreezer(group.folder, sleeper, cgroup.CgroupLimits(memory_bytes=1 << 30, processes=64))
    assert player.limits_memory
    assert (player.folder / "memory.max").read_text() == f"{1 << 30}\n"
    assert (player.folder / "memory.oom.group").read_text() == "1\n"
    assert (player.folder / "pids.max").read_text() == "64\n"
    os.kill(sleeper, 9)
    player.close()


def test_the_next_judge_removes_only_the_groups_of_killed_judges(tmp_path, monkeypatch):
    monkeypatch.setattr(stale_folders, "_YOUNG_S", 0.0)
    for name in ("pullrank-1-1", "pullrank-2-2", "pullrank-3-3", "others"):
        (tmp_path / name).mkdir()
    (tmp_path / "pullrank-1-1" / "player-5").mkdir()
    (tmp_path / "pullrank-2-2" / "player-6").mkdir()
    (tmp_path / "pullrank-2-2" / "player-6" / "in use").mkdir()
    claimed = stale_folders.claim(tmp_path / "pullrank-3-3")
    cgroup.remove_abandoned(tmp_path)
    os.close(claimed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others", "pullrank-2-2", "pullrank-3-3"]


def test_a_new_folder_is_not_abandoned_yet(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    an_hour_ago = time.time() - 3600
    os.utime(tmp_path / "old", (an_hour_ago, an_hour_ago))
    assert list(stale_folders.abandoned(tmp_path.iterdir())) == [tmp_path / "old"]


def test_a_claim_ends_with_the_process_that_holds_it(tmp_path):
    holds = f"from harness.records import stale_folders; from pathlib import Path; stale_folders.claim(Path({str(tmp_path)!r})); input()"
    with subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE) as holder:
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up:
            try:
                os.close(stale_folders.claim(tmp_path))
            except OSError:
                break
            time.sleep(0.01)
        with pytest.raises(OSError, match="temporarily unavailable"):
            stale_folders.claim(tmp_path)
        holder.kill()
    os.close(stale_folders.claim(tmp_path))
