"""The address by which guesses are counted, and the cache with the counts."""

import pytest
from django.test import RequestFactory

from authzconsole import settings as product_settings
from authzconsole.common import login_throttle


@pytest.mark.parametrize(
    ("proxies", "forwarded", "remote", "expected"),
    [
        (0, "203.0.113.9", "192.0.2.1", "192.0.2.1"),
        (1, "198.51.100.7, 203.0.113.9", "192.0.2.1", "203.0.113.9"),
        (2, "198.51.100.7, 203.0.113.9", "192.0.2.1", "198.51.100.7"),
        (1, None, "192.0.2.1", "192.0.2.1"),
        (0, None, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (0, None, "::ffff:203.0.113.9", "203.0.113.9"),
        (1, "::ffff:cb00:7109", "192.0.2.1", "203.0.113.9"),
        (1, "203.0.113.9:50123", "192.0.2.1", "203.0.113.9"),
        (1, "[2001:db8:1:2::5]:50123", "192.0.2.1", "2001:db8:1:2::/64"),
        (1, "[2001:db8:1:2::5]", "192.0.2.1", "2001:db8:1:2::/64"),
        (1, "unknown", "192.0.2.1", "192.0.2.1"),
        (1, "[]", "192.0.2.1", "192.0.2.1"),
        (1, ":50123", "", ""),
        (0, None, "", ""),
    ],
)
def test_the_client_address_comes_from_trusted_proxies(settings, proxies, forwarded, remote, expected):
    settings.REST_FRAMEWORK = settings.REST_FRAMEWORK | {"NUM_PROXIES": proxies}
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    assert (
        login_throttle.client_address(RequestFactory().get("/", headers=headers, REMOTE_ADDR=remote))
        == expected
    )


def test_the_redis_location_is_a_list():
    """Django would split a text at commas and semicolons."""
    assert isinstance(product_settings.CACHES["shared"]["LOCATION"], list)
