"""The pages of what cannot be answered."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from authzconsole.web.guard import BrokenAddress


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Says what is wrong with an ill-formed address, and of a well-formed one nothing, not even whether it exists."""
    fault = str(exception) if isinstance(exception, BrokenAddress) else ""
    return render(request, "404.html", {"fault": fault}, status=404)
