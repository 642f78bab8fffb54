"""Where queries are, here or on a cluster, and how a task is run over all of them to the same bits."""
