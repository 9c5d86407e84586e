"""`python -m attnflow` is the command line."""

from attnflow.app.cli import main

raise SystemExit(main())
