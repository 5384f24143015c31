"""What the commands that only look share: look-ups and the record, read and never written."""
