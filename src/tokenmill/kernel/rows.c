/* Rows of documents: which pieces are in a row, and which document each piece is of. All arrays are int64;
   order/recipes.py and order/document_pieces.py have the same in NumPy. */

#include "loops.h"

#define MOST_ARRAYS 12

/* Arrays of int64 from a tuple: `num_out` to be written, all as long as the first, then others. */
typedef struct {
    Py_buffer view[MOST_ARRAYS];
    int count;
} Arrays;

static void release_arrays(Arrays *arrays) {
    for (int i = 0; i < arrays->count; i++) PyBuffer_Release(&arrays->view[i]);
}

static int get_arrays(PyObject *arguments, Arrays *arrays, int count, int num_out) {
    arrays->count = 0;
    if (PyTuple_Size(arguments) != count) {
        PyErr_SetString(PyExc_TypeError, "not as many arrays as this function takes");
        return 0;
    }
    for (int i = 0; i < count; i++) {
        Py_buffer *view = &arrays->view[i];
        int flags = i < num_out ? PyBUF_CONTIG : PyBUF_CONTIG_RO;
        if (PyObject_GetBuffer(PyTuple_GetItem(arguments, i), view, flags) < 0) break;
        arrays->count++;
        if (view->itemsize == (Py_ssize_t)sizeof(int64_t) && (i >= num_out || view->len == arrays->view[0].len))
            continue;
        PyErr_SetString(PyExc_ValueError, "the arrays must be int64, and those to fill of one length");
        break;
    }
    if (!PyErr_Occurred()) return 1;
    release_arrays(arrays);
    return 0;
}

static inline int64_t *numbers_of(const Arrays *arrays, int i) { return arrays->view[i].buf; }

static inline Py_ssize_t length_of(const Arrays *arrays, int i) {
    return arrays->view[i].len / (Py_ssize_t)sizeof(int64_t);
}

static PyObject *none_or_refuse(Arrays *arrays, int sound, const char *reason) {
    release_arrays(arrays);
    if (sound) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, reason);
    return NULL;
}

/* expand_rows(row, column, length, number, recipe, within, starts, columns, lengths, firsts, counts): the
   pieces of row `within[r]` of each recipe[r], one after the other, into the first four arrays. Those of
   recipe q have the entries starts[q] .. starts[q + 1] - 1 of the last four arrays, and piece p of row w
   has the number firsts[p] + w * counts[p]. */
PyObject *expand_rows(PyObject *self, PyObject *arguments) {
    enum { ROW, COLUMN, LENGTH, NUMBER, RECIPE, WITHIN, STARTS, COLUMNS, LENGTHS, FIRSTS, COUNTS, ALL };
    Arrays of;
    (void)self;
    if (!get_arrays(arguments, &of, ALL, NUMBER + 1)) return NULL;
    const int64_t *recipe = numbers_of(&of, RECIPE), *within = numbers_of(&of, WITHIN);
    const int64_t *starts = numbers_of(&of, STARTS), *columns = numbers_of(&of, COLUMNS);
    const int64_t *lengths = numbers_of(&of, LENGTHS), *firsts = numbers_of(&of, FIRSTS);
    const int64_t *counts = numbers_of(&of, COUNTS);
    int64_t *row = numbers_of(&of, ROW), *column = numbers_of(&of, COLUMN);
    int64_t *length = numbers_of(&of, LENGTH), *number = numbers_of(&of, NUMBER);
    Py_ssize_t num_rows = length_of(&of, RECIPE), num_recipes = length_of(&of, STARTS) - 1;
    Py_ssize_t num_entries = length_of(&of, COLUMNS), left = length_of(&of, ROW);
    int sound = length_of(&of, WITHIN) == num_rows && length_of(&of, LENGTHS) == num_entries &&
                length_of(&of, FIRSTS) == num_entries && length_of(&of, COUNTS) == num_entries;
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t r = 0; sound && r < num_rows; r++) {
        sound = recipe[r] >= 0 && recipe[r] < num_recipes;
        if (!sound) break;
        int64_t first = starts[recipe[r]], stop = starts[recipe[r] + 1];
        sound = first >= 0 && first <= stop && stop <= num_entries && stop - first <= left;
        if (!sound) break;
        left -= stop - first;
        for (int64_t entry = first; entry < stop; entry++) {
            *row++ = r;
            *column++ = columns[entry];
            *length++ = lengths[entry];
            *number++ = (int64_t)((uint64_t)firsts[entry] + (uint64_t)within[r] * (uint64_t)counts[entry]);
        }
    }
    Py_END_ALLOW_THREADS;
    return none_or_refuse(&of, sound && left == 0, "the pieces of the rows do not fill the arrays");
}

/* locate_pieces(document, piece, length, nth, runs, starts, documents, pieces, counts): of the piece nth[i]
   among all of length[i], its document and which of its pieces it is. Pieces of length l are in the runs
   runs[l] .. runs[l + 1] - 1: run q begins with the number starts[q] of its length, with document
   documents[q], and each of its documents has counts[q] pieces in it, of which the first is pieces[q]. */
PyObject *locate_pieces(PyObject *self, PyObject *arguments) {
    enum { DOCUMENT, PIECE, LENGTH, NTH, RUNS, STARTS, DOCUMENTS, PIECES, COUNTS, ALL };
    Arrays of;
    (void)self;
    if (!get_arrays(arguments, &of, ALL, PIECE + 1)) return NULL;
    const int64_t *length = numbers_of(&of, LENGTH), *nth = numbers_of(&of, NTH);
    const int64_t *runs = numbers_of(&of, RUNS), *starts = numbers_of(&of, STARTS);
    const int64_t *documents = numbers_of(&of, DOCUMENTS), *pieces = numbers_of(&of, PIECES);
    const int64_t *counts = numbers_of(&of, COUNTS);
    int64_t *document = numbers_of(&of, DOCUMENT), *piece = numbers_of(&of, PIECE);
    Py_ssize_t num_pieces = length_of(&of, DOCUMENT), num_lengths = length_of(&of, RUNS) - 1;
    Py_ssize_t num_runs = length_of(&of, STARTS);
    int sound = length_of(&of, LENGTH) == num_pieces && length_of(&of, NTH) == num_pieces &&
                length_of(&of, DOCUMENTS) == num_runs && length_of(&of, PIECES) == num_runs &&
                length_of(&of, COUNTS) == num_runs;
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; sound && i < num_pieces; i++) {
        sound = length[i] >= 0 && length[i] < num_lengths;
        if (!sound) break;
        int64_t low = runs[length[i]], high = runs[length[i] + 1];
        sound = low >= 0 && low < high && high <= num_runs && nth[i] >= starts[low] && starts[low] >= 0;
        if (!sound) break;
        while (high - low > 1) { /* starts[low] <= nth */
            int64_t middle = low + (high - low) / 2;
            if (starts[middle] <= nth[i])
                low = middle;
            else
                high = middle;
        }
        sound = counts[low] > 0;
        if (!sound) break;
        uint64_t offset = (uint64_t)nth[i] - (uint64_t)starts[low], each = (uint64_t)counts[low];
        document[i] = (int64_t)((uint64_t)documents[low] + (each == 1 ? offset : offset / each));
        piece[i] = (int64_t)((uint64_t)pieces[low] + (each == 1 ? 0 : offset % each));
    }
    Py_END_ALLOW_THREADS;
    return none_or_refuse(&of, sound, "a piece is not among those of its length");
}
