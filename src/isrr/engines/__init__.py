"""Where queries are, here or on a cluster, and how a task is run over them, with bit-for-bit identical results."""
