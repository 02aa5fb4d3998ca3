"""The REST resources `who-can` and `what-can`: who can access an entity, and what a principal can do."""
