"""Parts of backups that need no database."""

import pytest

from authzconsole import VERSION
from authzconsole.backup.keys import decrypted_keys, encrypted_keys
from authzconsole.backup.reports import is_safe_name
from tests.deploy.conftest import KEY, ROOT


def test_the_version_is_that_of_the_project():
    assert f'\nversion = "{VERSION}"\n' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(("name", "is_safe"), [
    ("database", True), ("reports/results/id/part.parquet", True), ("reports/x", False), ("reports/../x", False),
    ("reports//etc/passwd", False), ("reports/a/../../x", False),
])
def test_reports_stay_in_their_folder(name, is_safe):
    assert is_safe_name(name) is is_safe


def test_keys_are_encrypted(settings):
    settings.JOURNAL_KEYS = [KEY]
    data = encrypted_keys("correct horse battery staple")
    assert KEY.encode() not in data and decrypted_keys(data, "correct horse battery staple").journal_keys == [KEY]
    assert data != encrypted_keys("correct horse battery staple")
