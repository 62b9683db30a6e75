"""A module without hooks."""
