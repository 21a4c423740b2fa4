"""The program of a process that serves one local model until its standard input ends.

It runs apart from everything else, so that a fault of the native code costs no session, and it imports nothing of the
harness. The first line of its input is the configuration, the first line of its output the address. It ends when its parent
closes the pipe or dies, for then the kernel closes it.
"""

import json
import os
import sys


def main() -> None:
    """Serve."""
    import xllamacpp  # noqa: PLC0415  (optional, and only this process has it)

    configuration = json.loads(sys.stdin.readline())
    params = xllamacpp.CommonParams()
    params.model.path = configuration["path"]
    params.model_alias = {configuration["alias"]}
    params.api_keys = [configuration["key"]]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = configuration["window_tokens"]
    params.use_jinja = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = configuration["threads"]
    # one request at a time and nothing kept of the former one: otherwise the same prompt may get another answer
    params.n_parallel = 1
    params.cache_prompt = False
    params.cache_idle_slots = False
    params.cache_ram_mib = 0
    params.ctx_shift = False
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(json.dumps({"address": server.listening_address}), flush=True)  # noqa: T201  (this is what the parent waits for)
    sys.stdin.read()
    os._exit(0)  # the native threads have nothing to save


if __name__ == "__main__":
    main()
