"""What writes pages of the documentation and reports that are stored; no part of the package."""
