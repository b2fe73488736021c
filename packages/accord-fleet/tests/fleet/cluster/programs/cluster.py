"""A Ray cluster of several nodes on this machine, until stdin ends.

Writes its address and that of its server for `ray://`. Commands on stdin, each answered by a line:
`add` adds a node, `kill` kills the oldest node that was added, `gcs` kills the server of the head,
and `head` kills everything of the head.
"""

import os
import sys
from importlib import import_module
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# The server for `ray://` starts processes from threads, and gRPC's handlers of forks crash there.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# A machine that is busy starts Ray's processes slowly.
os.environ["RAY_agent_register_timeout_ms"] = "120000"  # noqa: SIM112  # so it is called


STORE_BYTES = 80 * 2**20
CLIENT_PORT = int(sys.argv[1])


def tries(start):
    """Call until Ray starts, up to three times: it waits 30 s, however busy the machine is."""
    for _ in range(2):
        try:
            return start()
        except Exception as error:  # noqa: BLE001  # Ray raises it
            print(error, file=sys.stderr, flush=True)
    return start()


def main() -> None:
    cluster: Any = import_module("ray.cluster_utils").Cluster()
    options: dict[str, Any] = {"num_cpus": 2, "object_store_memory": STORE_BYTES}
    try:
        head = {"include_dashboard": False, "ray_client_server_port": CLIENT_PORT}
        tries(lambda: cluster.add_node(**options, **head))
        nodes = [tries(lambda: cluster.add_node(**options))]
        session = cluster.head_node.get_session_dir_path()
        print(cluster.address, f"ray://127.0.0.1:{CLIENT_PORT}", session, flush=True)
        for line in sys.stdin:
            match line.strip():
                case "add":
                    nodes.append(tries(lambda: cluster.add_node(**options)))
                case "kill":
                    cluster.remove_node(nodes.pop(0), allow_graceful=False)
                    cluster.wait_for_nodes(60)  # until the head has noticed
                case "gcs":
                    cluster.head_node.kill_gcs_server(check_alive=False)
                case "head":
                    cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
                case word:
                    raise ValueError(word)
            print("done", flush=True)
    finally:
        cluster.shutdown()


main()
