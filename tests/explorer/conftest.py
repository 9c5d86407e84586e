"""A page for the files of tests that have none of their own."""

import sys

from visits import opened, page

__all__ = ["opened", "page"]

# These look for processes where only Linux lists them, and end them by signals that Windows does not have.
ABOUT_PROCESSES = ["explore_command", "server_limits", "shared_workers", "compare", "server_survives", "in_a_notebook"]
ABOUT_PROCESSES += ["exported_pictures", "scratch"]
collect_ignore = [] if sys.platform == "linux" else [f"test_{name}.py" for name in ABOUT_PROCESSES]
