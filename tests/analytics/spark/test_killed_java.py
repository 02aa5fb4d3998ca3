"""The Java process is killed while Spark starts, as the kernel does when the memory is full."""

import subprocess
import sys

import pytest

from analytics.runs.execution import failure_message
from analytics.spark.session import LaunchedJava, SparkKilled
from authzconsole.ops import ROOT

# Run in a separate process, because the session of the tests is already connected. `before`: kill Java before
# it answers PySpark.
SCRIPT = """
import os, signal, sys, threading, time
from pyspark import SparkContext, java_gateway
from analytics.spark.session import SparkKilled, spark_session

before = sys.argv[1] == "before"
popen = java_gateway.Popen

def launch(*arguments, **options):
    process = popen(*arguments, **options)

    def kill():
        while not before and SparkContext._gateway is None:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    return process

java_gateway.Popen = launch
try:
    spark_session(master="local[1]", memory="512m", patience_seconds=60)
except SparkKilled as error:
    assert "out of memory" in str(error), error
    print("killed")
assert java_gateway.Popen is launch
"""


@pytest.mark.spark
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_java_process_is_recognized(when):
    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT, when], cwd=ROOT, capture_output=True, text=True, timeout=90
    )
    assert completed.stdout.strip() == "killed", completed.stderr[-3_000:]


@pytest.mark.spark
def test_a_java_process_without_memory_ends_and_is_replaced():
    script = (
        "from analytics.spark.session import has_session_died, spark_session, stop_spark\n"
        "options = {'master': 'local[1]', 'memory': '512m'}\n"
        "context = spark_session(**options).sparkContext\n"
        "try: context._gateway.new_array(context._jvm.long, 2**28)\n"
        "except Exception: context._gateway.proc.wait(60)\n"
        "print('died' if has_session_died() else 'alive', spark_session(**options).range(3).count())\n"
        "stop_spark()"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert completed.stdout.strip().endswith("died 3"), completed.stderr[-3_000:]


@pytest.mark.spark
def test_a_script_that_ends_before_java_starts_may_be_tried_again():
    # as if the program that builds the command of Java had been killed
    script = (
        "from pyspark import java_gateway; popen = java_gateway.Popen\n"
        "java_gateway.Popen = lambda command, **options: popen(['sh', '-c', 'exit 1'], **options)\n"
        "from analytics.spark.session import SparkExited, SparkKilled, spark_session\n"
        "try: spark_session(master='local[1]', memory='512m')\n"
        "except SparkExited as error: print(type(error).__name__, error)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=90
    )
    assert completed.stdout.startswith(
        "SparkExited Spark did not start with SPARK_MASTER local[1]: its Java"
    ), completed.stderr


@pytest.mark.parametrize(
    ("command", "was_killed"),
    [("kill -9 $$", True), ("exit 137", True), ("exit 1", False), ("exit 0", False)],
)
def test_only_a_signal_counts_as_killed(command, was_killed):
    java = LaunchedJava()
    assert not java.was_killed()
    java.process = subprocess.Popen(["sh", "-c", command])
    assert java.was_killed() == was_killed


def test_a_command_names_the_reason_too():
    assert failure_message(SparkKilled("killed")).startswith(
        "Spark's Java process ended while Spark started; the usual reason"
    )
