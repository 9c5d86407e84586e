"""The command line, and the configuration files that it reads."""
