"""Send ZIP files."""

from collections.abc import Iterable

from django.http import StreamingHttpResponse
from django.utils.cache import patch_cache_control

ZIP = "application/zip"


def zip_response(chunks: Iterable[bytes], name: str) -> StreamingHttpResponse:
    """Return the response that streams a ZIP file in parts. name: of the file, without its extension.

    A FileResponse is no alternative: it adds no Content-Disposition for an iterator, and cannot send files of
    PyArrow, because Django's WSGI handler assigns their attribute `close`.
    """
    response = StreamingHttpResponse(chunks, content_type=ZIP)
    response["Content-Disposition"] = f'attachment; filename="{name}.zip"'
    patch_cache_control(response, private=True, no_store=True)
    return response
