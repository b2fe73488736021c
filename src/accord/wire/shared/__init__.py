"""Wire types that are equal in v1 and v2, proved by the schema."""
