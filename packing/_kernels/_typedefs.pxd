# The integer vocabulary of the kernels; a test checks that each equals its NumPy dtype.
#
#   int64_t   costs, loads, tokens, footprints, and every sum of them
#   int32_t   sample indices, bin and rank numbers, counts of samples (the CSR arrays of an Assignment)
#   uint64_t  words of a bit set; keys of a radix sort
#   uint8_t   flags and raw workspaces handed in by the caller
#
# Shift the cast value, never the literal: `<uint64_t>1 << i`.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
