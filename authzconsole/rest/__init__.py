"""The REST API under `/api/v1`: one module for each resource.

What all endpoints share is in `framework`, the OpenAPI document in `openapi`.
"""
