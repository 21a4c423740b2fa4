"""Running of trials in workers that this package has not started: any `concurrent.futures.Executor`, or a Dask cluster.

Such a worker may be a thread, a daemonic process or a process on another machine. A trial inside such a worker could neither be
killed nor receive signals. Each worker therefore starts one long-lived child process, whose main thread runs the trials. No
shared disk is needed, because the journal of a trial is returned with its result.
"""
