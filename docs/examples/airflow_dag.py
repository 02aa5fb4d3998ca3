"""Compute what each user sees, every night, with Airflow 2.9 or newer and its provider for Spark.

The console has the connection `console` (SSH), the cluster the connection `spark_default`. Both reach the folder in `STORAGE`.
"""

import pendulum
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.ssh.operators.ssh import SSHOperator

STORAGE = "/mnt/shared/authz/{{ ts_nodash }}"
# where the wheel of the pipeline is installed on the workers of Airflow
PIPELINE = "/opt/pipeline"

with DAG(
    dag_id="authorization_visibility",
    schedule="0 3 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"retries": 2},
) as dag:
    snapshot = SSHOperator(
        task_id="snapshot",
        ssh_conn_id="console",
        command=f"authzconsole manage snapshot {STORAGE}/snapshot",
    )
    visibility = SparkSubmitOperator(
        task_id="visibility",
        conn_id="spark_default",
        application=f"{PIPELINE}/lib/python3.11/site-packages/analytics/job.py",
        application_args=[
            "visibility",
            "--snapshot",
            f"{STORAGE}/snapshot",
            "--output",
            f"{STORAGE}/visibility",
            "--sets",
            f"{STORAGE}/sets",
        ],
        conf={"spark.executor.memory": "4g"},
    )
    check = BashOperator(
        task_id="check",
        bash_command=f"{PIPELINE}/bin/python -m analytics.check "
        f"{STORAGE}/visibility {STORAGE}/sets/principals {STORAGE}/sets/entities",
    )
    snapshot >> visibility >> check
