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

PyObject *odd_texts(PyObject *self, PyObject *arguments);
PyObject *squeeze(PyObject *self, PyObject *arguments);
PyObject *lines_that_count(PyObject *self, PyObject *arguments);
PyObject *hash_lines(PyObject *self, PyObject *arguments);
PyObject *with_ends(PyObject *self, PyObject *arguments);
PyObject *fill_spans(PyObject *self, PyObject *arguments);
PyObject *count_spans(PyObject *self, PyObject *arguments);
int add_maps(PyObject *module);
PyObject *change_inputs(PyObject *self, PyObject *arguments);
PyObject *drop_tokens(PyObject *self, PyObject *arguments);
PyObject *fill_in_the_middle(PyObject *self, PyObject *arguments);
PyObject *next_tokens(PyObject *self, PyObject *arguments);
PyObject *permute(PyObject *self, PyObject *arguments);
PyObject *expand_rows(PyObject *self, PyObject *arguments);
PyObject *locate_pieces(PyObject *self, PyObject *arguments);

#endif
