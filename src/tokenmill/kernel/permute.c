/* Keyed permutations (order/permutation.py), and the pieces of rows of documents (order/row_order.py). */

#include "loops.h"

#include <string.h>

#define NUM_ROUNDS 6
#define BLOCK 512 /* numbers of which it is remembered whether they go again */
#define LANES 8   /* numbers that go through the network together, so that none waits for another */

/* Numbers that go through their networks together. A permutation of range(size) by some keys is a Feistel
   network over 4^half_bits numbers. */
typedef struct {
    uint64_t x[LANES], size[LANES], half_bits[LANES];
    const uint64_t *keys[LANES]; /* of each round */
} Lanes;

static inline uint64_t half_bits_of(uint64_t size) {
    int bits = size > 1 ? 64 - __builtin_clzll(size - 1) : 0;
    return bits > 2 ? (uint64_t)(bits + 1) / 2 : 1;
}

/* The rounds of the network for each lane, in place; the inverse takes the halves and the keys in the
   other order. */
static ALWAYS_INLINE void run_network(Lanes *lanes, int inverse) {
    uint64_t one[LANES], other[LANES], mask[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        mask[lane] = (UINT64_C(1) << lanes->half_bits[lane]) - 1;
        uint64_t left = lanes->x[lane] >> lanes->half_bits[lane], right = lanes->x[lane] & mask[lane];
        one[lane] = inverse ? right : left;
        other[lane] = inverse ? left : right;
    }
    for (int round = 0; round < NUM_ROUNDS; round++) {
        for (int lane = 0; lane < LANES; lane++) {
            uint64_t key = lanes->keys[lane][inverse ? NUM_ROUNDS - 1 - round : round];
            uint64_t next = one[lane] ^ (mix64(other[lane] ^ key) & mask[lane]);
            one[lane] = other[lane];
            other[lane] = next;
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t left = inverse ? other[lane] : one[lane], right = inverse ? one[lane] : other[lane];
        lanes->x[lane] = left << lanes->half_bits[lane] | right;
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
        Lanes lanes;
        for (int lane = 0; lane < LANES; lane++) { /* the last ones may have the same place */
            mine[lane] = places[first + lane < count ? first + lane : count - 1];
            int64_t which = which_of ? which_of[mine[lane]] : 0;
            lanes.size[lane] = (uint64_t)job->sizes[which];
            lanes.half_bits[lane] = half_bits_of(lanes.size[lane]);
            lanes.keys[lane] = job->keys + which * NUM_ROUNDS;
            lanes.x[lane] = (uint64_t)job->images[mine[lane]];
        }
        run_network(&lanes, inverse);
        for (int lane = 0; lane < LANES && first + lane < count; lane++) {
            job->images[mine[lane]] = (int64_t)lanes.x[lane];
            places[num_outside] = mine[lane];
            num_outside += lanes.x[lane] >= lanes.size[lane];
        }
    }
    return num_outside;
}

#ifdef HAS_AVX512
WIDE static inline __m512i mix64_wide(__m512i x) {
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 30)), _mm512_set1_epi64((int64_t)0xBF58476D1CE4E5B9u));
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 27)), _mm512_set1_epi64((int64_t)0x94D049BB133111EBu));
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

/* The same, eight numbers in a register. */
WIDE static inline Py_ssize_t walk_wide(const Job *job, const int64_t *which_of, int inverse, Py_ssize_t *places,
                                          Py_ssize_t count) {
    const __m512i zeros = _mm512_setzero_si512(), ones = _mm512_set1_epi64(1);
    Py_ssize_t num_outside = 0;
    for (Py_ssize_t first = 0; first < count; first += LANES) {
        __mmask8 here = (__mmask8)(count - first < LANES ? (1 << (count - first)) - 1 : 0xFF);
        __m512i mine = _mm512_maskz_loadu_epi64(here, places + first);
        __m512i which = which_of ? _mm512_mask_i64gather_epi64(zeros, here, mine, which_of, 8) : zeros;
        __m512i size = which_of ? _mm512_mask_i64gather_epi64(ones, here, which, job->sizes, 8) : _mm512_set1_epi64(job->sizes[0]);
        __m512i x = _mm512_mask_i64gather_epi64(zeros, here, mine, job->images, 8);
        __m512i bits = _mm512_sub_epi64(_mm512_set1_epi64(64), _mm512_lzcnt_epi64(_mm512_sub_epi64(size, ones)));
        __m512i half_bits = _mm512_max_epi64(_mm512_srli_epi64(_mm512_add_epi64(bits, ones), 1), ones);
        __m512i mask = _mm512_sub_epi64(_mm512_sllv_epi64(ones, half_bits), ones);
        __m512i left = _mm512_srlv_epi64(x, half_bits), right = _mm512_and_si512(x, mask);
        __m512i one = inverse ? right : left, other = inverse ? left : right;
        const __m512i row = _mm512_mullo_epi64(which, _mm512_set1_epi64(NUM_ROUNDS)); /* of keys */
        for (int round = 0; round < NUM_ROUNDS; round++) {
            const uint64_t *keys = job->keys + (inverse ? NUM_ROUNDS - 1 - round : round);
            __m512i key = which_of ? _mm512_i64gather_epi64(row, keys, 8) : _mm512_set1_epi64((int64_t)*keys);
            __m512i mixed = _mm512_and_si512(mix64_wide(_mm512_xor_si512(other, key)), mask);
            __m512i next = _mm512_xor_si512(one, mixed);
            one = other;
            other = next;
        }
        left = inverse ? other : one, right = inverse ? one : other;
        x = _mm512_or_si512(_mm512_sllv_epi64(left, half_bits), right);
        _mm512_mask_i64scatter_epi64(job->images, here, mine, x, 8);
        __mmask8 outside = _mm512_mask_cmpge_epu64_mask(here, x, size);
        _mm512_storeu_si512(places + num_outside, _mm512_maskz_compress_epi64(outside, mine)); /* not after `first` */
        num_outside += __builtin_popcount(outside);
    }
    return num_outside;
}
#else
#define walk_wide walk
#endif

/* Returns 0 if a number is not in the range of its permutation. */
static ALWAYS_INLINE int permute_block(const Job *job, Py_ssize_t first, Py_ssize_t stop, int is_wide) {
    Py_ssize_t places[BLOCK + LANES], count = stop - first;
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
            count = (is_wide ? walk_wide : walk)(job, job->which, 1, places, count);
        else if (job->which)
            count = (is_wide ? walk_wide : walk)(job, job->which, 0, places, count);
        else
            count = (is_wide ? walk_wide : walk)(job, NULL, 0, places, count); /* the usual case */
    }
    return 1;
}

static int permute_plain(const Job *job, Py_ssize_t first, Py_ssize_t stop) {
    return permute_block(job, first, stop, 0);
}

WIDE static int permute_wide(const Job *job, Py_ssize_t first, Py_ssize_t stop) {
    return permute_block(job, first, stop, 1);
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
        const int is_wide = has_wide;
        for (Py_ssize_t at = 0; sound && at < count; at += BLOCK)
            sound = (is_wide ? permute_wide : permute_plain)(&job, at, count - at < BLOCK ? count : at + BLOCK);
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
