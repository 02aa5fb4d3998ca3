"""The URLs of findings."""

from django.urls import path

from authzconsole.web.findings.pages import (
    ChangeFindings,
    ChooseMail,
    FindingForm,
    FindingList,
    FindingRules,
    finding_count,
    finding_page,
)
from authzconsole.web.lists import ListFile

urlpatterns = [
    path("findings/", FindingList.as_view(), name="findings"),
    path("findings/count", finding_count, name="finding-count"),
    path("findings/change", ChangeFindings.as_view(), name="finding-change"),
    path("findings/mail", ChooseMail.as_view(), name="finding-mail"),
    path("findings/rules", FindingRules.as_view(), name="finding-rules"),
    path("findings/<int:pk>/", finding_page, name="finding"),
    path("findings.<slug:extension>", ListFile.as_view(form_class=FindingForm), name="findings-file"),
]
