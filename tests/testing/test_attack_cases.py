"""The judge of attacks: what counts as contained, seen on sandboxes without isolation and on attacks that succeed."""

import tempfile
import uuid
from pathlib import Path

import pytest

from harness.protocols import SandboxLimits
from harness.sandboxes import open_sandbox
from harness.testing.attack_cases import ATTACKS, Attack, generate_verdicts


def judge(attack, limits=None):
    """Return what an attack on the sandbox `local`, which isolates nothing, has reached."""
    [verdict] = generate_verdicts([attack], lambda: open_sandbox("local", session_id="x", unsafe_local=True, limits=limits))
    return verdict.escapes


def test_the_attacks_are_many_and_each_has_a_name_of_its_own():
    assert len(ATTACKS) >= 90
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_scripts_are_python(attack):
    compile(attack.script, attack.name, "exec")
    compile(attack.look, attack.name, "exec")


def test_a_script_that_reaches_nothing_is_contained():
    assert judge(Attack(name="nothing", family="kernel", script="print(MARK)")) == ()


def test_a_report_of_an_attack_script_counts_as_an_escape():
    assert judge(Attack(name="report", family="kernel", script='escaped("the moon", 1)')) == ("the moon 1",)


def test_a_script_that_is_broken_is_no_contained_attack():
    [escape] = judge(Attack(name="broken", family="kernel", script="undefined"))
    assert escape.startswith("the attack is broken")


def test_a_file_visible_in_a_second_sandbox_counts_as_an_escape():
    plant = f'write("{tempfile.gettempdir()}/" + MARK, "x")'
    look = f'path = "{tempfile.gettempdir()}/" + MARK\nos.path.exists(path) and escaped("a file"); os.unlink(path)'
    assert judge(Attack(name="plant", family="neighbour", script=plant, look=look)) == ("a file",)


def test_a_file_left_on_the_machine_is_an_escape():
    name = f"file {uuid.uuid4()}"
    [escape] = judge(Attack(name=name, family="machine", script='write("/tmp/" + MARK, "x")'))
    path = Path(escape.split()[2])
    assert escape == f"the file {path} exists on this machine"
    path.unlink()


def test_a_file_reached_by_the_file_tools_counts_as_an_escape():
    attack = Attack(name="tools", family="tools", script='write("f", "x")', use_tools=lambda sandbox: sandbox.read("f").decode())
    assert judge(attack) == ("x",)


KILL_SERVER = 'parent = int(read("/proc/%d/stat" % os.getppid()).split()[3]); os.kill(parent, 9); time.sleep(1)'


def test_a_sandbox_that_an_attack_ended_has_contained_it_if_that_is_known():
    assert judge(Attack(name="kill", family="server", script=KILL_SERVER)) == ()
    [escape] = judge(Attack(name="kill", family="server", script=KILL_SERVER), SandboxLimits(network=True))
    assert escape.startswith("the sandbox was lost")
