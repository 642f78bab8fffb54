"""The stochastic ranker: who is eligible at each position, who is drawn, and how much exposure that gives."""
