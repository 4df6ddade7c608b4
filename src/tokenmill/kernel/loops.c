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
    {"split_words", split_words, METH_VARARGS, NULL},
    {"measure_texts", measure_texts, METH_VARARGS, NULL},
    {"clean_lines", clean_lines, METH_VARARGS, NULL},
    {"spell", spell, METH_VARARGS, NULL},
    {"find_runs", find_runs, METH_VARARGS, NULL},
    {"hash_bands", hash_bands, METH_VARARGS, NULL},
    {"compare_texts", compare_texts, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "loops", NULL, -1, METHODS, NULL, NULL, NULL, NULL,
};

#ifdef HAS_AVX512
#include <cpuid.h>

int has_wide = 0;

/* Not __builtin_cpu_supports: that needs a library of gcc, which not every linker has. */
static int find_wide(void) {
    enum { OSXSAVE = 1 << 27, SAVED = 0xE6 }; /* bits of xmm, ymm and of the three parts of zmm */
    const unsigned wanted = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* F, DQ, CD, BW, VL */
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & SAVED) != SAVED || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return (b & wanted) == wanted;
}
#endif

PyMODINIT_FUNC PyInit_loops(void) {
#ifdef HAS_AVX512
    has_wide = find_wide();
#endif
    PyObject *module = PyModule_Create(&MODULE);
    if (module && add_maps(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
