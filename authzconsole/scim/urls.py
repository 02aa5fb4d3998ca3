"""The URLs of SCIM.

One view answers all of them, so that no path or method can lack the check of the token.
"""

from django.urls import re_path

from authzconsole.scim.views import scim

urlpatterns = [re_path(r"^v2(?:/(?P<path>.*))?$", scim, name="scim")]
