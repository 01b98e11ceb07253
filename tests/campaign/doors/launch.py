"""``parley`` with other limits than its own: ``launch.py LIMITS ARGUMENTS…``, the limits as JSON.

Smaller ones let an attack reach them sooner. A careless server has none: it measures no head, believes one of two
repeated headers, closes nobody, and has few descriptors to lose.
"""

import json
import resource
import runpy
import sys

from parley.serve import http, server, shell, tls


def main() -> None:
    limits = json.loads(sys.argv.pop(1))
    http.HttpConnection.silence_seconds = limits["silence_seconds"]
    tls.HANDSHAKE_SECONDS = tls.FAREWELL_SECONDS = limits["silence_seconds"]  # pyright: ignore
    most = sys.maxsize if limits["careless"] else limits["connections_max"]
    server._open_files = lambda connections: most  # pyright: ignore
    if limits["careless"]:
        http.LINGER_SECONDS = limits["silence_seconds"]  # pyright: ignore
        http.HEAD_BYTES_MAX = http.HEADERS_MAX = sys.maxsize  # pyright: ignore
        shell._refuse_repeated = lambda headers: None  # pyright: ignore
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits["descriptors"], limits["descriptors"]))
    runpy.run_module("parley", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
