/* What all loops need, and the functions of the module. */

#ifndef TOKENMILL_LOOPS_H
#define TOKENMILL_LOOPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "NumPy does the work on machines that are not little-endian"
#endif

/* Scramble 64 bits (the finalizer of splitmix64); `mix` of order/permutation.py. */
static inline uint64_t mix64(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Loops over many numbers that gain from wide registers are compiled twice: as they are, and for
   processors that have AVX-512. Where a compiler knows nothing of it, once. */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__) && !defined(TOKENMILL_NO_AVX512)
#include <immintrin.h>
#define HAS_AVX512
#define WIDE __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl")))
extern int has_wide; /* this processor has AVX-512, and the system saves its registers */
#else
#define WIDE
enum { has_wide = 0 };
#endif

PyObject *odd_texts(PyObject *self, PyObject *arguments);
PyObject *squeeze(PyObject *self, PyObject *arguments);
PyObject *lines_that_count(PyObject *self, PyObject *arguments);
PyObject *hash_lines(PyObject *self, PyObject *arguments);
PyObject *with_ends(PyObject *self, PyObject *arguments);
PyObject *mark_documents(PyObject *self, PyObject *arguments);
PyObject *spread_documents(PyObject *self, PyObject *arguments);
int add_maps(PyObject *module);
PyObject *augment_rows(PyObject *self, PyObject *arguments);
PyObject *permute(PyObject *self, PyObject *arguments);
PyObject *expand_rows(PyObject *self, PyObject *arguments);
PyObject *locate_pieces(PyObject *self, PyObject *arguments);
PyObject *split_words(PyObject *self, PyObject *arguments);
PyObject *measure_texts(PyObject *self, PyObject *arguments);
PyObject *clean_lines(PyObject *self, PyObject *arguments);
PyObject *spell(PyObject *self, PyObject *arguments);
PyObject *find_runs(PyObject *self, PyObject *arguments);
PyObject *hash_bands(PyObject *self, PyObject *arguments);
PyObject *compare_texts(PyObject *self, PyObject *arguments);

#endif
