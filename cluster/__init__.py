"""A whole posegate cluster on this machine, without containers: for trying (`python -m cluster`) and for tests.

    with Cluster(directory, nodes=2, servers=3) as cluster:
        cluster.nodes[0].kill()
        cluster.leader("posegate-entries").pause()

It starts NATS servers, posegate nodes and HAProxy from the configurations in `docker/`, which `compose.yaml` uses too.
"""

from cluster.balancer import Balancer
from cluster.children import ClusterError
from cluster.cluster import Cluster
from cluster.nodes import Node
from cluster.servers import Server

__all__ = ["Balancer", "Cluster", "ClusterError", "Node", "Server"]
