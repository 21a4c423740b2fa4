"""Command `make peers`, which creates the environments of all original programs, and that of the gateway's proxy."""

from harness.gateway.environment import install
from tests.peers.environments import ENVIRONMENTS

for environment in ENVIRONMENTS.values():
    environment.make()
    print(f"{environment.name}: {environment.path}")
print(f"gateway: {install()}")
