"""What a ranker does to utility and exposure: per-query arrays first, means second."""
