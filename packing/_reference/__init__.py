"""The plain-Python twins: the functions of the compiled kernels, with the same names; their specification."""
