"""A page for the files of tests that have none of their own."""

from visits import opened, page

__all__ = ["opened", "page"]
