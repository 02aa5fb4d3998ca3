"""The analyses on a standalone Spark cluster with authentication: a master and two workers on the loopback
interface.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.spark.session import write_properties
from authzconsole.demo.nights import present_uses
from authzconsole.ops import ROOT
from authzconsole.ops.address import free_port
from grants.usage.storage import add_usage
from tests.analytics.spark.run_analyses import write_tables
from tests.support.pipeline import PipelineEnvironment
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.workers import database_url, descendants

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
# The Java processes end after a minute. With the fast compiler only, the test takes a third less time.
FAST_COMPILER = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
AUTHENTICATION = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "a secret of the cluster",
    "spark.network.crypto.enabled": "true",
}
CLUSTER = {
    **AUTHENTICATION,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": 1,
    "spark.cores.max": 2,
    # use both executors: wait until both are registered, and do not merge the partitions of a small tenant
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.adaptive.coalescePartitions.enabled": False,
}


@contextmanager
def spark_daemon(folder, name, *arguments):
    """Run a master or a worker in a new folder. Yield its log file.

    Its environment has only the variables of this process that are needed to find Java.
    """
    daemon_folder = folder / name
    daemon_folder.mkdir()
    environment = {
        variable: os.environ[variable] for variable in ("PATH", "JAVA_HOME", "HOME") if variable in os.environ
    }
    environment |= FAST_COMPILER | {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(daemon_folder),
    }
    write_properties(properties := daemon_folder / "spark.properties", AUTHENTICATION)
    command = [SPARK_CLASS, *arguments, "--properties-file", properties]
    with (daemon_folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=daemon_folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield daemon_folder / "log"
    finally:
        children = descendants(process.pid)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        kill_remaining(children)


def kill_remaining(children):
    """Kill the executors that do not end within 5 s. They normally end shortly after their worker."""
    for _ in range(50):
        children = [(pid, name) for pid, name in children if is_running(pid, name)]
        if not children:
            return
        time.sleep(0.1)
    for pid, _ in children:
        os.kill(pid, signal.SIGKILL)


def is_running(pid, name):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == name
    except OSError:
        return False


def wait_for_log(text, log):
    deadline = time.monotonic() + 60
    while text not in log.read_text():
        assert time.monotonic() < deadline, f"no `{text}` in time: {log.read_text()[-3_000:]}"
        time.sleep(0.2)


# in the demo tenant, every membership has an effect
EMPTY = {
    "redundant.memberships.jsonl",
    "guardrails.rows.jsonl",
    "guardrails.guardrails.jsonl",
    "patterns.narrower.jsonl",
}


@pytest.fixture
def cluster(tmp_path):
    """Return the address of the master, and the folders of the workers."""
    port, deploy = free_port(), "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as daemons:
        log = daemons.enter_context(
            spark_daemon(
                tmp_path,
                "master",
                f"{deploy}.master.Master",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--webui-port",
                "0",
            )
        )
        wait_for_log("New state: ALIVE", log)
        workers = [
            daemons.enter_context(
                spark_daemon(
                    tmp_path,
                    name,
                    f"{deploy}.worker.Worker",
                    "--host",
                    "127.0.0.1",
                    "--webui-port",
                    "0",
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                    "--work-dir",
                    str(tmp_path / name),
                    address,
                )
            )
            for name in ("worker-1", "worker-2")
        ]
        for log in workers:
            wait_for_log("Successfully registered with master", log)
        yield address, [log.parent for log in workers]


def read_tables(folder):
    """Return the written tables by file name."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def run_on_cluster(master, folder):
    """Return (the tables of all analyses by file name, the descriptions of the Python workers)."""
    environment = (
        os.environ
        | FAST_COMPILER
        | {
            "DATABASE_URL": database_url(),
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "SPARK_MASTER": master,
            "SPARK_CONF": json.dumps(CLUSTER),
            "SPARK_DRIVER_MEMORY": "1g",
            "SNAPSHOT_URI": settings.SNAPSHOT_URI,
        }
    )
    command = [sys.executable, "-m", "tests.analytics.spark.run_analyses", str(folder)]
    # a new session, so that its Java process can be killed with it
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=400)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 0, errors[-5_000:]
    return read_tables(folder), json.loads(output.splitlines()[-1])


def test_analyses_give_the_same_tables_on_a_cluster_without_the_code_of_the_console(
    spark, cluster, storage_folder, tmp_path
):
    address, worker_folders = cluster
    call_command("import_tenant", str(ROOT / "authzconsole/demo/tenant.jsonl"), verbosity=0)
    add_usage(present_uses(timezone.now().date()))
    # the session of the tests is local, and computes a small tenant
    write_tables(tmp_path / "local", "results/local")
    local_tables = read_tables(tmp_path / "local")
    tables, workers = run_on_cluster(address, tmp_path / "cluster")
    assert len(local_tables) == sum(len(analysis.written_outputs) for analysis in ANALYSES.values())
    assert {name for name, text in local_tables.items() if not text} == EMPTY
    assert tables == local_tables
    assert {Path(folder).parents[1] for folder, _, _ in workers} == set(worker_folders)
    assert {(tuple(packages), has_settings) for _, packages, has_settings in workers} == {((), False)}


def test_spark_submit_gives_the_rows_of_manage_py_analyze_without_django(
    spark, cluster, storage_folder, tmp_path, monkeypatch
):
    address, _ = cluster
    pipeline = PipelineEnvironment(tmp_path)
    call_command("import_tenant", str(ROOT / "authzconsole/demo/tenant.jsonl"), verbosity=0)
    call_command("snapshot", str(tmp_path / "snapshot"))
    write_properties(tmp_path / "spark.properties", {name: str(value) for name, value in CLUSTER.items()})
    command = [pipeline.submit, "--master", address, "--driver-memory", "1g"]
    command += ["--properties-file", tmp_path / "spark.properties", pipeline.job]
    command += ["delete-readiness", "--snapshot", tmp_path / "snapshot", "--generation", "final"]
    command += ["--output", tmp_path / "output", "--detail", tmp_path / "detail"]
    done = subprocess.run(
        command, env=pipeline.variables(), cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    files = {"output": tmp_path / "rows.jsonl", "detail": tmp_path / "detail.jsonl"}
    options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    call_command("analyze", "delete-readiness", "--generation", "final", *options)
    for name, path in files.items():
        expected = [json.loads(line) for line in path.read_text().splitlines()]
        parts = sorted((tmp_path / name).glob("*.parquet"))
        assert expected and [row for part in parts for row in pq.read_table(part).to_pylist()] == expected


def test_a_job_whose_executors_end_at_once_fails_with_the_reason(cluster, tmp_path):
    """The master would start new ones without end."""
    address, worker_folders = cluster
    store_tenant(random_tenant(5))
    call_command("snapshot", str(tmp_path / "snapshot"))
    options = CLUSTER | {"spark.executor.extraJavaOptions": "-javaagent:/nonexistent.jar"}
    write_properties(tmp_path / "spark.properties", {name: str(value) for name, value in options.items()})
    command = [SPARK_CLASS.with_name("spark-submit"), "--master", address, "--driver-memory", "512m"]
    command += ["--properties-file", tmp_path / "spark.properties", ROOT / "analytics" / "job.py"]
    command += ["ghost-grants", "--snapshot", tmp_path / "snapshot", "--output", tmp_path / "output"]
    variables = os.environ | FAST_COMPILER | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr[-3_000:]
    # spark-submit writes both to the standard output
    assert "10 executors ended (Command exited with code 1), and the Spark master" in done.stdout
    assert not (tmp_path / "output").exists()
    assert sum(len(list(folder.glob("app-*/*"))) for folder in worker_folders) >= 10
