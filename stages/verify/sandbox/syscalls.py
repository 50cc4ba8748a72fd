"""The system calls that a program in the sandbox is refused, as the filter that Linux takes (seccomp, classic BPF).

A solution computes: it needs threads at most. Without new processes a fork bomb has nothing to fork, and what one
process may use is what all of them may. Without memory that no address space accounts for (memfd, System V), its
limit is the limit. Without namespaces and mounts there is no second, larger /tmp.

    filter_for("x86_64")    ->  bytes for `bwrap --seccomp`; os.fork() then raises PermissionError
"""

from __future__ import annotations

import struct

# What is loaded, compared and returned: the kernel's numbers, the same on every machine.
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
KILL, ALLOW = 0x80000000, 0x7FFF0000
NOT_PERMITTED, NOT_THERE = 0x00050001, 0x00050026  # EPERM, ENOSYS
CLONE_THREAD = 0x10000
X32 = 0x40000000  # x86_64 has a second set of numbers from here on, which would pass by the list

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
# Its flags are behind a pointer, where no filter can look; told that there is no such call, libc uses clone.
CLONE3 = 435

# name: (x86_64, aarch64); None where there is no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # memory outside the address space
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    # doors into the kernel that no solution uses, and through which others have come
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "personality": (135, 92),
    "fanotify_init": (300, 262),
}


def filter_for(machine: str) -> bytes:
    """The filter for a machine of ARCHITECTURES."""
    column = list(ARCHITECTURES).index(machine)
    refused = [number for numbers in REFUSED.values() if (number := numbers[column]) is not None]
    steps = [(LOAD, 0, 0, ARCHITECTURE), *_when(EQUAL, ARCHITECTURES[machine], otherwise=KILL)]
    steps.append((LOAD, 0, 0, NUMBER))
    if machine == "x86_64":
        steps += _when(AT_LEAST, X32, then=KILL)
    for number in refused:
        steps += _when(EQUAL, number, then=NOT_PERMITTED)
    steps += _when(EQUAL, CLONE3, then=NOT_THERE)
    steps += [(EQUAL, 0, 3, CLONE[machine]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    steps += _when(ANY_BIT, CLONE_THREAD, otherwise=NOT_PERMITTED)
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _when(test: int, value: int, *, then: int = 0, otherwise: int = 0) -> list[tuple[int, int, int, int]]:
    """Return `then` where the test holds, or `otherwise` where it does not; in the other case go on."""
    skip = (0, 1) if then else (1, 0)
    return [(test, *skip, value), (RETURN, 0, 0, then or otherwise)]
