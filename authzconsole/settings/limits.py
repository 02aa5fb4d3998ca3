"""The request rates of accounts and tokens."""

import re

from django.core.exceptions import ImproperlyConfigured

from .environment import env

_SECONDS = {"s": 1, "min": 60, "h": 3_600}


def _rate_limit(name: str, default: str) -> tuple[int, int] | None:
    """Return the number of requests and the seconds of the period, or None for no limit."""
    text = env.str(name, default=default)
    if text == "off":
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,9})/(s|min|h)", text)
    if match is None:
        raise ImproperlyConfigured(
            f"{name} is {text!r}; write it as 600/min (or /s, /h), or `off` for no limit"
        )
    return int(match[1]), _SECONDS[match[2]]


# see authzconsole/common/rate_limits.py; the defaults stop only clients that run out of control
RATE_LIMITS = {
    "requests_per_account": _rate_limit("RATE_LIMIT_PER_ACCOUNT", "30000/min"),
    "requests_per_token": _rate_limit("RATE_LIMIT_PER_TOKEN", "30000/min"),
    "decisions_per_account": _rate_limit("RATE_LIMIT_DECISIONS_PER_ACCOUNT", "300000/min"),
    "decisions_per_token": _rate_limit("RATE_LIMIT_DECISIONS_PER_TOKEN", "300000/min"),
}
