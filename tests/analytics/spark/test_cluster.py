"""The analyses on a real standalone cluster: a master and two workers of the installed Spark, on this machine's loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from django.core.management import call_command

from analytics.analyses import ANALYSES
from authzconsole.ops import ROOT
from authzconsole.ops.address import free_port
from tests.support.workers import database_url, descendants

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
# Java processes that live for a minute are not worth compiling well for: the test takes a third less
HASTE = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": 1,
    "spark.cores.max": 2,
    # neither executor is left out because the other was there first, or because the tenant is small
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.adaptive.coalescePartitions.enabled": False,
}


@contextmanager
def spark_daemon(folder, name, *arguments):
    """A master or a worker, in a folder of its own and with nothing of this process's environment but where Java is."""
    place = folder / name
    place.mkdir()
    environment = {variable: os.environ[variable] for variable in ("PATH", "JAVA_HOME", "HOME") if variable in os.environ}
    environment |= HASTE | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(place)}
    with (place / "log").open("w") as log:
        process = subprocess.Popen([SPARK_CLASS, *arguments], cwd=place, env=environment, stdout=log, stderr=log,
                                   start_new_session=True)
    try:
        yield place / "log"
    finally:
        begun = descendants(process.pid)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        kill_those_left(begun)


def kill_those_left(begun):
    """Executors end with their worker, a moment later; of those that did not, nothing stays."""
    for _ in range(50):
        begun = [(pid, name) for pid, name in begun if is_running(pid, name)]
        if not begun:
            return
        time.sleep(0.1)
    for pid, _ in begun:
        os.kill(pid, signal.SIGKILL)


def is_running(pid, name):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == name
    except OSError:
        return False


def wait_for(words, log, *, seconds=60):
    ends = time.monotonic() + seconds
    while words not in log.read_text():
        assert time.monotonic() < ends, f"no `{words}` in {seconds} s: {log.read_text()[-3_000:]}"
        time.sleep(0.2)


@pytest.fixture
def cluster(tmp_path):
    """The address of its master, and the folders of its workers."""
    port, deploy = free_port(), "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as daemons:
        log = daemons.enter_context(spark_daemon(
            tmp_path, "master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"))
        wait_for("New state: ALIVE", log)
        workers = [daemons.enter_context(spark_daemon(
            tmp_path, name, f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
            "--memory", "1g", "--work-dir", str(tmp_path / name), address)) for name in ("worker-1", "worker-2")]
        for log in workers:
            wait_for("Successfully registered with master", log)
        yield address, [log.parent for log in workers]


def analysed_on(master, folder, conf, *sizes):
    """The tables of every analysis by their names, for each size, and the places of the Python workers."""
    environment = os.environ | HASTE | {
        "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings", "SPARK_MASTER": master,
        "SPARK_CONF": json.dumps(conf), "SPARK_DRIVER_MEMORY": "1g", "SNAPSHOT_URI": str(folder.parent / "shared"),
    }
    folder.mkdir()
    command = [sys.executable, "-m", "tests.analytics.spark.on_a_master", str(folder), *sizes]
    # a session of its own, so that its Java process can be ended with it
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        output, errors = process.communicate(timeout=400)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 0, errors[-5_000:]
    tables = [{path.name: path.read_text() for path in (folder / size).iterdir()} for size in sizes]
    return tables, json.loads(output.splitlines()[-1])


def test_all_analyses_answer_on_a_cluster_without_the_console_s_code_what_they_answer_here(cluster, tmp_path):
    address, workers = cluster
    call_command("import_tenant", str(ROOT / "authzconsole/demo/tenant.jsonl"), verbosity=0)
    [here], _ = analysed_on("local[*]", tmp_path / "here", {}, "little")
    [little, large], places = analysed_on(address, tmp_path / "there", CLUSTER, "little", "large")
    assert len(here) == sum(len(analysis.written_outputs) for analysis in ANALYSES.values()) and all(here.values())
    assert little == here and large == here
    assert {Path(place).parents[1] for place, _, _ in places} == set(workers)
    assert {(tuple(known), has_settings) for _, known, has_settings in places} == {((), False)}
