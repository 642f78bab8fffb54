"""From clicks to a certificate: click logs, what they say of rankers that were not shown, and the live rollout."""
