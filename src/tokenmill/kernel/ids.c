/* Ids of many texts, as they are written to a file, and ids back to text. */

#include "loops.h"

#include <string.h>

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

#define SHORT 16 /* bytes that are copied together: nearly every spelling is shorter */

static inline uint32_t id_at(const Py_buffer *ids, int width, Py_ssize_t at) {
    return width == 2 ? ((const uint16_t *)ids->buf)[at] : ((const uint32_t *)ids->buf)[at];
}

/* spell(ids, width, text, edges): the spellings of ids of 2 or 4 bytes, one after the other. That of id i
   is in `text` from edges[i] up to edges[i + 1] (int32). */
PyObject *spell(PyObject *self, PyObject *arguments) {
    Py_buffer ids, text, edges;
    int width;
    PyObject *found = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*iy*y*", &ids, &width, &text, &edges)) return NULL;
    const int32_t *edge = edges.buf;
    Py_ssize_t size = edges.len / (Py_ssize_t)sizeof *edge - 1, total = 0;
    Py_ssize_t num_ids = width == 2 || width == 4 ? ids.len / width : 0;
    int sound = size >= 0 && num_ids * width == ids.len;
    for (Py_ssize_t at = 0; sound && at < num_ids; at++) {
        uint32_t id = id_at(&ids, width, at);
        sound = id < (uint64_t)size && 0 <= edge[id] && edge[id] <= edge[id + 1] && edge[id + 1] <= text.len;
        if (sound) total += edge[id + 1] - edge[id];
    }
    if (sound)
        found = PyBytes_FromStringAndSize(NULL, total);
    else
        PyErr_SetString(PyExc_ValueError, "the ids are not those of the spellings");
    char *out = found ? PyBytes_AsString(found) : NULL;
    for (Py_ssize_t at = 0, done = 0; found && at < num_ids; at++) {
        uint32_t id = id_at(&ids, width, at);
        Py_ssize_t begin = edge[id], length = edge[id + 1] - begin;
        if (length <= SHORT && begin + SHORT <= text.len && done + SHORT <= total)
            memcpy(out + done, (const char *)text.buf + begin, SHORT);
        else
            memcpy(out + done, (const char *)text.buf + begin, (size_t)length);
        done += length;
    }
    PyBuffer_Release(&ids);
    PyBuffer_Release(&text);
    PyBuffer_Release(&edges);
    return found;
}
