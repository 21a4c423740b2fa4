"""Check of a worker's machine: it must have the same version of the code as the machine of the run, and working sandboxes."""

import pickle
from dataclasses import dataclass

from harness.errors import HarnessError, UsageError
from harness.experiment.job import Provenance, collect_provenance
from harness.experiment.preflight import SandboxNeed
from harness.experiment.remote.host import name_machine
from harness.sandboxes import choose_backend

CHECK_SECONDS = 300.0
"""Maximum duration of the check of one machine in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """Result of checking whether the machine of a worker can run trials, and with which sandboxes."""

    machine: str
    """Name of the machine, with the id of the worker's process."""
    refusal: str = ""
    """Reason why the machine gets no trials; empty if it can run all trials."""
    backends: tuple[str, ...] = ()
    """Sandbox backend that the machine chose for each requirement of the trials."""


def pack_machine_check(needs: tuple[SandboxNeed, ...], provenance: Provenance, *, unsafe_local: bool) -> bytes:
    """Return the pickled call that runs `check_machine` on the machine of a worker.

    Args:
        needs: Requirements of the trials for their sandboxes; the backend `auto` lets the machine choose.
        provenance: Code version of the run.
        unsafe_local: Permission to run trials in the sandbox `local`.
    """
    return pickle.dumps((check_machine, (needs, provenance, unsafe_local)))


def check_machine(needs: tuple[SandboxNeed, ...], provenance: Provenance, unsafe_local: bool) -> MachineReport:
    """Return whether this machine can run the trials of a run, and with which sandbox backends.

    Raises:
        UsageError: A trial asks for the sandbox `local` without permission.
    """
    machine = name_machine()
    difference = _find_difference(provenance, collect_provenance(provenance.price_table))
    if difference:
        return MachineReport(machine=machine, refusal=difference)
    try:
        backends = tuple([choose_backend(*need, unsafe_local=unsafe_local) for need in needs])
    except UsageError:
        raise
    except HarnessError as error:
        return MachineReport(machine=machine, refusal=str(error))
    return MachineReport(machine=machine, backends=backends)


def _find_difference(ours: Provenance, theirs: Provenance) -> str:
    """Return how the code of a machine differs from the code of the run; empty if it does not.

    Trials record only one code version, so all machines must have the same version.
    """
    packages, their_packages = dict(ours.packages), dict(theirs.packages)
    pairs = {
        "Python": (ours.python, theirs.python),
        **{name: (packages.get(name), their_packages.get(name)) for name in sorted({*packages, *their_packages})},
        "commit": (ours.git_commit, theirs.git_commit if ours.git_commit else None),
    }
    for name, (our_version, their_version) in pairs.items():
        if our_version != their_version and (name != "commit" or their_version):
            return f"it has {name} {their_version}, and this machine has {our_version}; install the same versions"
    return ""
