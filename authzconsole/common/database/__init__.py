"""The database connection: how PostgreSQL plans statements, and errors of a locked or unavailable database."""
