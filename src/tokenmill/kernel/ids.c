/* Ids of many texts, as they are written to a file. */

#include "loops.h"

/* with_ends(out, width, ids, ends, complete, end_of_text): the ids (uint32) in 2 or 4 bytes each, with
   the end-of-text id after every text that is complete; texts end at `ends` (int64) in `ids`. */
PyObject *with_ends(PyObject *self, PyObject *arguments) {
    Py_buffer out, ids, ends, complete;
    int width;
    unsigned int end_of_text;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*iy*y*y*I", &out, &width, &ids, &ends, &complete, &end_of_text))
        return NULL;
    const int64_t *end = ends.buf;
    const uint32_t *id = ids.buf;
    const uint8_t *is_complete = complete.buf;
    Py_ssize_t num_texts = complete.len, num_ids = ids.len / (Py_ssize_t)sizeof *id;
    Py_ssize_t num_written = num_ids;
    int64_t last = 0;
    int sound = (width == 2 || width == 4) && ends.len == num_texts * (Py_ssize_t)sizeof *end;
    for (Py_ssize_t text = 0; sound && text < num_texts; text++) {
        sound = end[text] >= last && end[text] <= num_ids;
        last = end[text];
        num_written += is_complete[text] != 0;
    }
    sound = sound && last == num_ids && out.len == num_written * width;
    if (!sound) PyErr_SetString(PyExc_ValueError, "the texts do not fill the array");
    uint16_t *narrow = out.buf;
    uint32_t *wide = out.buf;
    int64_t at = 0;
    for (Py_ssize_t text = 0; sound && text < num_texts; text++) {
        if (width == 2) {
            for (; at < end[text]; at++) *narrow++ = (uint16_t)id[at];
            if (is_complete[text]) *narrow++ = (uint16_t)end_of_text;
        } else {
            for (; at < end[text]; at++) *wide++ = id[at];
            if (is_complete[text]) *wide++ = end_of_text;
        }
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&ids);
    PyBuffer_Release(&ends);
    PyBuffer_Release(&complete);
    if (!sound) return NULL;
    Py_RETURN_NONE;
}
