"""The explorer: a page in the browser where tokens are dragged, and everything else is computed by this library."""
