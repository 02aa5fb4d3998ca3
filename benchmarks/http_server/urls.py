"""The URLs of the console and the reference: the same question answered by django-guardian in the same
server.
"""

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
    """Answer with guardian's check.

    It does not verify a token, which the endpoint of the console has to do.
    """
    body = json.loads(request.body)
    user = User.objects.get(username=body["subject"]["id"])
    entity = Entity.objects.get(kind=body["resource"]["type"], key=body["resource"]["id"])
    return JsonResponse({"decision": ObjectPermissionChecker(user).has_perm(body["action"]["name"], entity)})


urlpatterns = [path("reference/guardian", guardian_check), *urlpatterns]
