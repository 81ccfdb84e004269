"""A real cluster of two nodes on this machine, one of which is killed in the middle of a sweep."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from toy_methods import wait_until

from supportmatch.bench.store import Row, Store
from supportmatch.metrics import OVERALL

HERE = Path(__file__).parent


@dataclass
class Cluster:
    """Two nodes with one CPU each; everything they write is below `folder`, which is how their processes are known."""

    folder: Path
    address: str
    environment: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    """The process that makes each node, in the order in which they were started: the head first."""

    def start(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
        options = ["--disable-usage-stats", "--object-store-memory=100000000"]
        with (self.folder / f"node-{len(self.started)}.log").open("w") as log:
            self.popen([*command, *options, *arguments], stdout=log, stderr=log)
        wait_until(lambda: len(self.raylets()) > len(self.nodes), f"node {len(self.nodes)} of the cluster")
        self.nodes += self.raylets() - set(self.nodes)

    def popen(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        """Start a process that ends with the test."""
        self.started.append(subprocess.Popen(command, env=self.environment, text=True, **options))
        return self.started[-1]

    def processes(self, name: str = "") -> set[int]:
        """Return the processes that hold files below the folder open and whose command mentions the name."""
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                # Not the command alone: some of Ray's processes rename themselves.
                command = (path / "cmdline").read_bytes().decode(errors="replace")
                links = [os.path.realpath(link) for link in (path / "fd").iterdir()]
            except OSError:
                continue  # it has just ended, or is not ours
            if name in command and any(link.startswith(f"{self.folder}/") for link in links):
                found.add(int(path.name))
        return found

    def raylets(self) -> set[int]:
        """Return the processes that each make one node."""
        return self.processes("raylet/raylet\0")

    def kill_everything(self) -> None:
        for one in self.started:
            one.kill()
            one.wait()
            if one.stderr is not None:
                one.stderr.close()
        while processes := self.processes():
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("ray")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # not below tmp_path: names of sockets must be short
    log = tmp_path / "log"
    log.mkdir()
    environment = {**os.environ, "TOY_LOG": str(log), "PYTHONPATH": str(HERE), "RAY_USAGE_STATS_ENABLED": "0"}
    nodes = Cluster(folder, f"127.0.0.1:{port}", environment)
    try:
        local = "--node-ip-address=127.0.0.1"
        nodes.start("--head", local, f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
        nodes.start(f"--address={nodes.address}", local)
        yield nodes
    finally:
        nodes.kill_everything()  # not `ray stop`, which would also end clusters that are not ours
        shutil.rmtree(folder, ignore_errors=True)


def sweep(cluster: Cluster, out: Path, *options: str, stderr: Any = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "toy_methods.py"), "bench", "run", "--setting", "synthetic", "--seeds", "0-1"]
    command += ["--methods", "waits,dies,broken", "--budget", "smoke", "--threads", "1", "--out", str(out), *options]
    return cluster.popen(command, stderr=stderr)


def scores(rows: list[Row]) -> list[list[object]]:
    names = ("method", "seed", "config_hash", "error", "by_source", "details", *OVERALL)
    return [[row[name] for name in names] for row in rows]


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_does_every_run_once_and_as_this_machine_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    log = Path(cluster.environment["TOY_LOG"])
    running = sweep(cluster, tmp_path / "ray", "--executor", "ray", "--address", cluster.address)
    wait_until(lambda: len(list(log.iterdir())) == 2, "a run on each node")
    head, second = cluster.nodes
    at_work = [Path("/proc") / file.name.partition("-")[2] for file in log.iterdir()]
    os.kill(second, signal.SIGKILL)
    # Otherwise the run on the lost node might still end, and hand its result over.
    wait_until(lambda: sum(process.exists() for process in at_work) == 1, "the run on the lost node to die")
    (log / "go").touch()
    _, said = running.communicate(timeout=600)
    assert running.returncode == 1, said  # some fail, as they should
    assert cluster.raylets() == {head}
    assert said.count("\n[") + said.startswith("[") == 6  # each run was reported once
    rows = Store(tmp_path / "ray").rows()
    errors = {row["method"]: row["error"] for row in rows}
    assert errors["waits"] is None
    assert errors["broken"] == "ArithmeticError: the numbers do not add up"
    assert "SIGKILL" in errors["dies"]  # a run that kills its own process has failed; it is not tried for ever

    warning = "asks for 3 threads, but no node of the cluster has more than 1 CPUs"
    on_ray = ["--executor", "ray", "--address", cluster.address]
    with (tmp_path / "stuck.log").open("w") as file:
        stuck = sweep(cluster, tmp_path / "stuck", *on_ray, "--threads", "3", stderr=file)
    wait_until(lambda: warning in (tmp_path / "stuck.log").read_text(), "a warning that nothing can start")
    stuck.kill()
    stuck.wait()

    assert len(list(log.glob("*-*"))) > 4  # of the runs that leave a file one was lost with its node, and done again
    local = sweep(cluster, tmp_path / "local", "--workers", "2")
    local.communicate()
    assert local.returncode == 1
    assert scores(rows) == scores(Store(tmp_path / "local").rows())
