"""The system calls that a player may not make, as a BPF program for seccomp.

This is a denylist: kernels in Triton, JAX or C++ need most of Linux, and the namespaces and empty capabilities already
block everything that needs privilege.  The filter refuses calls that reach beyond the player, observe the judge, or
resume the player after the referee has stopped it:

    other processes     ptrace, process_vm_*, pidfd_*, kcmp, perf, bpf, keys
    namespaces          unshare, setns, mount and its newer forms, clone(CLONE_NEW*), clone3 (its flags are invisible)
    System V IPC        msgget, semget, shmget: their objects would outlive the player's processes
    core dumps          RLIMIT_CORE: at 0, a crash would start the host's core pattern, as root
    the network         any socket but AF_UNIX; the ranks of a multi-GPU task also get AF_INET, on a private network
    late or lazy work   io_uring, Linux AIO, userfaultfd, memfd_secret
    self-resumption     sending SIGCONT, also by PDEATHSIG; and timer_create, mq_notify, F_SETSIG, F_SETOWN, clone with
                        another exit signal: each of these can make the kernel send it to a stopped process
    the referee's core  sched_setaffinity returns 0 and does nothing, so that libraries that pin threads still load
    a larger share      setsid returns 0 and does nothing: Linux gives each session an equal share of a busy core
    marks for others    fadvise returns 0 and does nothing, MADV_COLLAPSE and F_SET_RW_HINT are refused: later players
                        would see the change in the host's page cache, in sealed files, or in the host's inodes
    one node's memory   mbind, set_mempolicy and set_mempolicy_home_node return 0 and do nothing: a node may run out of
                        memory although the machine has enough
    a slow end          sync and syncfs return 0 and do nothing: they wait for the host's disk and cannot be killed.
                        Locks of open file descriptions, and processes that share descriptors as threads do: the kernel
                        walks a file's locks each time that it closes the file. A few children can make it close a file
                        a million times, and a shared lock ends only with the last process that shares it

Refused calls fail with EPERM, clone3 with ENOSYS, and sockets with EAFNOSUPPORT, so honest code that only probes for a
feature continues.
Source of the format: linux/filter.h, linux/seccomp.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_LOAD, _JUMP_EQ, _JUMP_SET, _JUMP_GE, _AND, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH, _ARG0, _ARG1, _ARG2, _HIGH = 0, 4, 16, 24, 32, 4
"""Offsets into struct seccomp_data; for arguments, the low word on little-endian machines, and from it the high one."""
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_REFUSED = {  # name: (x86_64, aarch64); None if the architecture never had the call
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272), "cachestat": (451, 451), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "perf_event_open": (298, 241), "bpf": (321, 280), "seccomp": (317, 277),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "io_submit": (209, 2), "userfaultfd": (323, 282), "memfd_secret": (447, 447),
    "timer_create": (222, 107), "mq_open": (240, 180), "mq_notify": (244, 184), "fanotify_init": (300, 262),
    "sched_setscheduler": (144, 119), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "personality": (135, 92), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "quotactl": (179, 60), "syslog": (103, 116),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "vhangup": (153, 58), "msgget": (68, 186), "semget": (64, 190), "shmget": (29, 194),
}  # fmt: skip
_IGNORED = {  # as above: they return 0 and do nothing
    "sched_setaffinity": (203, 122), "setsid": (112, 157), "sync": (162, 81), "syncfs": (306, 267),
    "fadvise64": (221, 223), "mbind": (237, 235), "set_mempolicy": (238, 237), "set_mempolicy_home_node": (450, 450),
}  # fmt: skip
_CLONE, _CLONE3, _PRCTL, _FCNTL = (56, 220), (435, 435), (157, 167), (72, 25)
_KILL, _TKILL, _TGKILL = (62, 129), (200, 130), (234, 131)
_RT_SIGQUEUEINFO, _RT_TGSIGQUEUEINFO = (129, 138), (297, 240)
_SIGCONT = 18
_SOCKET, _SOCKETPAIR, _AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = (41, 198), (53, 199), 1, 2, 10, 16
_IOCTL, _MADVISE, _MADV_COLLAPSE = (16, 29), (28, 233), 25
_SETRLIMIT, _PRLIMIT, _RLIMIT_CORE = (160, 164), (302, 261), 4

_CLONE_NEW_ANY = 0x7E020000 | 0x80  # user, pid, net, ipc, uts, cgroup, mount, time
_CLONE_FILES, _CLONE_THREAD = 0x400, 0x10000
_EXIT_SIGNALS = (0, 17)  # none (a thread), SIGCHLD
_SET_PDEATHSIG = 1
_PRCTL_REFUSED = (4, 22, 62)  # SET_DUMPABLE, SET_SECCOMP, SCHED_CORE
_FCNTL_REFUSED = (8, 10, 15, 37, 38, 1024, 1026, 1036, 1038)
"""SETOWN, SETSIG, SETOWN_EX, OFD_SETLK, OFD_SETLKW, SETLEASE, NOTIFY, SET_RW_HINT, SET_FILE_RW_HINT."""
_IOCTL_REFUSED = (0x5412, 0x540E, 0x8901, 0x8902)  # TIOCSTI, TIOCSCTTY, FIOSETOWN, SIOCSPGRP


def supported() -> bool:
    """Whether this module knows the system call numbers of this processor."""
    return platform.machine() in _AUDIT_ARCH


def program(*, has_loopback: bool = False) -> bytes:
    """The filter as an array of `struct sock_filter`, 8 bytes each.

    `has_loopback` allows the sockets that gloo and NCCL need to connect their ranks; nothing else is on that network.
    """
    column = list(_AUDIT_ARCH).index(platform.machine())
    eperm, enosys = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS

    code = [(_LOAD, 0, 0, _ARCH), (_JUMP_EQ, 1, 0, _AUDIT_ARCH[platform.machine()]), (_RETURN, 0, 0, _KILL_PROCESS)]
    code += [(_LOAD, 0, 0, _NR)]
    # x32 calls have their own numbers and would bypass the list below.
    code += [(_JUMP_GE, 0, 1, 0x40000000), (_RETURN, 0, 0, enosys)]
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            code += _when_equal(number, eperm)
    code += _when_equal(_CLONE3[column], enosys)  # glibc then falls back to clone, whose flags the filter sees
    for ignored in _IGNORED.values():
        code += _when_equal(ignored[column], _ERRNO)
    code += _with_argument(_MADVISE[column], _ARG2, _refuse_values((_MADV_COLLAPSE,), eperm))
    families = (_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK) if has_loopback else (_AF_UNIX,)
    # No network at all: vsock reaches the host through every namespace, a port remembers its last owner, and a
    # lingering socket, sent to the referee, would block it.
    for call, allowed in ((_SOCKET, families), (_SOCKETPAIR, (_AF_UNIX,))):
        code += _with_argument(call[column], _ARG0, _allow_only(allowed, _ERRNO | errno.EAFNOSUPPORT))
    code += _with_argument(_CLONE[column], _ARG0, _clone_checks(eperm))
    # Only SIGCONT: torch's own multiprocessing sets it to SIGINT.
    at_parents_death = _with_argument(_SET_PDEATHSIG, _ARG1, _refuse_values((_SIGCONT,), eperm))
    code += _with_argument(_PRCTL[column], _ARG0, [*at_parents_death, *_refuse_values(_PRCTL_REFUSED, eperm)])
    code += _with_argument(_FCNTL[column], _ARG1, _refuse_values(_FCNTL_REFUSED, eperm))
    code += _with_argument(_IOCTL[column], _ARG1, _refuse_values(_IOCTL_REFUSED, eperm))
    for call, signal in (
        (_KILL, _ARG1), (_TKILL, _ARG1), (_TGKILL, _ARG2), (_RT_SIGQUEUEINFO, _ARG1), (_RT_TGSIGQUEUEINFO, _ARG2)
    ):  # fmt: skip
        code += _with_argument(call[column], signal, _refuse_values((_SIGCONT,), eperm))
    code += _with_argument(_SETRLIMIT[column], _ARG0, _refuse_values((_RLIMIT_CORE,), eperm))
    code += _with_argument(_PRLIMIT[column], _ARG1, _core_limit_checks(eperm))
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


_Instruction = tuple[int, int, int, int]


def _when_equal(value: int, action: int) -> list[_Instruction]:
    return [(_JUMP_EQ, 0, 1, value), (_RETURN, 0, 0, action)]


def _with_argument(number: int, offset: int, checks: list[_Instruction]) -> list[_Instruction]:
    body = [(_LOAD, 0, 0, offset), *checks, (_RETURN, 0, 0, _ALLOW)]
    return [(_JUMP_EQ, 0, len(body), number), *body]


def _refuse_values(values: tuple[int, ...], action: int) -> list[_Instruction]:
    return [instruction for value in values for instruction in _when_equal(value, action)]


def _allow_only(values: tuple[int, ...], action: int) -> list[_Instruction]:
    return [*(instruction for value in values for instruction in _when_equal(value, _ALLOW)), (_RETURN, 0, 0, action)]


def _clone_checks(action: int) -> list[_Instruction]:
    # The low byte of the flags is the exit signal, except for 0x80, the bit of CLONE_NEWTIME (in clone3 only).
    new_namespace = [(_JUMP_SET, 0, 1, _CLONE_NEW_ANY), (_RETURN, 0, 0, action)]
    allowed = [instruction for signal in _EXIT_SIGNALS for instruction in _when_equal(signal, _ALLOW)]
    shared = [(_JUMP_SET, 0, 2, _CLONE_FILES), (_JUMP_SET, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, action)]
    return [*new_namespace, *shared, (_AND, 0, 0, 0xFF), *allowed, (_RETURN, 0, 0, action)]


def _core_limit_checks(action: int) -> list[_Instruction]:
    # glibc reads limits by prlimit, too: with a null pointer to the new one.
    refuse = (_RETURN, 0, 0, action)
    pointer = [
        (_LOAD, 0, 0, _ARG2),
        (_JUMP_EQ, 1, 0, 0),
        refuse,
        (_LOAD, 0, 0, _ARG2 + _HIGH),
        (_JUMP_EQ, 1, 0, 0),
        refuse,
    ]
    return [(_JUMP_EQ, 0, len(pointer), _RLIMIT_CORE), *pointer]


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(*, has_loopback: bool = False) -> None:
    """Install the filter for this process and all its descendants, permanently.  Needs no_new_privs.

    Raises:
        OSError: the kernel refused the filter.
    """
    code = program(has_loopback=has_loopback)
    libc = ctypes.CDLL(None, use_errno=True)
    loaded = _FilterProgram(len(code) // 8, code)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(loaded), 0, 0):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
