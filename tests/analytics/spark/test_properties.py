"""No other user of the machine sees the secrets in the settings of Spark, or connects to its driver."""

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
assert conf.get("spark.driver.memory") == "512m"
assert session.sparkContext.parallelize(range(10), 2).map(lambda number: number * 2).sum() == 90
(file,) = Path(os.environ["TMPDIR"]).rglob("spark.properties")
assert file.stat().st_mode & 0o077 == 0
print(conf.get("spark.driver.port"), flush=True)
sys.stdin.read()
"""


# Ask for an endpoint without the secret of Spark: first a server of the attacker, which requires none, then
# the driver.
ATTACK = """
import sys
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway
jvm = launch_gateway().jvm
spark, seconds = jvm.org.apache.spark, "5s"
conf = spark.SparkConf(False).set("spark.rpc.askTimeout", seconds).set("spark.rpc.lookupTimeout", seconds)
keys = getattr(getattr(spark.internal.config, "package$"), "MODULE$")
security = spark.SecurityManager(conf, jvm.scala.Option.empty(), keys.AUTH_SECRET_FILE())
client, server = [spark.rpc.RpcEnv.create(name, "127.0.0.1", 0, conf, security, name == "client")
                  for name in ("client", "server")]
for port in (server.address().port(), int(sys.argv[1])):
    try:
        client.setupEndpointRef(spark.rpc.RpcAddress("127.0.0.1", port), "endpoint-verifier")
        print("connected")
    except Py4JJavaError as error:
        print("refused", error.java_exception.getClass().getName())
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Start the driver of a local master with the settings of the console.

    Yield the process and the port of the driver.
    """
    environment = os.environ | {"TMPDIR": str(tmp_path_factory.mktemp("driver"))}
    with subprocess.Popen(
        [sys.executable, "-c", START, SECRET],
        env=environment,
        text=True,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process, process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_secret_in_the_settings_reaches_spark_but_no_command_line(driver):
    process, _ = driver
    java = [
        path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if has_session(path, process.pid)
    ]
    assert java, "Java runs in the session of the process"
    for pid in set(java) - {str(process.pid)}:
        assert b"s3cret" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_attack_a_process_without_the_secret_does_not_connect_to_the_driver(driver):
    _, port = driver
    done = subprocess.run([sys.executable, "-c", ATTACK, port], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["connected", "refused org.apache.spark.SparkException"], done.stderr


def has_session(path, pid):
    try:
        return os.getsid(int(path.parent.name)) == pid
    except ProcessLookupError:
        return False
