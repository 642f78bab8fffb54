"""From judged queries and a promise to an outcome."""
