"""A run from its start to its store: simulate, watchers, trajectories, files, ensembles."""
