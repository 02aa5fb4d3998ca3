"""If Spark does not start in time, the error names the master, and the next session works."""

import subprocess
import sys
import time

import pytest

from analytics.models import AnalysisRun
from analytics.runs.execution import RunProgress
from analytics.runs.services import cancel_run
from analytics.spark.session import _no_answer_message
from authzconsole.ops import ROOT
from grants.jobs import JobContext, JobTimedOut
from grants.models import JobState

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Run in a separate process, because the session of the tests is already connected.
SCRIPT = """
import socket, time
from analytics.spark.session import SparkUnavailable, spark_session, stop_spark

def failure(master, patience):
    start = time.monotonic()
    try:
        spark_session(master=master, memory="512m", patience_seconds=patience)
    except SparkUnavailable as error:
        assert master in str(error) and chr(10) not in str(error), error
        return str(error), time.monotonic() - start
    raise AssertionError(f"a session was started with {master}")

for _ in range(2):
    message, seconds = failure("spark://127.0.0.1:1", 60)
    assert "does not answer (127.0.0.1:1: Connection refused)" in message and seconds < 5, (message, seconds)
with socket.create_server(("127.0.0.1", 0)) as silent:
    for _ in range(2):
        message, seconds = failure(f"spark://127.0.0.1:{silent.getsockname()[1]}", 5)
        assert "did not accept this console within 5 s" in message and seconds < 15, (message, seconds)
assert spark_session(master="local[1]", memory="512m").range(10).count() == 10
stop_spark()
print("passed")
"""


def test_an_unreachable_or_silent_master_fails_in_time_and_the_next_session_works():
    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert completed.stdout.strip() == "passed", completed.stderr[-3_000:]


@pytest.mark.django_db(transaction=True)
def test_a_job_that_exceeds_the_time_limit_is_cancelled_in_spark(spark, settings):
    settings.RUN_TIMEOUT_SECONDS = 2
    run = AnalysisRun.objects.create(type="stranded", state=JobState.RUNNING, claim="c", attempt=1)
    started = time.monotonic()
    with JobContext(run) as context, RunProgress(context) as progress:
        progress.track_jobs(spark.sparkContext)
        with pytest.raises(Exception, match="cancelled"):
            spark.sparkContext.parallelize(range(2), 2).map(lambda _: time.sleep(120)).count()
    assert isinstance(context.ending, JobTimedOut) and time.monotonic() - started < 30
    assert spark.range(5).count() == 5 and cancel_run(run=run)


def test_a_slow_machine_is_not_blamed_on_the_master():
    message = _no_answer_message("local[2]", 60)
    assert "SPARK_MASTER" not in message and "slow or busy" in message
    assert "SPARK_MASTER spark://host:7077" in _no_answer_message("spark://host:7077", 60)
