"""Where sessions and trials are kept: a SQLite journal that is written step by step, and tables that are read from it.

`journal` is the door for who runs sessions, `results` for who reads them. SQLite writes, Parquet and DuckDB read.
"""
