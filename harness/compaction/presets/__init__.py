"""Presets: one module per family of policies, with the stages that only this family uses, listed in `harness.policies`."""
