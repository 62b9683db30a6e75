"""The entry point names an object of this module instead of the module."""

PLUGIN = object()
