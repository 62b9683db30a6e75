# Checks and workspace arithmetic that the two bin-packing kernels share; each loop here runs once per call.
from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t


cdef inline Py_ssize_t first_wrong_size(const int64_t[::1] sizes, int64_t largest_allowed) noexcept nogil:
    """The first index whose size is negative or above `largest_allowed`; -1 if there is none."""
    cdef Py_ssize_t index
    for index in range(sizes.shape[0]):
        if sizes[index] < 0 or sizes[index] > largest_allowed:
            return index
    return -1


cdef inline Py_ssize_t first_outside(const int32_t[::1] values, Py_ssize_t limit) noexcept nogil:
    """The first position whose value is not in [0, limit); -1 if there is none."""
    cdef Py_ssize_t position
    for position in range(values.shape[0]):
        if values[position] < 0 or values[position] >= limit:
            return position
    return -1


cdef inline uint8_t* aligned(uint8_t* start) noexcept nogil:
    """The first address from `start` on that may hold 64-bit integers; every workspace has 8 spare bytes for it."""
    return start + (8 - <size_t>start % 8) % 8


cdef inline int check_workspace(uint8_t[::1] workspace, int64_t needed) except -1:
    """Raise if the caller's workspace is too small."""
    if workspace.shape[0] < needed:
        raise ValueError(f"`workspace` must have at least {needed} bytes, but got {workspace.shape[0]}.")
    return 0
