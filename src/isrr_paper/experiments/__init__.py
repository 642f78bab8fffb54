"""Every table and figure of the paper, one file per result."""
