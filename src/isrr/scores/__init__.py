"""From features to raw scores, by a scorer trained here, and from raw scores to scores."""
