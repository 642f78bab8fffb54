"""isrr inside other libraries."""
