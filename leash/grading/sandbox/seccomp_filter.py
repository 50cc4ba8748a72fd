"""The system calls that the sandbox refuses, as a filter for the Linux kernel (seccomp, classic BPF).

A solution computes; it needs threads at most. Without new processes there is no fork bomb, and a limit on one process
limits the program. Without memory outside the address space (memfd, System V), the memory limit holds. Without
namespaces and mounts, /tmp cannot grow.

    build_seccomp_filter("x86_64")  ->  bytes for `bwrap --seccomp`; os.fork() then raises PermissionError
"""

from __future__ import annotations

import struct

# Instructions and return values: the kernel's numbers, the same on every machine.
BPF_LOAD, BPF_JUMP_EQUAL, BPF_JUMP_AT_LEAST, BPF_JUMP_ANY_BIT, BPF_RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
SYSCALL_NUMBER_OFFSET, ARCHITECTURE_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 4, 16  # in struct seccomp_data
ACTION_KILL, ACTION_ALLOW = 0x80000000, 0x7FFF0000
ACTION_EPERM, ACTION_ENOSYS = 0x00050001, 0x00050026
CLONE_THREAD = 0x10000
X32_SYSCALL_BIT = 0x40000000  # x86_64 has a second set of numbers from here on, which the list does not cover

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_SYSCALL = {"x86_64": 56, "aarch64": 220}
# The flags of clone3 are behind a pointer, which no filter can follow. If the call does not exist, libc uses clone.
CLONE3_SYSCALL = 435

# name: (x86_64, aarch64); None if the machine has no such call.
BLOCKED_SYSCALLS: dict[str, tuple[int | None, int | None]] = {
    # other processes
    **{"fork": (57, None), "vfork": (58, None), "ptrace": (101, 117), "process_vm_readv": (310, 270)},
    **{"process_vm_writev": (311, 271), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "kcmp": (312, 272)},
    # memory outside the address space
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "semget": (64, 190)},
    **{"msgget": (68, 186), "mq_open": (240, 180)},
    # namespaces and mounts
    **{"unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41)},
    **{"chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430)},
    **{"fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442)},
    **{"open_by_handle_at": (304, 265)},
    # kernel interfaces that no solution uses and that have had exploits
    **{"bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425)},
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "personality": (135, 92)},
    **{"fanotify_init": (300, 262)},
}


def build_seccomp_filter(machine: str) -> bytes:
    """Build the filter for a machine of ARCHITECTURES."""
    column = list(ARCHITECTURES).index(machine)
    blocked = [number for numbers in BLOCKED_SYSCALLS.values() if (number := numbers[column]) is not None]
    # A 32-bit program would have other numbers for the same calls, so any other architecture is killed.
    steps = [(BPF_LOAD, 0, 0, ARCHITECTURE_OFFSET)]
    steps += _test_and_return(BPF_JUMP_EQUAL, ARCHITECTURES[machine], otherwise=ACTION_KILL)
    steps.append((BPF_LOAD, 0, 0, SYSCALL_NUMBER_OFFSET))
    if machine == "x86_64":
        steps += _test_and_return(BPF_JUMP_AT_LEAST, X32_SYSCALL_BIT, then=ACTION_KILL)
    for number in blocked:
        steps += _test_and_return(BPF_JUMP_EQUAL, number, then=ACTION_EPERM)
    steps += _test_and_return(BPF_JUMP_EQUAL, CLONE3_SYSCALL, then=ACTION_ENOSYS)
    # clone may start threads, but no processes: another call jumps over the three instructions that check its flags.
    steps += [(BPF_JUMP_EQUAL, 0, 3, CLONE_SYSCALL[machine]), (BPF_LOAD, 0, 0, FIRST_ARGUMENT_OFFSET)]
    steps += _test_and_return(BPF_JUMP_ANY_BIT, CLONE_THREAD, otherwise=ACTION_EPERM)
    steps.append((BPF_RETURN, 0, 0, ACTION_ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _test_and_return(test: int, value: int, *, then: int = 0, otherwise: int = 0) -> list[tuple[int, int, int, int]]:
    """Return `then` if the test holds, or `otherwise` if it does not; in the other case continue."""
    skip = (0, 1) if then else (1, 0)
    return [(test, *skip, value), (BPF_RETURN, 0, 0, then or otherwise)]
