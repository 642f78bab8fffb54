"""Rankings over HTTP from a loaded certificate, and what is kept of them."""
