"""Read from the database what the server needs: whether a request has valid credentials, and the newest
journal revision.
"""

from django.contrib.auth import get_user
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.wsgi import WSGIRequest
from django.db import DatabaseError, close_old_connections
from django.http import HttpResponse

from authzconsole.common.tokens import TokenRefused, verify_token
from grants.journal import current_revision


def is_identified(environ: dict) -> bool:
    """Return whether the request has a valid token or session.

    The application checks again what the caller may do.
    """
    close_old_connections()
    try:
        if authorization := environ.get("HTTP_AUTHORIZATION", ""):
            return _is_token_valid(authorization)
        request = WSGIRequest(environ)
        SessionMiddleware(lambda request: HttpResponse()).process_request(request)
        return get_user(request).is_authenticated
    finally:
        close_old_connections()


def read_revision() -> int:
    """Return the newest revision of the journal; 0 if the database does not answer."""
    close_old_connections()
    try:
        return current_revision()
    except DatabaseError:
        return 0
    finally:
        close_old_connections()


def _is_token_valid(authorization: str) -> bool:
    scheme, _, secret = authorization.partition(" ")
    try:
        return scheme.lower() == "bearer" and bool(verify_token(secret.strip()))
    except TokenRefused:
        return False
