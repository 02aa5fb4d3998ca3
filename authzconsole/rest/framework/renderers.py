"""Renderers that declare the media types of files for content negotiation and the OpenAPI document.

Views write the files.
"""

from rest_framework.renderers import BaseRenderer

from authzconsole.common.zip_files import ZIP


class CsvRenderer(BaseRenderer):
    media_type, format = "text/csv", "csv"
    title = "CSV"


class JsonLinesRenderer(BaseRenderer):
    media_type, format = "application/x-ndjson", "jsonl"
    title = "JSON Lines"


class ParquetRenderer(BaseRenderer):
    media_type, format = "application/vnd.apache.parquet", "parquet"
    title = "Parquet"


class ZipRenderer(BaseRenderer):
    media_type, format = ZIP, "zip"
