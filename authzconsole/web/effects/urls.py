"""The URLs of the effect of changes."""

from django.urls import path

from authzconsole.web.effects.page import (
    cancel_effect_view,
    compute_effect_view,
    download_effect,
    effect_page,
)

urlpatterns = [
    path("effect", effect_page, name="effect"),
    path("effect/run", compute_effect_view, name="effect-run"),
    path("effect/run/cancel", cancel_effect_view, name="effect-run-cancel"),
    path("effect.<slug:extension>", download_effect, name="effect-file"),
]
