"""Credentials in SNAPSHOT_URI do not appear in messages, logs and pages."""

import logging

import pytest

from analytics.models import AnalysisRun
from analytics.runs.execution import failure_message
from analytics.storage import (
    StorageError,
    shown_uri,
    storage,
    storage_problem,
    storage_root,
    without_credentials,
)
from grants.jobs import run_job

SECRET = "top/secret+1"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("/srv/console", "/srv/console"),
        ("file:///srv/console", "file:///srv/console"),
        ("s3://bucket/path?region=eu&secret_key=top", "s3://bucket/path"),
        ("s3://KEY:top%2Fsecret@bucket/path", "s3://KEY:***@bucket/path"),
        ("s3://KEY:top/secret@bucket/path", "s3://KEY:***@bucket/path"),
        ("s3://KEY:top?secret@bucket/path", "s3://***"),
        ("s3://KEY:top@secret@bucket/path", "s3://KEY:***@bucket/path"),
        (
            "abfss://container@account.dfs.core.windows.net/path",
            "abfss://container@account.dfs.core.windows.net/path",
        ),
        (
            "abfss://container:top@account.dfs.core.windows.net/path",
            "abfss://container:***@account.dfs.core.windows.net/path",
        ),
    ],
)
def test_a_shown_uri_has_no_password_and_no_parameters(settings, uri, shown):
    settings.SNAPSHOT_URI = uri
    assert shown_uri() == shown
    assert shown in storage_problem(OSError(28, "No space left on device"))


@pytest.mark.parametrize(
    "uri",
    [
        "nothing://KEY:{}@bucket/path",
        "s3://KEY:{}@bucket:port/path",
        "nothing://bucket?secret_key={}",
        "s3://bucket/path?unknown={}",
    ],
)
@pytest.mark.parametrize("secret", [SECRET, "top%2Fsecret%2B1"])
def test_an_unusable_uri_is_refused_without_its_secret(settings, uri, secret):
    settings.SNAPSHOT_URI = uri.format(secret)
    with pytest.raises(StorageError, match="SNAPSHOT_URI is ") as error:
        storage_root()
    assert "secret" not in str(error.value).replace("secret_key", "") and error.value.__cause__ is None


def test_an_unexpected_error_is_shown_without_the_secret(settings):
    settings.SNAPSHOT_URI = "s3://KEY:top%2Fsecret%2B1@bucket/path?token=another-secret"
    text = f"cannot read {settings.SNAPSHOT_URI}: {SECRET} and another-secret were refused"
    assert without_credentials(text) == "cannot read s3://KEY:***@bucket/path: *** and *** were refused"
    assert "secret" not in failure_message(RuntimeError(text))


def test_spark_gets_the_uri_without_the_password(settings):
    # with a region, pyarrow does not connect
    settings.SNAPSHOT_URI = "s3://KEY:top%2Fsecret@bucket/path?region=eu-central-1"
    assert storage().child("results").spark_uri == "s3://KEY@bucket/path/results"


@pytest.mark.django_db(transaction=True)
def test_a_failed_run_and_its_log_do_not_contain_the_secret(settings, caplog):
    settings.SNAPSHOT_URI = f"nothing://KEY:{SECRET}@bucket/path?secret_key=another-secret"
    run = AnalysisRun.objects.create(type="stranded", options={"generation": "final"})
    with caplog.at_level(logging.DEBUG):
        run_job(run.pk)
    run.refresh_from_db()
    assert "nothing://KEY:***@bucket/path" in run.error and "stranded" in caplog.text
    logged = "".join(logging.Formatter().format(record) for record in caplog.records)
    assert "secret" not in run.error + logged
