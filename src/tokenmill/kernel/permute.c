/* Keyed permutations (order/permutation.py), and the pieces of rows of documents (order/row_order.py). */

#include "loops.h"

#define NUM_ROUNDS 6
#define BLOCK 512 /* numbers that are sent through the network together: they do not wait for each other */

typedef struct {
    uint64_t size, mask;
    int half_bits;
    const uint64_t *keys; /* of each round */
} Permutation;

static inline Permutation permutation_of(int64_t size, const uint64_t *keys) {
    int bits = size > 1 ? 64 - __builtin_clzll((uint64_t)size - 1) : 0;
    int half_bits = bits > 2 ? (bits + 1) / 2 : 1;
    return (Permutation){(uint64_t)size, (UINT64_C(1) << half_bits) - 1, half_bits, keys};
}

/* A Feistel network over 4^half_bits numbers and its inverse. */
static inline uint64_t network(uint64_t x, const Permutation *of, int inverse) {
    uint64_t left = x >> of->half_bits, right = x & of->mask;
    if (inverse) {
        uint64_t swapped = left;
        left = right;
        right = swapped;
    }
    for (int i = 0; i < NUM_ROUNDS; i++) {
        uint64_t key = of->keys[inverse ? NUM_ROUNDS - 1 - i : i];
        uint64_t next = left ^ (mix64(right ^ key) & of->mask);
        left = right;
        right = next;
    }
    return inverse ? right << of->half_bits | left : left << of->half_bits | right;
}

/* Some numbers and their permutations. */
typedef struct {
    const int64_t *numbers, *which; /* which may be NULL: all have the first permutation */
    int64_t *images;
    const int64_t *sizes;
    const uint64_t *keys;
    Py_ssize_t num_permutations;
    int inverse;
} Job;

static inline Permutation permutation_at(const Job *job, Py_ssize_t at) {
    int64_t which = job->which ? job->which[at] : 0;
    return permutation_of(job->sizes[which], job->keys + which * NUM_ROUNDS);
}

static inline int is_in_range(const Job *job, Py_ssize_t at) {
    int64_t which = job->which ? job->which[at] : 0;
    return which >= 0 && which < job->num_permutations && job->numbers[at] >= 0 &&
           job->numbers[at] < job->sizes[which];
}

/* Send a block of numbers through their networks; those that fall outside of their range go again, until
   none is left there. Returns 0 if a number is not in the range of its permutation. */
static int permute_block(const Job *job, Py_ssize_t first, Py_ssize_t stop) {
    Py_ssize_t outside[BLOCK], num_outside = 0;
    for (Py_ssize_t at = first; at < stop; at++) {
        if (!is_in_range(job, at)) return 0;
    }
    for (Py_ssize_t at = first; at < stop; at++) {
        Permutation of = permutation_at(job, at);
        uint64_t image = network((uint64_t)job->numbers[at], &of, job->inverse);
        job->images[at] = (int64_t)image;
        outside[num_outside] = at;
        num_outside += image >= of.size;
    }
    while (num_outside) {
        Py_ssize_t num_still = 0;
        for (Py_ssize_t i = 0; i < num_outside; i++) {
            Py_ssize_t at = outside[i];
            Permutation of = permutation_at(job, at);
            uint64_t image = network((uint64_t)job->images[at], &of, job->inverse);
            job->images[at] = (int64_t)image;
            outside[num_still] = at;
            num_still += image >= of.size;
        }
        num_outside = num_still;
    }
    return 1;
}

/* permute(images, numbers, which, sizes, keys, inverse): each number's image under the permutation of
   range(sizes[w]) by keys[w], w = which[i]; or 0 for all, if `which` is None. All are 8 bytes wide;
   `keys` is (permutations, rounds). */
PyObject *permute(PyObject *self, PyObject *arguments) {
    Py_buffer images, numbers, which, sizes, keys;
    int inverse;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*y*z*y*y*p", &images, &numbers, &which, &sizes, &keys, &inverse))
        return NULL;
    Py_ssize_t words = (Py_ssize_t)sizeof(int64_t), count = numbers.len / words;
    Job job = {numbers.buf, which.buf, images.buf, sizes.buf, keys.buf, sizes.len / words, inverse};
    int sound = numbers.len % words == 0 && images.len == numbers.len &&
                (!which.buf || which.len == numbers.len) && sizes.len % words == 0 &&
                keys.len == sizes.len * NUM_ROUNDS;
    if (sound) {
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t at = 0; sound && at < count; at += BLOCK)
            sound = permute_block(&job, at, count - at < BLOCK ? count : at + BLOCK);
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&images);
    PyBuffer_Release(&numbers);
    PyBuffer_Release(&which);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&keys);
    if (sound) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "a number is not in the range of its permutation");
    return NULL;
}
