"""Rows from flat columns: segments copied to where they lie, padding between them, numbers, positions and labels."""
# (a) Layout: flat columns of one dtype in, rows [R, k, T] out, both as bytes; only the width of an element matters. Each
#     call fills one array from its first byte to its last, padding included, so that memory sees one stream of writes.
# (b) The loops are manual because a slice assignment a segment and array costs more than the tokens of a short segment.
# (c) Ties: there are none, nothing is chosen.
# (d) Time: O(R * k * T) writes, O(S * k) calls of memcpy. Memory: none.

from libc.stdint cimport uint16_t
from libc.string cimport memcpy, memset

from packing._kernels._typedefs cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from *:
    # GCC and Clang: brings a line of memory into the cache, to be read (0) or written (1); no address is wrong.
    void __builtin_prefetch(const void* address, int write, int locality) noexcept nogil


# A short memcpy waits for its first line, and a store for the line that it changes. With these, segments of 64 tokens
# take three quarters of the time, long ones no less than before; half these distances and twice do the same.
cdef enum:
    SEGMENTS_AHEAD = 6
    BYTES_AHEAD = 1024


ctypedef fused element:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef struct Segments:
    int64_t num_rows, num_segments, row_length
    const int64_t* begins  # [S] first token in the flat column; NULL where nothing is copied
    const int64_t* lengths  # [S]
    const int64_t* row_offsets  # [R+1]
    const int64_t* positions  # [S] first column in the row


cdef const char* take(
    Segments* segments,
    int64_t total,
    const int64_t[::1] begins,
    const int64_t[::1] lengths,
    const int64_t[::1] row_offsets,
    const int64_t[::1] positions,
    int64_t num_rows,
    int64_t row_length,
) noexcept nogil:
    """Fills in `segments`; NULL, or what is wrong: every access that follows is inside the arrays."""
    cdef int64_t num_segments = lengths.shape[0], r, s, cursor
    if positions.shape[0] != num_segments or (begins is not None and begins.shape[0] != num_segments):
        return "begins, lengths and positions must have the same length"
    if row_offsets.shape[0] != num_rows + 1 or row_offsets[0] != 0 or row_offsets[num_rows] != num_segments:
        return "row_offsets must lead from 0 to the number of segments, one more than rows"
    for r in range(num_rows):
        if row_offsets[r + 1] < row_offsets[r] or row_offsets[r + 1] > num_segments:
            return "row_offsets must ascend"
        cursor = 0
        for s in range(row_offsets[r], row_offsets[r + 1]):
            if lengths[s] < 1 or positions[s] < cursor or positions[s] > row_length - lengths[s]:
                return "segments must lie in their row one after the other"
            cursor = positions[s] + lengths[s]
            if begins is not None and (begins[s] < 0 or begins[s] > total - lengths[s]):
                return "segments must lie in the flat column"
    segments.num_rows, segments.num_segments, segments.row_length = num_rows, num_segments, row_length
    segments.begins = &begins[0] if begins is not None and num_segments else NULL
    segments.lengths = &lengths[0] if num_segments else NULL
    segments.positions = &positions[0] if num_segments else NULL
    segments.row_offsets = &row_offsets[0]
    return NULL


cdef inline void fill(element* target, int64_t count, element value) noexcept nogil:
    cdef int64_t i
    if value == 0:
        memset(target, 0, <size_t>count * sizeof(element))
        return
    for i in range(count):
        target[i] = value


cdef inline void expect_read(const void* memory) noexcept nogil:
    cdef int line
    for line in range(4):
        __builtin_prefetch(<const uint8_t*>memory + 64 * line, 0, 3)


cdef inline void expect_write(const void* memory) noexcept nogil:
    cdef int line
    for line in range(4):
        __builtin_prefetch(<const uint8_t*>memory + BYTES_AHEAD + 64 * line, 1, 3)


# ---------------------------------------------------------------------------------------------------- copy_segments


cdef void copy_all(
    const Segments* segments,
    const element* source,  # IN [k, total]
    int64_t total,
    int64_t num_planes,
    element padding,
    element* target,  # OUT [R, k, T]
) noexcept nogil:
    cdef int64_t r, plane, s, cursor, length
    cdef const element* column
    for r in range(segments.num_rows):
        for plane in range(num_planes):
            column = source + plane * total
            cursor = 0
            for s in range(segments.row_offsets[r], segments.row_offsets[r + 1]):
                if segments.positions[s] > cursor:
                    fill(target + cursor, segments.positions[s] - cursor, padding)
                cursor, length = segments.positions[s], segments.lengths[s]
                if s + SEGMENTS_AHEAD < segments.num_segments:
                    expect_read(column + segments.begins[s + SEGMENTS_AHEAD])
                expect_write(target + cursor)
                memcpy(target + cursor, column + segments.begins[s], <size_t>length * sizeof(element))
                cursor += length
            fill(target + cursor, segments.row_length - cursor, padding)
            target += segments.row_length


def copy_segments(
    const uint8_t[:, ::1] source not None,  # IN [k, total tokens * width]
    const int64_t[::1] begins not None,  # IN int64[S]
    const int64_t[::1] lengths not None,  # IN int64[S]
    const int64_t[::1] row_offsets not None,  # IN int64[R+1]
    const int64_t[::1] positions not None,  # IN int64[S]
    const uint8_t[::1] padding not None,  # IN [width]
    uint8_t[:, :, ::1] target not None,  # OUT [R, k, T * width]
):
    """Copies segments of a column, of elements of 1, 2, 4 or 8 bytes, to their rows and pads the rest.

    Args:
        source: IN uint8[k, total tokens * width], aligned to the width.
        begins: IN int64[S], the first token of each segment in the source.
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        padding: IN uint8[width], the bytes of the element that stands where no segment lies.
        target: OUT uint8[R, k, T * width], aligned to the width.

    Raises:
        ValueError: shapes that do not match, or segments outside the source or the target.
    """
    cdef Segments segments
    cdef int64_t width = padding.shape[0], planes = source.shape[0], total
    cdef const char* wrong = NULL
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight
    if width not in (1, 2, 4, 8) or source.shape[1] % width or target.shape[2] % width or target.shape[1] != planes:
        raise ValueError("source, padding and target must have elements of one width and as many planes")
    total = source.shape[1] // width
    with nogil:
        wrong = take(
            &segments, total, begins, lengths, row_offsets, positions, target.shape[0], target.shape[2] // width
        )
    if wrong != NULL:
        raise ValueError(wrong.decode())
    if target.shape[0] == 0 or planes == 0 or target.shape[2] == 0:
        return
    cdef const uint8_t* first = &source[0, 0] if total else NULL
    with nogil:
        if width == 1:
            copy_all[uint8_t](&segments, first, total, planes, padding[0], &target[0, 0, 0])
        elif width == 2:
            memcpy(&two, &padding[0], 2)
            copy_all[uint16_t](&segments, <const uint16_t*>first, total, planes, two, <uint16_t*>&target[0, 0, 0])
        elif width == 4:
            memcpy(&four, &padding[0], 4)
            copy_all[uint32_t](&segments, <const uint32_t*>first, total, planes, four, <uint32_t*>&target[0, 0, 0])
        else:
            memcpy(&eight, &padding[0], 8)
            copy_all[uint64_t](&segments, <const uint64_t*>first, total, planes, eight, <uint64_t*>&target[0, 0, 0])


# --------------------------------------------------------------------------------------- number_segments, positions


def number_segments(
    const int64_t[::1] lengths not None,  # IN int64[S]
    const int64_t[::1] row_offsets not None,  # IN int64[R+1]
    const int64_t[::1] positions not None,  # IN int64[S]
    int32_t[:, ::1] target not None,  # OUT int32[R, T]
):
    """Writes 1 over the tokens of a row's first segment, 2 over those of its second, ..., and 0 over padding.

    Args:
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        target: OUT int32[R, T].

    Raises:
        ValueError: shapes that do not match, or segments outside the target.
    """
    cdef Segments segments
    cdef int64_t r, s, cursor, first
    cdef const char* wrong
    cdef uint32_t* row
    with nogil:
        wrong = take(&segments, 0, None, lengths, row_offsets, positions, target.shape[0], target.shape[1])
    if wrong != NULL:
        raise ValueError(wrong.decode())
    if target.shape[0] == 0 or target.shape[1] == 0:
        return
    with nogil:
        row = <uint32_t*>&target[0, 0]
        for r in range(segments.num_rows):
            cursor, first = 0, segments.row_offsets[r]
            for s in range(first, segments.row_offsets[r + 1]):
                if segments.positions[s] > cursor:
                    fill(row + cursor, segments.positions[s] - cursor, <uint32_t>0)
                expect_write(row + segments.positions[s])
                fill(row + segments.positions[s], segments.lengths[s], <uint32_t>(s - first + 1))
                cursor = segments.positions[s] + segments.lengths[s]
            fill(row + cursor, segments.row_length - cursor, <uint32_t>0)
            row += segments.row_length


cdef inline void count_up(uint32_t* target, int64_t count, uint32_t first) noexcept nogil:
    cdef uint32_t i
    for i in range(<uint32_t>count):
        target[i] = first + i


def number_positions(
    const int64_t[::1] lengths not None,  # IN int64[S]
    const int64_t[::1] row_offsets not None,  # IN int64[R+1]
    const int64_t[::1] positions not None,  # IN int64[S]
    int32_t position_start,
    int32_t[:, ::1] target not None,  # OUT int32[R, T]
):
    """Writes `position_start`, `position_start` + 1, ... over the tokens of every segment, and 0 over padding.

    Args:
        lengths: IN int64[S], at least 1; `position_start` + length is at most 2**31.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        position_start: of the first token of a segment.
        target: OUT int32[R, T].

    Raises:
        ValueError: shapes that do not match, segments outside the target, or a position that is no int32.
    """
    cdef Segments segments
    cdef int64_t r, s, cursor
    cdef const char* wrong
    cdef uint32_t* row
    with nogil:
        wrong = take(&segments, 0, None, lengths, row_offsets, positions, target.shape[0], target.shape[1])
        if wrong == NULL:
            for s in range(segments.num_segments):
                if position_start + segments.lengths[s] > <int64_t>1 << 31:
                    wrong = "positions must fit into int32"
    if wrong != NULL:
        raise ValueError(wrong.decode())
    if target.shape[0] == 0 or target.shape[1] == 0:
        return
    with nogil:
        row = <uint32_t*>&target[0, 0]
        for r in range(segments.num_rows):
            cursor = 0
            for s in range(segments.row_offsets[r], segments.row_offsets[r + 1]):
                if segments.positions[s] > cursor:
                    fill(row + cursor, segments.positions[s] - cursor, <uint32_t>0)
                expect_write(row + segments.positions[s])
                count_up(row + segments.positions[s], segments.lengths[s], <uint32_t>position_start)
                cursor = segments.positions[s] + segments.lengths[s]
            fill(row + cursor, segments.row_length - cursor, <uint32_t>0)
            row += segments.row_length


# ------------------------------------------------------------------------------------------------- bound_segments


def bound_segments(
    const int64_t[::1] lengths not None,  # IN int64[S]
    const int64_t[::1] row_offsets not None,  # IN int64[R+1]
    const int64_t[::1] positions not None,  # IN int64[S]
    int32_t row_length,
    int32_t[:, ::1] tokens not None,  # OUT int32[R, W]
    int32_t[:, ::1] columns not None,  # OUT int32[R, W]
):
    """Writes where the segments of each row end, counted in tokens and in columns.

    Args:
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        row_length: columns of a row.
        tokens: OUT int32[R, W], 0 and the running sum of the lengths, the last one repeated.
        columns: OUT int32[R, W], 0 and the position of the next segment, `row_length` where there is none.

    Raises:
        ValueError: shapes that do not match, W - 1 segments are too few, or segments outside the row.
    """
    cdef Segments segments
    cdef int64_t r, s, i, last, width = tokens.shape[1]
    cdef int32_t running
    cdef const char* wrong
    if columns.shape[0] != tokens.shape[0] or columns.shape[1] != width or width < 1:
        raise ValueError("tokens and columns must have the same shape, at least one wide")
    with nogil:
        wrong = take(&segments, 0, None, lengths, row_offsets, positions, tokens.shape[0], row_length)
        if wrong == NULL:
            for r in range(segments.num_rows):
                if segments.row_offsets[r + 1] - segments.row_offsets[r] >= width:
                    wrong = "a row must have fewer segments than tokens and columns are wide"
    if wrong != NULL:
        raise ValueError(wrong.decode())
    with nogil:
        for r in range(segments.num_rows):
            s, last, running = segments.row_offsets[r], segments.row_offsets[r + 1] - 1, 0
            tokens[r, 0] = columns[r, 0] = 0
            for i in range(1, width):
                if s <= last:
                    running += <int32_t>segments.lengths[s]
                tokens[r, i] = running
                columns[r, i] = <int32_t>segments.positions[s + 1] if s < last else row_length
                s += 1


# --------------------------------------------------------------------------------------------------- label_segments


cdef void label_all(
    const Segments* segments,
    const element* source,
    const uint8_t* mask,
    bint shifted,
    element ignore,
    element* target,
) noexcept nogil:
    cdef int64_t r, s, i, cursor, begin, position, length
    for r in range(segments.num_rows):
        cursor = 0
        for s in range(segments.row_offsets[r], segments.row_offsets[r + 1]):
            begin, position, length = segments.begins[s] + 1, segments.positions[s], segments.lengths[s] - 1
            # Of L tokens the last L - 1 are predicted; they stand in their own columns or in those before.
            if not shifted:
                position += 1
            fill(target + cursor, position - cursor, ignore)
            for i in range(length):
                target[position + i] = source[begin + i] if mask[begin + i] else ignore
            cursor = position + length
        fill(target + cursor, segments.row_length - cursor, ignore)
        target += segments.row_length


def label_segments(
    const uint8_t[::1] source not None,  # IN [total tokens * width]
    const uint8_t[::1] mask not None,  # IN uint8[total tokens]
    const int64_t[::1] begins not None,  # IN int64[S]
    const int64_t[::1] lengths not None,  # IN int64[S]
    const int64_t[::1] row_offsets not None,  # IN int64[R+1]
    const int64_t[::1] positions not None,  # IN int64[S]
    bint shifted,
    const uint8_t[::1] ignore not None,  # IN [width]
    uint8_t[:, ::1] target not None,  # OUT [R, T * width]
):
    """Writes the token to predict where the mask of that token counts it, and `ignore` everywhere else.

    The first token of a segment is predicted by nothing.

    Args:
        source: IN uint8[total tokens * width], token ids of 1, 2, 4 or 8 bytes, aligned to the width.
        mask: IN uint8[total tokens], 0 where a token does not count.
        begins: IN int64[S], the first token of each segment in the source.
        lengths: IN int64[S], at least 1.
        row_offsets: IN int64[R+1]; row r holds the segments `row_offsets[r]:row_offsets[r + 1]`, left to right.
        positions: IN int64[S], the first column of each segment in its row.
        shifted: whether a token stands in the column of the token before it, which predicts it, or in its own.
        ignore: IN uint8[width], the bytes of the label that does not count.
        target: OUT uint8[R, T * width], aligned to the width.

    Raises:
        ValueError: shapes that do not match, or segments outside the source or the target.
    """
    cdef Segments segments
    cdef int64_t width = ignore.shape[0], total = mask.shape[0]
    cdef const char* wrong
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight
    if width not in (1, 2, 4, 8) or source.shape[0] != total * width or target.shape[1] % width:
        raise ValueError("source, ignore and target must have elements of one width, and mask one for each of source")
    with nogil:
        wrong = take(
            &segments, total, begins, lengths, row_offsets, positions, target.shape[0], target.shape[1] // width
        )
    if wrong != NULL:
        raise ValueError(wrong.decode())
    if target.shape[0] == 0 or target.shape[1] == 0:
        return
    cdef const uint8_t* first = &source[0] if total else NULL
    cdef const uint8_t* flags = &mask[0] if total else NULL
    with nogil:
        if width == 1:
            label_all[uint8_t](&segments, first, flags, shifted, ignore[0], &target[0, 0])
        elif width == 2:
            memcpy(&two, &ignore[0], 2)
            label_all[uint16_t](&segments, <const uint16_t*>first, flags, shifted, two, <uint16_t*>&target[0, 0])
        elif width == 4:
            memcpy(&four, &ignore[0], 4)
            label_all[uint32_t](&segments, <const uint32_t*>first, flags, shifted, four, <uint32_t*>&target[0, 0])
        else:
            memcpy(&eight, &ignore[0], 8)
            label_all[uint64_t](&segments, <const uint64_t*>first, flags, shifted, eight, <uint64_t*>&target[0, 0])
