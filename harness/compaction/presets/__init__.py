"""The compaction policies, one family a file with the stages that only it uses; `harness.policies` lists them all."""
