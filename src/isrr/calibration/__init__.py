"""From judged queries and a promise to an outcome, on this machine or on a cluster."""
