"""A Ray cluster of this machine, started once: that takes longer than most tests."""

import os
from typing import Any
from unittest.mock import patch

import ray
from ray.cluster_utils import Cluster

from trainers.running import TESTS

PATHS = os.pathsep.join((str(TESTS.parent / "python"), str(TESTS)))
FASTER = {"RAY_worker_niceness": "0"}
"""Else its workers wait for all that other processes of a busy machine do."""


class Nodes:
    """A head that runs nothing, and two nodes that do."""

    def __init__(self) -> None:
        with patch.dict(os.environ, FASTER):
            self.cluster = self._started()
        self.nodes: list[Any] = []

    def _started(self) -> Cluster:
        """Ray gives a node 30 seconds, which a loaded machine may take."""
        for tries_left in (2, 1, 0):
            try:
                head = {"num_cpus": 0, "include_dashboard": False}
                return Cluster(initialize_head=True, head_node_args=head)
            except Exception as error:
                if "timed out" not in str(error) or not tries_left:
                    raise
        raise AssertionError

    @property
    def address(self) -> str:
        """Where drivers find it."""
        return str(self.cluster.address)

    def replace(self) -> None:
        """Start nodes in place of those that died."""
        with patch.dict(os.environ, FASTER):
            while len(self.nodes) < 2:
                self.nodes.append(self.cluster.add_node(num_cpus=1))
        self.cluster.wait_for_nodes(60)

    def connect(self, **environment: str) -> None:
        """Make this process a driver of two nodes."""
        ray.shutdown()
        self.replace()
        variables = {"PYTHONPATH": PATHS} | environment
        runtime = {"env_vars": variables}
        ray.init(self.address, log_to_driver=False, runtime_env=runtime)

    def kill_one(self) -> None:
        """End a node with all that runs on it."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)

    def end(self) -> None:
        ray.shutdown()
        self.cluster.shutdown()
