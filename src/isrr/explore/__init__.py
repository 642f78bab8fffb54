"""What else the judged queries have to tell: every promise a reader might ask about, and who gains what."""
