/* Keyed permutations (order/permutation.py), and the pieces of rows of documents (order/row_order.py). */

#include "loops.h"

#define NUM_ROUNDS 6
#define BLOCK 512 /* numbers of which it is remembered whether they go again */
#define LANES 8   /* numbers that go through the network together, so that none waits for another */

/* The permutation of range(size) by some keys: a Feistel network over 4^half_bits numbers. */
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

/* The rounds of the network for each lane, in place; the inverse takes the halves and the keys in the
   other order. */
static ALWAYS_INLINE void run_network(uint64_t x[LANES], const Permutation of[LANES], int inverse) {
    uint64_t one[LANES], other[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t left = x[lane] >> of[lane].half_bits, right = x[lane] & of[lane].mask;
        one[lane] = inverse ? right : left;
        other[lane] = inverse ? left : right;
    }
    for (int round = 0; round < NUM_ROUNDS; round++) {
        for (int lane = 0; lane < LANES; lane++) {
            uint64_t key = of[lane].keys[inverse ? NUM_ROUNDS - 1 - round : round];
            uint64_t next = one[lane] ^ (mix64(other[lane] ^ key) & of[lane].mask);
            one[lane] = other[lane];
            other[lane] = next;
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t left = inverse ? other[lane] : one[lane], right = inverse ? one[lane] : other[lane];
        x[lane] = left << of[lane].half_bits | right;
    }
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

/* Send the images at these places through their networks; those that are still outside of their range
   stay in `places`, and how many that are is returned. */
static ALWAYS_INLINE Py_ssize_t walk(const Job *job, const int64_t *which_of, int inverse, Py_ssize_t *places,
                                     Py_ssize_t count) {
    Py_ssize_t num_outside = 0;
    for (Py_ssize_t first = 0; first < count; first += LANES) {
        Py_ssize_t mine[LANES];
        uint64_t x[LANES];
        Permutation of[LANES];
        for (int lane = 0; lane < LANES; lane++) { /* the last ones may have the same place */
            mine[lane] = places[first + lane < count ? first + lane : count - 1];
            int64_t which = which_of ? which_of[mine[lane]] : 0;
            of[lane] = permutation_of(job->sizes[which], job->keys + which * NUM_ROUNDS);
            x[lane] = (uint64_t)job->images[mine[lane]];
        }
        run_network(x, of, inverse);
        for (int lane = 0; lane < LANES && first + lane < count; lane++) {
            job->images[mine[lane]] = (int64_t)x[lane];
            places[num_outside] = mine[lane];
            num_outside += x[lane] >= of[lane].size;
        }
    }
    return num_outside;
}

/* Returns 0 if a number is not in the range of its permutation. */
static int permute_block(const Job *job, Py_ssize_t first, Py_ssize_t stop) {
    Py_ssize_t places[BLOCK], count = stop - first;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t at = first + i;
        int64_t which = job->which ? job->which[at] : 0;
        if (which < 0 || which >= job->num_permutations || job->numbers[at] < 0 ||
            job->numbers[at] >= job->sizes[which])
            return 0;
        job->images[at] = job->numbers[at];
        places[i] = at;
    }
    while (count) {
        if (job->inverse)
            count = walk(job, job->which, 1, places, count);
        else if (job->which)
            count = walk(job, job->which, 0, places, count);
        else
            count = walk(job, NULL, 0, places, count); /* the usual case */
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
