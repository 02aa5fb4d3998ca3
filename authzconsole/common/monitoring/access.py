"""Decide who may read metrics and the details of the readiness."""

import ipaddress
from hmac import compare_digest

from django.conf import settings
from django.http import HttpRequest

# a proxy adds one of these; the server drops those of unknown proxies and sets the last one instead
_PROXY_HEADERS = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED", "HTTP_X_REAL_IP",
                  "HTTP_VIA", "authzconsole.is_forwarded")


def is_monitor(request: HttpRequest) -> bool:
    """Return whether the caller has METRICS_TOKEN, or sent the request directly from METRICS_NETWORKS."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if settings.METRICS_TOKEN and scheme.lower() == "bearer":
        return compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())
    if any(header in request.META for header in _PROXY_HEADERS):
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in ipaddress.ip_network(network) for network in settings.METRICS_NETWORKS)
