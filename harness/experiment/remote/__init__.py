"""Trials in workers that this project has not started: any `concurrent.futures.Executor`, and clusters of Dask.

Such a worker may be a thread, a daemonic process or a process on another machine, in which a trial could neither be killed nor
receive signals. Therefore each worker starts one long-lived child process, in whose main thread the trials run. No shared disk is
needed: the journal of a trial is returned with its result.
"""
