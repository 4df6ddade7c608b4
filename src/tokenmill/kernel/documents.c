/* The fields of a batch that say where documents are; batches/document_masks.py has them in NumPy. */

#include "loops.h"

#include <string.h>

/* Rows of tokens with their documents. */
typedef struct {
    const uint8_t *continues; /* (rows, length): 0 where a token begins a document; column 0 means nothing */
    const int64_t *filled;    /* tokens of each row before its padding; NULL: all */
    Py_ssize_t num_rows, length;
} Rows;

/* Where documents, and then the padding, begin among the inputs of some rows: as many as there is room
   for. Returns how many there are; `*longest` is the largest number of inputs of one. */
static Py_ssize_t find_begins(const Rows *rows, Py_ssize_t first, Py_ssize_t num_rows, int32_t *begins,
                              Py_ssize_t room, int64_t *longest) {
    Py_ssize_t count = 0, num_inputs = rows->length - 1;
    *longest = 0;
    for (Py_ssize_t row = 0; row < num_rows; row++) {
        const uint8_t *continues = rows->continues + (first + row) * rows->length;
        Py_ssize_t filled = rows->filled ? rows->filled[first + row] : rows->length;
        Py_ssize_t stop = filled < num_inputs ? filled : num_inputs, column = 0;
        while (column < num_inputs) {
            const uint8_t *next = NULL;
            if (column + 1 < stop) next = memchr(continues + column + 1, 0, (size_t)(stop - column - 1));
            Py_ssize_t end = next ? next - continues : column < stop ? stop : num_inputs;
            if (count < room) begins[count] = (int32_t)(row * num_inputs + column);
            if (end - column > *longest) *longest = end - column;
            count++;
            column = end;
        }
    }
    return count;
}

/* mark_documents(cu_seqlens, counts, longest, continues, filled, length): of each batch, where its
   documents begin among its flat inputs, int32, then the number of inputs as often as there is room; how
   many documents it has, and the inputs of the longest one, int64. Where it has more documents than there
   is room for, only the first ones are written. `filled` may be None. */
PyObject *mark_documents(PyObject *self, PyObject *arguments) {
    Py_buffer cu_seqlens, counts, longest, continues, filled;
    Py_ssize_t length;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*w*w*y*z*n", &cu_seqlens, &counts, &longest, &continues, &filled, &length))
        return NULL;
    const Py_ssize_t word = (Py_ssize_t)sizeof(int64_t), half = (Py_ssize_t)sizeof(int32_t);
    Py_ssize_t num_batches = counts.len / word;
    int sound = num_batches > 0 && counts.len == num_batches * word && longest.len == counts.len && length > 1 &&
                continues.len % length == 0 && cu_seqlens.len % (num_batches * half) == 0 && cu_seqlens.len > 0;
    Rows rows = {continues.buf, filled.buf, sound ? continues.len / length : 0, length};
    Py_ssize_t num_rows = sound ? rows.num_rows / num_batches : 0, num_inputs = num_rows * (length - 1);
    sound = sound && rows.num_rows == num_rows * num_batches && num_inputs <= INT32_MAX &&
            (!filled.buf || filled.len == rows.num_rows * word);
    for (Py_ssize_t row = 0; sound && filled.buf && row < rows.num_rows; row++)
        sound = rows.filled[row] >= 0 && rows.filled[row] <= length;
    if (sound) {
        Py_ssize_t width = cu_seqlens.len / (num_batches * half);
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t batch = 0; batch < num_batches; batch++) {
            int32_t *begins = (int32_t *)cu_seqlens.buf + batch * width;
            Py_ssize_t count = find_begins(&rows, batch * num_rows, num_rows, begins, width - 1,
                                           (int64_t *)longest.buf + batch);
            ((int64_t *)counts.buf)[batch] = count;
            for (; count < width; count++) begins[count] = (int32_t)num_inputs;
            begins[width - 1] = (int32_t)num_inputs;
        }
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&cu_seqlens);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&longest);
    PyBuffer_Release(&continues);
    PyBuffer_Release(&filled);
    if (sound) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "the arrays are not those of some batches of rows");
    return NULL;
}

/* The number of its document in its row, for each input. */
static void number_documents(int32_t *out, const int32_t *begins, Py_ssize_t count, Py_ssize_t block_size) {
    Py_ssize_t row_stop = 0;
    int32_t number = 0;
    for (Py_ssize_t document = 0; document < count; document++, number++) {
        int32_t size = begins[document + 1] - begins[document];
        int32_t *at = out + begins[document];
        if (begins[document] >= row_stop) { /* the first one of a row */
            number = 0;
            row_stop = begins[document] + block_size;
        }
        for (int32_t i = 0; i < size; i++) at[i] = number;
    }
}

/* How many inputs are before it in its document, for each input. */
static void count_inputs(int32_t *out, const int32_t *begins, Py_ssize_t count) {
    for (Py_ssize_t document = 0; document < count; document++) {
        int32_t size = begins[document + 1] - begins[document];
        int32_t *at = out + begins[document];
        for (int32_t i = 0; i < size; i++) at[i] = i;
    }
}

/* spread_documents(out, begins, block_size): for each input, int32, the number of its document in its row;
   or, with block_size 0, its place in its document. `begins` are where documents begin among the flat
   inputs, and where the last one ends. */
PyObject *spread_documents(PyObject *self, PyObject *arguments) {
    Py_buffer out, given;
    Py_ssize_t block_size;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*y*n", &out, &given, &block_size)) return NULL;
    const int32_t *begins = given.buf;
    Py_ssize_t size = out.len / (Py_ssize_t)sizeof *begins, count = given.len / (Py_ssize_t)sizeof *begins - 1;
    int sound = count >= 0 && block_size >= 0 && block_size <= INT32_MAX && size <= INT32_MAX && begins[0] == 0 && begins[count] == size;
    for (Py_ssize_t document = 0; sound && document < count; document++)
        sound = begins[document] <= begins[document + 1];
    if (sound) {
        Py_BEGIN_ALLOW_THREADS;
        if (block_size)
            number_documents(out.buf, begins, count, block_size);
        else
            count_inputs(out.buf, begins, count);
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&given);
    if (sound) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "the documents do not fill the array");
    return NULL;
}
