"""The effect of changes that are not made yet, at once or from a run."""

from rest_framework.response import Response

from authzconsole.common.fields import Choice, List, StrictSerializer, Text
from authzconsole.rest.effects.plan_effects import ComputingSerializer, computing_response
from authzconsole.rest.framework.callers import check_administrator
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import LOCATION, operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.permission_effects import (
    PermissionEffectSerializer,
    preview_as_json,
)
from grants.active_generation import active_generation
from grants.change_set import UnknownChange, change_from_json
from grants.changes import ChangeSet, can_make, preview, request_change_effect
from grants.effects.changes import MAX_CHANGES
from grants.policies.catalogue import GENERATIONS

MAX_PARTS = 6


class ChangesSerializer(StrictSerializer):
    """Changes that are not made yet."""

    changes = List(
        child=List(child=Text(max_length=600, allow_blank=True), min_length=2, max_length=MAX_PARTS),
        min_length=1,
        max_length=MAX_CHANGES,
        help_text=(
            'The changes: `["delete",ADDRESS]`, `["register",ADDRESS]` or `["register",ADDRESS,CREATOR]`, '
            '`["grant",PRINCIPAL,ADDRESS,PRIVILEGE]` and `["revoke",…]`, `["join",USER,GROUP]` and `["leave",…]`, '
            '`["activate",USER]` and `["deactivate",USER]`, `["remove",PRINCIPAL]`, `["principal",USER]` or `["generation",NAME]`. '
            "A grant and a membership can be followed by the beginning and the end of their period; an empty text is no limit."
        ),
    )
    generation = Choice(
        choices=list(GENERATIONS), required=False, help_text="By default the active generation."
    )


class ChangeEffects(Endpoint):
    route, url_name = "effects", "rest-effects"

    @operation(
        "effects_compute",
        check_administrator,
        {200: PermissionEffectSerializer, 202: ComputingSerializer},
        body=ChangesSerializer,
        parameters=[LOCATION],
    )
    def post(self) -> Response:
        """Compute the effect of changes.

        Returns the effect of changes without making them. An effect above the limits of the console is
        computed by a run: this returns 202 and requests the run, unless one is waiting or running. Repeat
        the request until it returns 200. A dry run of the same change then has the effect too. The result
        of a run is returned as long as the data does not change. For administrators.
        """
        body = self.data
        name = body.get("generation") or active_generation().name
        try:
            change_set = ChangeSet.of(*map(change_from_json, body["changes"]))
            shown = preview(change_set, GENERATIONS[name])
            if shown.effect is not None:
                return Response(preview_as_json(shown))
            if not can_make(self.request.user, change_set):
                raise Problem(403, "your account may not make these changes")
            return computing_response(
                request_change_effect(
                    changes=change_set, generation=name, author=self.author, requested_by=self.request.user
                )
            )
        except UnknownChange as error:
            raise Problem(400, f"`changes`: {error}") from None
