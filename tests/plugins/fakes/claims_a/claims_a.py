"""One of two that claim a namespace."""
