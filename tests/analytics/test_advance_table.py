"""A table that is advanced keeps the order of its key, over all of its files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics.arrow import arrow_schema
from analytics.results.advance import advance_table
from analytics.results.index import write_index
from analytics.spark.area_input import Area
from analytics.storage import parquet_paths, place_of
from analytics.tables import VISIBILITY_NAMESPACES

EVERYTHING, USERS = Area(None, frozenset({"sales"})), Area(frozenset("ac"), None)


def table_of(*users):
    rows = [{"user": user, "namespace": "sales", "visible": 1} for user in users]
    return pa.Table.from_pylist(rows, arrow_schema(VISIBILITY_NAMESPACES))


def advanced_users(folder, files, fresh, area=EVERYTHING):
    """Return the users in each file, after a table with these users in its files got other rows."""
    base, place = (place_of(str(folder / name), "folder") for name in ("base", "advanced"))
    base.filesystem.create_dir(base.path)
    for number, users in enumerate(files):
        pq.write_table(table_of(*users), f"{base.path}/part-{number:05}.parquet")
    write_index(VISIBILITY_NAMESPACES, base)
    advance_table(VISIBILITY_NAMESPACES, base, place, table_of(*fresh), [area])
    return [pq.read_table(path)["user"].to_pylist() for path in parquet_paths(place.filesystem, place.path)]


@pytest.mark.parametrize("files", [["bd", "", "mn"], ["", "bd", "mn"], ["bd", "mn", ""], ["", "", ""]])
def test_the_rows_are_in_order_although_a_file_has_no_rows(files, tmp_path):
    fresh = "abcxmn"
    users = advanced_users(tmp_path, files, fresh)
    assert len(users) == len(files)
    assert [user for file in users for user in file] == sorted(fresh)


@pytest.mark.parametrize("files", [["bd", "", "mn"], ["", "bd", "mn"], ["bd", "mn", ""]])
def test_the_rows_outside_of_the_area_are_kept_although_a_file_has_no_rows(files, tmp_path):
    users = advanced_users(tmp_path, files, "ac", area=USERS)
    assert [user for file in users for user in file] == sorted("abcdmn")


def test_each_row_is_in_the_file_with_its_range_of_keys(tmp_path):
    assert advanced_users(tmp_path, ["bd", "mn"], "acmzl") == [["a", "c", "l"], ["m", "z"]]
