"""Storage of sessions and trials in a SQLite file (the journal) that is written step by step, and tables of results from it.

Code that runs sessions uses `journal`; code that analyzes results uses `results`. Data is written to SQLite and read through
Parquet and DuckDB.
"""
