"""Parts of backups that need no database."""

import environ
import pytest

from authzconsole import VERSION
from authzconsole.backup.keys import ConsoleKeys, decrypted_keys, encrypted_keys, store_keys
from authzconsole.backup.reports import is_safe_name
from authzconsole.settings.environment import FileVariables, listed_keys
from tests.deploy.conftest import KEY, ROOT


def test_the_version_is_that_of_the_project():
    assert f'\nversion = "{VERSION}"\n' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("name", "is_safe"),
    [
        ("database", True),
        ("reports/results/id/part.parquet", True),
        ("reports/x", False),
        ("reports/../x", False),
        ("reports//etc/passwd", False),
        ("reports/a/../../x", False),
    ],
)
def test_reports_stay_in_their_folder(name, is_safe):
    assert is_safe_name(name) is is_safe


def test_keys_are_encrypted(settings):
    settings.JOURNAL_KEYS = [KEY]
    data = encrypted_keys("correct horse battery staple")
    assert KEY.encode() not in data and decrypted_keys(data, "correct horse battery staple").journal_keys == [
        KEY
    ]
    assert data != encrypted_keys("correct horse battery staple")


def test_all_keys_of_the_console_are_in_the_backup(settings):
    settings.SECRET_KEY, settings.JOURNAL_KEYS, settings.MFA_KEYS = (
        "secret" * 10,
        [KEY, "old-" + KEY],
        ["m" * 32],
    )
    keys = decrypted_keys(encrypted_keys("correct horse battery staple"), "correct horse battery staple")
    assert keys == ConsoleKeys("secret" * 10, [KEY, "old-" + KEY], ["m" * 32])


def test_the_settings_read_extracted_keys_also_if_there_are_several(tmp_path):
    keys = ConsoleKeys("secret" * 10, [KEY, "old-" + KEY], ["m" * 32, "n" * 32])
    store_keys(keys, tmp_path)
    env = environ.Env()
    names = ("SECRET_KEY", "JOURNAL_KEYS", "MFA_KEYS")
    env.ENVIRON = FileVariables({f"{name}_FILE": str(tmp_path / name.lower()) for name in names})
    assert ConsoleKeys(env.str("SECRET_KEY"), env.list("JOURNAL_KEYS"), env.list("MFA_KEYS")) == keys
    # a console with generated keys reads them from its state folder
    assert listed_keys((tmp_path / "journal_keys").read_text()) == keys.journal_keys
    assert listed_keys(f"{KEY}\n") == [KEY] and listed_keys("") == []


def test_keys_that_a_console_does_not_have_leave_no_file(tmp_path):
    store_keys(ConsoleKeys("secret" * 10, [KEY], []), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"secret_key", "journal_keys"}
