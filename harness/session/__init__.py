"""Sessions of an agent: configuration, assembly, live sessions, history, sub-agents, grading and totals."""
