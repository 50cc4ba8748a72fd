"""The system calls that the sandbox allows, as a filter for the Linux kernel (seccomp, classic BPF).

A solution reads, computes and writes; it needs threads at most. Whatever it has no use for does not exist, so nobody
has to think of each way out: no new processes (no fork bomb; a limit on one process limits the program), no sockets
(some kinds, such as AF_VSOCK, are outside every network namespace, and their queues are the kernel's memory), no memory
outside the address space (memfd, System V, splice), no locks, timers, watches or rules that the kernel keeps for it.

    build_seccomp_filter("x86_64")  ->  bytes for `bwrap --seccomp`; os.fork() then raises PermissionError
"""

from __future__ import annotations

import struct
from functools import cache

# Instructions and return values: the kernel's numbers, the same on every machine.
BPF_LOAD, BPF_JUMP_EQUAL, BPF_JUMP_ANY_BIT, BPF_RETURN = 0x20, 0x15, 0x45, 0x06
SYSCALL_NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET, ARGUMENT_BYTES = 0, 4, 16, 8  # in struct seccomp_data
ACTION_KILL, ACTION_ALLOW = 0x80000000, 0x7FFF0000
# libc has another way for a call that does not exist (ENOSYS), but not for one that is forbidden (EPERM).
ACTION_EPERM, ACTION_ENOSYS = 0x00050001, 0x00050026
CLONE_THREAD = 0x10000

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None if the machine has no such call.
ALLOWED_SYSCALLS: dict[str, tuple[int | None, int | None]] = {
    # files, which are all read-only, and pipes
    **{"read": (0, 63), "write": (1, 64), "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65)},
    **{"writev": (20, 66), "open": (2, None), "openat": (257, 56), "close": (3, 57), "close_range": (436, 436)},
    **{"lseek": (8, 62), "stat": (4, None), "fstat": (5, 80), "lstat": (6, None), "newfstatat": (262, 79)},
    **{"statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439)},
    **{"readlink": (89, None), "readlinkat": (267, 78), "getdents": (78, None), "getdents64": (217, 61)},
    **{"getcwd": (79, 17), "chdir": (80, 49), "statfs": (137, 43), "fstatfs": (138, 44), "umask": (95, 166)},
    **{"dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59)},
    # memory
    **{"mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "madvise": (28, 233)},
    **{"mincore": (27, 232), "msync": (26, 227), "brk": (12, 214)},
    # waiting
    **{"poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72)},
    **{"epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21)},
    **{"epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19), "nanosleep": (35, 101)},
    **{"clock_nanosleep": (230, 115), "pause": (34, None), "alarm": (37, None), "getitimer": (36, 102)},
    **{"setitimer": (38, 103), "restart_syscall": (219, 128), "sched_yield": (24, 124)},
    # asyncio's event loop, which wakes itself through a pair of sockets
    **{"sendto": (44, 206), "recvfrom": (45, 207), "getsockname": (51, 204), "getpeername": (52, 205)},
    **{"getsockopt": (55, 209), "shutdown": (48, 210)},
    # time
    **{"clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None)},
    **{"times": (100, 153)},
    # signals
    **{"rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139)},
    **{"rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133)},
    **{"sigaltstack": (131, 132), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131)},
    # threads
    **{"futex": (202, 98), "set_robust_list": (273, 99), "get_robust_list": (274, 100)},
    **{"set_tid_address": (218, 96), "rseq": (334, 293), "membarrier": (324, 283), "gettid": (186, 178)},
    **{"arch_prctl": (158, None), "exit": (60, 93)},
    # the process
    **{"execve": (59, 221), "exit_group": (231, 94), "wait4": (61, 260), "waitid": (247, 95)},
    **{"getpid": (39, 172), "getppid": (110, 173), "getpgid": (121, 155), "getpgrp": (111, None)},
    **{"getsid": (124, 156), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176)},
    **{"getegid": (108, 177), "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158)},
    **{"setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159)},
    # limits, which can only be lowered, and figures about the machine
    **{"getrlimit": (97, 163), "setrlimit": (160, 164), "prlimit64": (302, 261), "getrusage": (98, 165)},
    **{"getpriority": (140, 141), "sched_getaffinity": (204, 123), "getcpu": (309, 168), "uname": (63, 160)},
    **{"sysinfo": (99, 179), "getrandom": (318, 278)},
}
# `clone` may start threads. The flags of clone3 are behind a pointer, which no filter can follow; without it, libc uses
# clone.
CLONE_SYSCALL = (56, 220)
# name: (numbers, position of an argument, the values that it may have)
ALLOWED_BY_ARGUMENT: dict[str, tuple[tuple[int, int], int, tuple[int, ...]]] = {
    "socketpair": ((53, 199), 0, (1,)),  # AF_UNIX
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ: locks and leases are not among them
    "fcntl": ((72, 25), 1, (0, 1, 2, 3, 4, 1030, 1032)),
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
    "ioctl": ((16, 29), 1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    "prctl": ((157, 167), 0, (1, 15, 16)),  # PR_SET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME
}

_Step = tuple[int, int, int, int]


@cache
def build_seccomp_filter(machine: str) -> bytes:
    """Build the filter for a machine of ARCHITECTURES."""
    column = list(ARCHITECTURES).index(machine)
    # A 32-bit program would have other numbers for the same calls, so any other architecture is killed.
    steps = [(BPF_LOAD, 0, 0, ARCHITECTURE_OFFSET)]
    steps += _test_and_return(BPF_JUMP_EQUAL, ARCHITECTURES[machine], otherwise=ACTION_KILL)
    steps.append((BPF_LOAD, 0, 0, SYSCALL_NUMBER_OFFSET))
    for numbers in ALLOWED_SYSCALLS.values():
        if (number := numbers[column]) is not None:
            steps += _test_and_return(BPF_JUMP_EQUAL, number, then=ACTION_ALLOW)
    threads = _test_and_return(BPF_JUMP_ANY_BIT, CLONE_THREAD, then=ACTION_ALLOW)
    steps += _test_argument(CLONE_SYSCALL[column], 0, threads)
    for numbers, position, values in ALLOWED_BY_ARGUMENT.values():
        tests = [step for value in values for step in _test_and_return(BPF_JUMP_EQUAL, value, then=ACTION_ALLOW)]
        steps += _test_argument(numbers[column], position, tests)
    steps.append((BPF_RETURN, 0, 0, ACTION_ENOSYS))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _test_argument(number: int, position: int, tests: list[_Step]) -> list[_Step]:
    """Test the lower 32 bits of an argument (all of these are ints). The call is forbidden if no test holds."""
    # Both machines have the lower bits first. Another call jumps over these steps: the tests need its number.
    load = (BPF_LOAD, 0, 0, ARGUMENTS_OFFSET + ARGUMENT_BYTES * position)
    steps = [load, *tests, (BPF_RETURN, 0, 0, ACTION_EPERM)]
    return [(BPF_JUMP_EQUAL, 0, len(steps), number), *steps]


def _test_and_return(test: int, value: int, *, then: int = 0, otherwise: int = 0) -> list[_Step]:
    """Return `then` if the test holds, or `otherwise` if it does not; in the other case continue."""
    skip = (0, 1) if then else (1, 0)
    return [(test, *skip, value), (BPF_RETURN, 0, 0, then or otherwise)]
