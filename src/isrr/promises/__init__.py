"""Promises about what is shown: what people write, and the losses it is tested by."""
