"""HTTPS: redirects, HSTS, and the names of the cookies.

Nothing here applies to a console at an `http://` URL.
"""

from .authorization import SILENCED_SYSTEM_CHECKS as _OTHER_SILENCED_CHECKS
from .environment import env
from .site import IS_HTTPS

SILENCED_SYSTEM_CHECKS = [*_OTHER_SILENCED_CHECKS]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
if IS_HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    # checks of the health and the monitoring come from this machine or from the container engine, without TLS
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]

    # browsers accept cookies with this prefix only over HTTPS, for this host and for all paths
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
    MESSAGE_STORAGE = "authzconsole.common.messages.HostMessageStorage"

    SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=31_536_000)
    SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("HSTS_SUBDOMAINS", default=True)
    SECURE_HSTS_PRELOAD = env.bool("HSTS_PRELOAD", default=True)
    # an operator who turns these off has decided so
    SILENCED_SYSTEM_CHECKS += [
        check
        for check, is_on in (
            ("security.W005", SECURE_HSTS_INCLUDE_SUBDOMAINS),
            ("security.W021", SECURE_HSTS_PRELOAD),
        )
        if not is_on
    ]
