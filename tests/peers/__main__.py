"""Command `make peers`, which creates the environments of all original programs."""

from tests.peers.environments import ENVIRONMENTS

for environment in ENVIRONMENTS.values():
    environment.make()
    print(f"{environment.name}: {environment.path}")
