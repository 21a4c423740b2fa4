"""The tests: a folder for each room, and beside them contracts, house, laws, notebooks, bench and golden."""
