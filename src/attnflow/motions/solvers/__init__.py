"""What motions compute with: integration, changes of leader, tokens that have met, many systems at once."""
