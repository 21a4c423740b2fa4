"""Where the rooms meet: a plan becomes a grid of trials, a runner runs them in worker processes, each trial becomes records."""
