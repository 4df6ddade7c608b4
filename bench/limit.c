/* The limit of loading: copy spans of uint16 ids out of one buffer, widen them to int64, and nothing
   else. No order, no state, no checks: bench/load.py builds it with the system's compiler. The row
   after the next is asked for while one is copied: otherwise half of the time is waiting for memory. */

#include <stddef.h>
#include <stdint.h>

/* Inline, or gcc leaves the call out: to it, asking for memory has no effect. */
static inline __attribute__((always_inline)) void fetch(const uint16_t *tokens, const int64_t *starts, int64_t rows,
                                                        int64_t length, int64_t row) {
    if (row >= rows) return;
    for (int64_t i = 0; i < length; i += 32) __builtin_prefetch(tokens + starts[row] + i);
}

/* One array of rows x length. */
void one_array(const uint16_t *tokens, const int64_t *starts, int64_t rows, int64_t length, int64_t *out) {
    for (int64_t row = 0; row < rows; row++) {
        const uint16_t *from = tokens + starts[row];
        fetch(tokens, starts, rows, length, row + 2);
        for (int64_t i = 0; i < length; i++) out[row * length + i] = from[i];
    }
}

/* Inputs and targets, rows x (length - 1) each, without gaps. */
void two_arrays(const uint16_t *tokens, const int64_t *starts, int64_t rows, int64_t length, int64_t *inputs,
                int64_t *targets) {
    int64_t size = length - 1;
    for (int64_t row = 0; row < rows; row++) {
        const uint16_t *from = tokens + starts[row];
        fetch(tokens, starts, rows, length, row + 2);
        for (int64_t i = 0; i < size; i++) inputs[row * size + i] = from[i];
        for (int64_t i = 0; i < size; i++) targets[row * size + i] = from[i + 1];
    }
}
