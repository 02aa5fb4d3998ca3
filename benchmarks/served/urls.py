"""The console's addresses and one more: the same question put to django-guardian, in the same server."""

import json

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from guardian.core import ObjectPermissionChecker

from authzconsole.urls import handler404, urlpatterns
from entities.models import Entity
from grants.models import User

__all__ = ["handler404", "urlpatterns"]


@csrf_exempt
@login_not_required
def guardian_check(request: HttpRequest) -> JsonResponse:
    """Without a look at the caller's token, which the console's own endpoint has to take."""
    body = json.loads(request.body)
    user = User.objects.get(username=body["subject"]["id"])
    entity = Entity.objects.get(kind=body["resource"]["type"], key=body["resource"]["id"])
    return JsonResponse({"decision": ObjectPermissionChecker(user).has_perm(body["action"]["name"], entity)})


urlpatterns = [path("reference/guardian", guardian_check), *urlpatterns]
