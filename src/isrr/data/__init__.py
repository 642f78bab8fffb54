"""Tables and files → `Queries`: read, checked, grouped by query, split."""
