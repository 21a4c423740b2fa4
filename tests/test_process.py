import subprocess
import sys

PARENT = """
import multiprocessing, sys, time
import pebble
from harness.process import end_with_parent

def work():
    print("working", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    pebble.ProcessPool(1, initializer=end_with_parent, context=spawn).schedule(work).result()
"""


def test_a_process_of_a_pool_ends_with_its_parent_even_if_the_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "working\n"
        parent.kill()
        parent.communicate(timeout=120)  # returns when all processes have closed the pipes
