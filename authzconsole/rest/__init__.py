"""The REST API under `/api/v1`: one module for each subject.

Code that all endpoints share is in `framework`, and the OpenAPI document is in `openapi`.
"""
