/* The limit of loading: copy spans of uint16 ids out of one buffer, widen them to int64, and nothing
   else. No order, no state, no checks: bench/load.py builds it with the system's compiler. */

#include <stddef.h>
#include <stdint.h>

/* One array of rows x length. */
void one_array(const uint16_t *tokens, const int64_t *starts, int64_t rows, int64_t length, int64_t *out) {
    for (int64_t row = 0; row < rows; row++) {
        const uint16_t *from = tokens + starts[row];
        for (int64_t i = 0; i < length; i++) out[row * length + i] = from[i];
    }
}

/* Inputs and targets, rows x (length - 1) each, without gaps. */
void two_arrays(const uint16_t *tokens, const int64_t *starts, int64_t rows, int64_t length, int64_t *inputs,
                int64_t *targets) {
    int64_t size = length - 1;
    for (int64_t row = 0; row < rows; row++) {
        const uint16_t *from = tokens + starts[row];
        for (int64_t i = 0; i < size; i++) inputs[row * size + i] = from[i];
        for (int64_t i = 0; i < size; i++) targets[row * size + i] = from[i + 1];
    }
}
