"""What was found, drawn and put in words; nothing is computed here."""
