"""The settings of Spark are passed in a file; secrets are visible to no other user of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECRET = "s3cret = a:b\\c #é€\U0001f600"
START = """
import os, sys
from pathlib import Path
from analytics.spark.session import spark_session
session = spark_session(master="local[1]", memory="512m", settings={"spark.hadoop.fs.s3a.secret.key": sys.argv[1]})
conf = session.sparkContext.getConf()
assert conf.get("spark.hadoop.fs.s3a.secret.key") == sys.argv[1], conf.get("spark.hadoop.fs.s3a.secret.key")
assert conf.get("spark.authenticate") == conf.get("spark.network.crypto.enabled") == "true"
assert conf.get("spark.driver.memory") == "512m"
assert session.sparkContext.parallelize(range(10), 2).map(lambda number: number * 2).sum() == 90
(file,) = Path(os.environ["TMPDIR"]).rglob("spark.properties")
assert file.stat().st_mode & 0o077 == 0
print("started", flush=True)
sys.stdin.read()
"""


def test_a_secret_in_the_settings_reaches_spark_but_no_command_line(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", START, SECRET], env=environment, text=True, start_new_session=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().strip() == "started"
        java = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if has_session(path, process.pid)]
        assert java, "Java runs in the session of the process"
        for pid in set(java) - {str(process.pid)}:
            assert b"s3cret" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        process.stdin.close()
        assert process.wait(60) == 0


def has_session(path, pid):
    try:
        return os.getsid(int(path.parent.name)) == pid
    except ProcessLookupError:
        return False
