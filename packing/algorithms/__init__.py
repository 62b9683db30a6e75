"""The built-in balancing algorithms: policy in Python, loops in the kernels; found by name through the registry."""
