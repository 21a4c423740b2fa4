"""Program that serves one local model in a process of its own, until its standard input is closed.

The separate process protects sessions from faults of the native code. The program imports nothing of this package. It reads its
configuration from the first line of standard input, and writes the address of the server to the first line of standard output.
When the parent process ends, the kernel closes standard input, and this process ends too.
"""

import json
import os
import sys


def main() -> None:
    """Serve the configured local model over HTTP until standard input is closed."""
    import xllamacpp  # noqa: PLC0415  (optional, and only this process has it)

    configuration = json.loads(sys.stdin.readline())
    params = xllamacpp.CommonParams()
    params.model.path = configuration["path"]
    params.model_alias = {configuration["alias"]}
    params.api_keys = [configuration["key"]]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = configuration["window_tokens"] * configuration["slots"]
    params.use_jinja = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = configuration["threads"]
    # By default one request at a time, and no cached prompt: otherwise equal prompts may get different answers.
    params.n_parallel = configuration["slots"]
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
    os._exit(0)  # the native threads have no state to save


if __name__ == "__main__":
    main()
