"""Everything that only the paper needs: scorers, benchmarks, further statistical tests, its tables and figures.

The paper: R. Guo, J.-F. Ton, Y. Liu and H. Li, Inference-time Stochastic Ranking with Risk Control, 2023. This package
imports `isrr`, never the other way round. Install it with `pip install 'isrr[paper]'`.
"""
