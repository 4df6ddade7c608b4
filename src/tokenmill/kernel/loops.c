/* The module `tokenmill.kernel.loops`; what each function does is said where it is. */

#include "loops.h"

static PyMethodDef METHODS[] = {
    {"odd_texts", odd_texts, METH_VARARGS, NULL},
    {"squeeze", squeeze, METH_VARARGS, NULL},
    {"lines_that_count", lines_that_count, METH_VARARGS, NULL},
    {"hash_lines", hash_lines, METH_VARARGS, NULL},
    {"with_ends", with_ends, METH_VARARGS, NULL},
    {"mark_documents", mark_documents, METH_VARARGS, NULL},
    {"spread_documents", spread_documents, METH_VARARGS, NULL},
    {"augment_rows", augment_rows, METH_VARARGS, NULL},
    {"permute", permute, METH_VARARGS, NULL},
    {"expand_rows", expand_rows, METH_VARARGS, NULL},
    {"locate_pieces", locate_pieces, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "loops", NULL, -1, METHODS, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_loops(void) {
    PyObject *module = PyModule_Create(&MODULE);
    if (module && add_maps(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
