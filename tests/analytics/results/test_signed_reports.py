"""The files of a signed report cannot be changed outside the console without being noticed."""

import hashlib
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client
from pyarrow._fs import _MockFileSystem

from analytics.analyses import AnalysisError, analysis_by_name
from analytics.arrow import arrow_schema
from analytics.manifests import MANIFEST_NAME
from analytics.models import AnalysisRun
from analytics.results import manifest
from analytics.results.compare import compare_with_previous
from analytics.results.export import DOWNLOAD_FORMATS
from analytics.results.files import ResultsGone
from analytics.results.index import write_index
from analytics.results.manifest import ReportChanged, ReportFile, ReportManifest, file_hash, load_manifest
from analytics.results.query import ResultFilter
from analytics.results.read import result_page, result_stream, row_counts
from analytics.storage import Place, storage_root
from analytics.tables import IMPACT_DETAIL, READINESS
from grants.jobs import run_job
from grants.journal import current_revision
from grants.journal_keys import signing_key
from grants.models import Plan, Role, User
from tests.support.cast import create_sample_tenant
from tests.support.reports import FINAL, create_report, sign_report
from tests.support.runs import create_waiting_run

pytestmark = pytest.mark.django_db

ROWS = [("eng", "ada", 3, 1, 2, False), ("eng", "bob", 3, 3, 0, True), ("hr", "ada", 1, 1, 0, True)]
FORGED = ("hr", "mallory", 1, 1, 0, True)


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    return tmp_path


@pytest.fixture
def report(storage):
    """Return a run with a signed report, as the database has it."""
    run = create_report(storage, {"rows": ROWS, "namespaces": []}, revision=3)
    write_index(READINESS, Place(storage_root()[0], f"{storage_root()[1]}/{run.result_path}/rows", ""))
    sign_report(run)
    return AnalysisRun.objects.get(pk=run.pk)


@pytest.fixture
def folder(report, storage):
    return storage / report.result_path


def add_row(folder):
    path = folder / "rows" / "part-0.parquet"
    table = pq.read_table(path)
    forged = pa.Table.from_pylist([dict(zip(table.column_names, FORGED, strict=True))], table.schema)
    pq.write_table(pa.concat_tables([table, forged]), path)


def change_a_byte(folder):
    """Change the content of a file, but neither its size nor its time of change."""
    path = folder / "rows" / "part-0.parquet"
    status, content = path.stat(), bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


READERS = {
    "page": lambda run: result_page(run),
    "sorted page": lambda run: result_page(run, sort="user"),
    "filtered page": lambda run: result_page(run, where=ResultFilter(equal={"namespace": "hr"})),
    "counts": lambda run: row_counts(run, "rows", by="namespace"),
    "stream": lambda run: result_stream(run, "rows"),
    "filtered stream": lambda run: result_stream(run, "rows", where=ResultFilter(equal={"namespace": "hr"})),
}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("attack", [add_row, change_a_byte])
def test_a_changed_file_is_refused_whether_or_not_it_was_read_before(
    report, folder, reader, attack, is_known
):
    if is_known:
        READERS[reader](report)
    attack(folder)
    with pytest.raises(
        ReportChanged, match="the report was changed outside the console .*rows/part-0.parquet has"
    ):
        READERS[reader](report)


@pytest.mark.parametrize(
    ("attack", "fault"),
    [
        (lambda folder: (folder / "rows" / "_index").write_bytes(b"nothing"), "rows/_index has 7 bytes"),
        (lambda folder: (folder / "rows" / "_index").unlink(), "rows/_index is missing"),
        (lambda folder: (folder / "rows" / "part-0.parquet").unlink(), "rows/part-0.parquet is missing"),
        (lambda folder: (folder / MANIFEST_NAME).unlink(), "its manifest is missing"),
        (lambda folder: (folder / MANIFEST_NAME).write_bytes(b"{}\n{}"), "its manifest was replaced"),
    ],
)
def test_a_missing_or_replaced_file_is_refused(report, folder, attack, fault):
    attack(folder)
    with pytest.raises(ReportChanged, match=fault):
        result_page(report)


def test_an_added_file_is_refused_where_a_whole_table_is_read(report, folder):
    shutil.copyfile(folder / "rows" / "part-0.parquet", folder / "rows" / "part-1.parquet")
    assert result_page(report).total_rows == len(ROWS), "a page reads only the files of the index"
    with pytest.raises(ReportChanged, match="rows/part-1.parquet was added"):
        result_stream(report, "rows")


def test_a_manifest_without_a_valid_signature_is_refused(report, folder):
    path = folder / MANIFEST_NAME
    add_row(folder)
    old = load_manifest(report).files["rows/part-0.parquet"]
    changed = folder / "rows" / "part-0.parquet"
    forged = (
        path.read_bytes()
        .replace(old.sha256.encode(), file_hash(storage_root()[0], str(changed)).encode())
        .replace(f'"bytes":{old.bytes}'.encode(), f'"bytes":{changed.stat().st_size}'.encode())
    )
    path.write_bytes(forged)
    report.result_hash = hashlib.sha256(forged).hexdigest()
    with pytest.raises(ReportChanged, match="the signature with the key .* does not match"):
        result_page(report)


def test_the_report_of_another_run_is_refused(report, folder, storage):
    other = create_report(storage, {"rows": [FORGED]}, revision=3)
    sign_report(other)
    report.result_path, report.options, report.result_hash = (
        other.result_path,
        {"generation": "core"},
        other.result_hash,
    )
    with pytest.raises(ReportChanged, match="its files belong to another run"):
        result_page(report)


def test_a_report_with_an_unknown_key_is_refused_with_the_id_of_the_key(report, settings):
    key_id = signing_key().key_id
    settings.JOURNAL_KEYS = ["another key with more than thirty-two characters"]
    with pytest.raises(ReportChanged, match=f"signed with the key {key_id}, which is not in JOURNAL_KEYS"):
        result_page(report)


def test_deleted_results_are_gone_and_not_changed(report, folder):
    shutil.rmtree(folder)
    for _ in range(2):
        with pytest.raises(ResultsGone):
            result_page(report)


def test_each_file_is_hashed_once(report, monkeypatch):
    hashed, hash_file = [], manifest.file_hash
    monkeypatch.setattr(
        manifest, "file_hash", lambda filesystem, path: hashed.append(path) or hash_file(filesystem, path)
    )
    for reader in (*READERS.values(), *READERS.values()):
        reader(report)
    assert sorted(path.rpartition("/")[2] for path in hashed) == ["_index", "part-0.parquet"]


@pytest.fixture
def client():
    client = Client()
    client.force_login(User.objects.create_user("root", role=Role.ADMINISTRATOR, is_principal=False))
    return client


def test_pages_rest_and_downloads_refuse_a_changed_report(report, folder, client):
    report.summary = dict.fromkeys(analysis_by_name(report.type).figures, 0)
    report.save()
    add_row(folder)
    page = client.get(f"/analyses/{report.pk}/").content.decode()
    assert "was changed outside the console" in page and "mallory" not in page
    for path in ("", *DOWNLOAD_FORMATS):
        response = client.get(f"/api/v1/runs/{report.pk}/tables/rows{path}")
        assert response.status_code == 409 and "was changed outside the console" in response.json()["detail"]
    for extension in DOWNLOAD_FORMATS:
        response = client.get(f"/analyses/{report.pk}/tables/rows{extension}")
        assert response.status_code in (302, 303) and not response.content


def test_a_changed_report_is_not_compared(report, folder, storage):
    add_row(folder)
    run = create_report(storage, {"rows": ROWS})
    fault = compare_with_previous(run, run.result_path, check=lambda: None)["comparison_fault"]
    assert fault["run"] == report.pk and "was changed outside the console" in fault["reason"]


def test_a_run_signs_its_report_and_old_reports_are_marked(replace_computation, storage, client):
    replace_computation()
    run = create_waiting_run()
    run_job(run.pk)
    run.refresh_from_db()
    assert load_manifest(run).files == {} and client.get(f"/api/v1/runs/{run.pk}").json()["signed"] is True
    unsigned = create_report(
        storage, {"kinds": [], "rows": []}, analysis="stranded", options={"generation": FINAL["generation"]}
    )
    assert client.get(f"/api/v1/runs/{unsigned.pk}").json()["signed"] is False
    assert (
        "Not signed: the console would not notice" in client.get(f"/analyses/{unsigned.pk}/").content.decode()
    )


def test_without_a_journal_key_a_report_is_not_signed(replace_computation, settings):
    settings.JOURNAL_KEYS = []
    replace_computation()
    run = create_waiting_run()
    run_job(run.pk)
    run.refresh_from_db()
    assert run.state == "done" and run.result_hash == ""


def test_a_cancelled_run_is_not_signed(report, storage):
    def end():
        raise AnalysisError("cancelled")

    with pytest.raises(AnalysisError, match="cancelled"):
        manifest.write_report_manifest(report, report.result_path, 3, check=end)


def test_a_changed_report_makes_no_plan(storage, client):
    create_sample_tenant()
    run = create_report(
        storage,
        {"rows": [], "operations": [], "detail": []},
        analysis="policy-impact",
        summary={},
        revision=current_revision(),
        options={"generation": "existing", "to_generation": "final"},
    )
    sign_report(run)
    schema = arrow_schema(IMPACT_DETAIL)
    forged = dict(zip(schema.names, ("ned", "securekey:sales.signing", "delete", True, False), strict=True))
    pq.write_table(
        pa.Table.from_pylist([forged], schema), storage / run.result_path / "detail" / "part-0.parquet"
    )
    response = client.post("/api/v1/plans/policy-impact", {"run": run.pk}, content_type="application/json")
    assert response.status_code == 409 and "was changed outside the console" in response.json()["detail"]
    page = client.post(f"/plans/policy-impact/{run.pk}", {}, follow=True).content.decode()
    assert "was changed outside the console" in page and not Plan.objects.exists()


def test_the_files_of_another_file_system_are_verified_too(report, folder):
    files = _MockFileSystem()
    files.create_dir("bucket/rows")
    with files.open_output_stream("bucket/rows/part-0.parquet") as file:
        file.write(b"content")
    expected = ReportFile(7, hashlib.sha256(b"content").hexdigest())
    ReportManifest("bucket", {"rows/part-0.parquet": expected}).check_files(
        files, ["bucket/rows/part-0.parquet"]
    )
    with files.open_output_stream("bucket/rows/part-0.parquet") as file:
        file.write(b"changed")
    other = ReportManifest("bucket", {"rows/part-0.parquet": ReportFile(7, "0" * 64)})
    with pytest.raises(ReportChanged, match="has different content"):
        other.check_files(files, ["bucket/rows/part-0.parquet"])
