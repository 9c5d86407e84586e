"""`python -m attnflow` is the command line."""

from attnflow.cli import main

raise SystemExit(main())
