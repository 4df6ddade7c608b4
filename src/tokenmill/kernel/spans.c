/* The fields of a batch that are as large as the batch: a value for each token, by its document. */

#include "loops.h"

/* The spans and the array to fill: `lengths` are int64, and add up to the int32 of `out`. */
static int parse_spans(PyObject *arguments, const char *format, Py_buffer *out, Py_buffer *lengths,
                       Py_buffer *values) {
    if (!PyArg_ParseTuple(arguments, format, out, lengths, values)) return 0;
    const int64_t *length = lengths->buf;
    int64_t left = out->len / (Py_ssize_t)sizeof(int32_t);
    for (Py_ssize_t span = 0; span < lengths->len / (Py_ssize_t)sizeof *length; span++) {
        if (length[span] < 0 || length[span] > left) {
            left = -1;
            break;
        }
        left -= length[span];
    }
    int sound = left == 0 && (!values || 2 * values->len == lengths->len);
    if (!sound) {
        PyErr_SetString(PyExc_ValueError, "the spans do not fill the array");
        PyBuffer_Release(out);
        PyBuffer_Release(lengths);
        if (values) PyBuffer_Release(values);
    }
    return sound;
}

/* fill_spans(out, lengths, values): the value of each span, as often as it is long. */
PyObject *fill_spans(PyObject *self, PyObject *arguments) {
    Py_buffer out, lengths, values;
    (void)self;
    if (!parse_spans(arguments, "w*y*y*", &out, &lengths, &values)) return NULL;
    const int64_t *length = lengths.buf;
    const int32_t *value = values.buf;
    int32_t *at = out.buf;
    for (Py_ssize_t span = 0; span < lengths.len / (Py_ssize_t)sizeof *length; span++)
        for (int32_t *stop = at + length[span]; at < stop; at++) *at = value[span];
    PyBuffer_Release(&out);
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&values);
    Py_RETURN_NONE;
}

/* count_spans(out, lengths): 0, 1, 2, ... in each span. */
PyObject *count_spans(PyObject *self, PyObject *arguments) {
    Py_buffer out, lengths;
    (void)self;
    if (!parse_spans(arguments, "w*y*", &out, &lengths, NULL)) return NULL;
    const int64_t *length = lengths.buf;
    int32_t *at = out.buf;
    for (Py_ssize_t span = 0; span < lengths.len / (Py_ssize_t)sizeof *length; span++) {
        int32_t size = (int32_t)length[span];
        for (int32_t place = 0; place < size; place++) at[place] = place;
        at += size;
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&lengths);
    Py_RETURN_NONE;
}
