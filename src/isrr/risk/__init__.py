"""Distribution-free risk control: evidence that a risk is small, and how several configurations are tested together.

Sees losses of at most 1, shape (n_queries, n_grid), and nothing of what made them.
"""
