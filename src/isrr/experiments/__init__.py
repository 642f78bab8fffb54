"""Every table and figure of the paper, one file a result."""
