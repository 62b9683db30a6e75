"""The plain-Python twins: same functions, same names, same signatures as the compiled kernels, and their specification."""
