"""Script that runs the small grid on a cluster: `python -m tests.experiment.remote.run_on_cluster ADDRESS FOLDER`."""

import sys

from distributed import Client

from tests.experiment.run_grid import SMALL

if __name__ == "__main__":
    with Client(sys.argv[1], set_as_default=False) as client:
        SMALL.run(sys.argv[2], progress="plain", executor=client)
    print("whole")
