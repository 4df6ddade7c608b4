/* What all loops need, and the functions of the module. */

#ifndef TOKENMILL_LOOPS_H
#define TOKENMILL_LOOPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "NumPy does the work on machines that are not little-endian"
#endif

PyObject *odd_texts(PyObject *self, PyObject *arguments);
PyObject *squeeze(PyObject *self, PyObject *arguments);
PyObject *lines_that_count(PyObject *self, PyObject *arguments);
PyObject *hash_lines(PyObject *self, PyObject *arguments);
PyObject *with_ends(PyObject *self, PyObject *arguments);
PyObject *fill_spans(PyObject *self, PyObject *arguments);
PyObject *count_spans(PyObject *self, PyObject *arguments);
int add_maps(PyObject *module);

#endif
