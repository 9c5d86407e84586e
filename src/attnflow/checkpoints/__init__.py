"""Trained weights: the files they are kept in."""
