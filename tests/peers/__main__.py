"""`make peers`: the environments of all originals."""

from tests.peers.environments import ENVIRONMENTS

for environment in ENVIRONMENTS.values():
    environment.make()
    print(f"{environment.name}: {environment.path}")
