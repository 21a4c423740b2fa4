"""The seccomp program (filter of system calls) that isolated sandboxes install in the kernel.

The filter applies to commands and to the tool server. It refuses system calls that share data with the rest of the machine
(keyrings), that reach into other processes, or that ordinary programs do not need and in which many security defects were found.
It also refuses other binary interfaces than the native one, because they number the same calls differently.

The program is classic BPF for the kernels of x86-64 and aarch64. It is assembled here as bytes, without a library, and sent to
the tool server, which installs it before the first command. It uses only instructions that let Linux 5.11 or later see in advance
which calls are always allowed; for such calls the kernel does not run the program.
"""

import errno
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

SECCOMP: Final = "seccomp"
"""Name under which `SandboxInfo.enforced` lists the seccomp program; the tool server installs the program if it is listed."""
MACHINES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Value of `seccomp_data.arch` for each supported machine, by the name that `uname -m` prints."""
DENIED_CALLS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "keyring": {"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    "io_uring": {"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    "bpf": {"bpf": (321, 280)},
    "userfaultfd": {"userfaultfd": (323, 282)},
    "perf": {"perf_event_open": (298, 241)},
    "kexec": {"kexec_load": (246, 104), "kexec_file_load": (320, 294)},
    "modules": {"init_module": (175, 105), "delete_module": (176, 106), "finit_module": (313, 273)},
    "mount": {
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "open_tree": (428, 428),
        "move_mount": (429, 429),
        "fsopen": (430, 430),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fspick": (433, 433),
        "mount_setattr": (442, 442),
        "open_tree_attr": (467, 467),
    },
    "ptrace": {
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "pidfd_getfd": (438, 438),
        "process_madvise": (440, 440),
        "kcmp": (312, 272),
    },
    "signals": {"pidfd_send_signal": (424, 424), "process_mrelease": (448, 448)},
}
"""System calls that the kernel refuses to processes in a sandbox, by family, with their numbers on x86-64 and aarch64."""
_FAMILY_ERRORS: Final = {"kexec": errno.EPERM, "modules": errno.EPERM}
"""Error number that the seccomp program returns instead of ENOSYS, for some families of system calls.

A kernel without these calls also returns ENOSYS, so another number shows that the program is active.
"""
SOCKET_NUMBERS: Final = (41, 198)
PRLIMIT_NUMBERS: Final = (302, 261)
SERVER_CALLS: Final[Mapping[str, tuple[int, int]]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
"""System calls with a process id as first argument, which the kernel refuses for the tool server, the process with id 1."""
PRIORITY_CALLS: Final[Mapping[str, tuple[tuple[int, int], int]]] = {
    "setpriority": ((141, 140), 2),
    "ioprio_set": ((251, 30), 3),
}
"""System calls that change the priority of processes, with the value of the first argument that selects all processes of a user.

The second argument is the id of a process, process group or user. The kernel refuses calls that would reach the tool server.
"""
SERVER_PID: Final = 1
FCNTL_NUMBERS: Final = (72, 25)
IOCTL_NUMBERS: Final = (16, 29)
F_SETOWN, F_SETOWN_EX = 8, 15
"""Commands of `fcntl` that select the process or process group that gets a signal when a file is ready, with any signal number.

`F_SETOWN_EX` and the requests of `ioctl` below pass the process by a pointer, which the filter cannot follow, so the kernel
refuses them altogether. With `F_SETOWN`, only the tool server and its process group are refused.
"""
OWNER_REQUESTS: Final = (0x8901, 0x8902)
"""Requests of `ioctl` that do the same for sockets: `FIOSETOWN` and `SIOCSPGRP`."""
KEYCTL_NUMBERS: Final = dict(zip(MACHINES, DENIED_CALLS["keyring"]["keyctl"], strict=True))
"""Number of the system call `keyctl`, by machine.

The tool server calls `keyctl` once, before any command runs, to replace its session keyring.
"""
AF_VSOCK: Final = 40
"""Number of the socket address family vsock, which reaches the host of a virtual machine despite network namespaces."""
X32_BIT: Final = 0x4000_0000
"""Bit in the number of a system call that marks a call of the binary interface x32.

The filter needs this bit because x32 and x86-64 have the same architecture number.
"""

ALLOW: Final = 0x7FFF_0000
KILL_PROCESS: Final = 0x8000_0000
RETURN_ERRNO: Final = 0x0005_0000
NUMBER_OFFSET, ARCHITECTURE_OFFSET = 0, 4
FIRST_ARGUMENT_OFFSET, SECOND_ARGUMENT_OFFSET, THIRD_ARGUMENT_OFFSET = 16, 24, 32
"""Positions in bytes of fields in `struct seccomp_data`.

For an argument, it is the position of the lower half, because both machines are little-endian.
"""
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
_Instruction = tuple[int, int, int, int]
"""Instruction of the seccomp program: operation code, two numbers of instructions to skip, and operand.

The first number of skipped instructions is for a comparison that is true, and the second for one that is false.
"""


@cache
def assemble_program() -> bytes:
    """Return the seccomp program, which filters system calls, as an array of `struct sock_filter`.

    The program is valid on every supported machine. It kills a process of another binary interface, such as a 32-bit program, at
    its first system call.
    """
    instructions: list[_Instruction] = [(LOAD, 0, 0, ARCHITECTURE_OFFSET)]
    for column, architecture in enumerate(MACHINES.values()):
        section = [*_generate_section(column)]
        instructions += [(JUMP_IF_EQUAL, 0, len(section), architecture), *section]
    instructions.append((RETURN, 0, 0, KILL_PROCESS))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def _generate_section(column: int) -> Iterator[_Instruction]:
    """Yield the instructions for one machine, given its column in the numbers of system calls."""
    refusal = RETURN_ERRNO | errno.EPERM
    yield (LOAD, 0, 0, NUMBER_OFFSET)
    yield from _return_if(JUMP_IF_AT_LEAST, X32_BIT, RETURN_ERRNO | errno.ENOSYS)
    for family, calls in DENIED_CALLS.items():
        for numbers in calls.values():
            yield from _return_if(JUMP_IF_EQUAL, numbers[column], RETURN_ERRNO | _FAMILY_ERRORS.get(family, errno.ENOSYS))
    yield (JUMP_IF_EQUAL, 0, 4, SOCKET_NUMBERS[column])
    yield (LOAD, 0, 0, FIRST_ARGUMENT_OFFSET)
    yield from _return_if(JUMP_IF_EQUAL, AF_VSOCK, RETURN_ERRNO | errno.EAFNOSUPPORT)
    yield (RETURN, 0, 0, ALLOW)
    # Not being dumpable does not protect the limits and priorities of the tool server from commands of the same user.
    for which_numbers, every_process_of_user in PRIORITY_CALLS.values():
        yield (JUMP_IF_EQUAL, 0, 7, which_numbers[column])
        yield (LOAD, 0, 0, FIRST_ARGUMENT_OFFSET)
        yield from _return_if(JUMP_IF_EQUAL, every_process_of_user, refusal)
        yield (LOAD, 0, 0, SECOND_ARGUMENT_OFFSET)
        yield from _return_if(JUMP_IF_EQUAL, SERVER_PID, refusal)
        yield (RETURN, 0, 0, ALLOW)
    for server_numbers in SERVER_CALLS.values():
        yield (JUMP_IF_EQUAL, 0, 4, server_numbers[column])
        yield (LOAD, 0, 0, FIRST_ARGUMENT_OFFSET)
        yield from _return_if(JUMP_IF_EQUAL, SERVER_PID, refusal)
        yield (RETURN, 0, 0, ALLOW)
    owner_requests = [step for request in OWNER_REQUESTS for step in _return_if(JUMP_IF_EQUAL, request, refusal)]
    yield (JUMP_IF_EQUAL, 0, len(owner_requests) + 2, IOCTL_NUMBERS[column])
    yield (LOAD, 0, 0, SECOND_ARGUMENT_OFFSET)
    yield from owner_requests
    yield (RETURN, 0, 0, ALLOW)
    yield (JUMP_IF_EQUAL, 0, 11, FCNTL_NUMBERS[column])
    yield (LOAD, 0, 0, SECOND_ARGUMENT_OFFSET)
    yield from _return_if(JUMP_IF_EQUAL, F_SETOWN_EX, refusal)
    yield (JUMP_IF_EQUAL, 1, 0, F_SETOWN)
    yield (RETURN, 0, 0, ALLOW)
    yield (LOAD, 0, 0, THIRD_ARGUMENT_OFFSET)
    for owner in (SERVER_PID, -SERVER_PID & 0xFFFF_FFFF):
        yield from _return_if(JUMP_IF_EQUAL, owner, refusal)
    yield (RETURN, 0, 0, ALLOW)
    yield (JUMP_IF_EQUAL, 0, 3, PRLIMIT_NUMBERS[column])
    yield (LOAD, 0, 0, FIRST_ARGUMENT_OFFSET)
    yield (JUMP_IF_EQUAL, 1, 0, 0)
    yield (RETURN, 0, 0, refusal)
    yield (RETURN, 0, 0, ALLOW)


def _return_if(comparison: int, operand: int, action: int) -> Iterator[_Instruction]:
    """Yield instructions that end the program with `action` if the loaded value compares true with `operand`."""
    yield (comparison, 0, 1, operand)
    yield (RETURN, 0, 0, action)
