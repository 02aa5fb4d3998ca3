"""Decide who may read metrics and the details of the readiness."""

import ipaddress
from hmac import compare_digest

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.http.request import split_domain_port

# a proxy adds one of these; the server drops those of unknown proxies and sets the last one instead
_PROXY_HEADERS = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_FORWARDED",
    "HTTP_X_REAL_IP",
    "HTTP_VIA",
    "authzconsole.is_forwarded",
)


def is_monitor(request: HttpRequest) -> bool:
    """Return whether the caller has METRICS_TOKEN, or sent the request directly from METRICS_NETWORKS to a
    known host.

    A web page that lets its own name resolve to this machine (DNS rebinding) sends requests with this name as
    host.
    """
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
    return any(
        address in ipaddress.ip_network(network) for network in settings.METRICS_NETWORKS
    ) and _is_known_host(request)


def _is_known_host(request: HttpRequest) -> bool:
    """Return whether the Host header is in ALLOWED_HOSTS, an IP address or `localhost`, which no web page can
    rebind.
    """
    try:
        request.get_host()
        return True
    except DisallowedHost:
        host = split_domain_port(request.META.get("HTTP_HOST", ""))[0]
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host == "localhost"
    return True
