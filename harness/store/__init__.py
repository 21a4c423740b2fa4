"""Storage of sessions and trials in a SQLite file (the journal) that is written step by step, and tables of results from it.

Use `journal` to run sessions and `results` to analyze results. Data is written to SQLite and read through Parquet and DuckDB.
"""
