"""Distribution-free risk control: evidence that a risk is small, and which configurations survive together.

Sees losses of at most 1, shape (n_queries, n_grid), and nothing of what made them.
"""
