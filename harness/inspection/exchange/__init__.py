"""Export of sessions in formats of other programs: ATIF, logs of Inspect, traces of token counts, and OpenTelemetry spans."""
