/* Spans of tokens are copied out of mapped files into the rows of a batch, and widened on the way; columns of
   these tokens (a bit or some bytes per token) by the same spans. */

#include "loops.h"

#include <stdlib.h>
#include <string.h>

/* Runs of tokens, or of the values of a column, that follow each other on one axis; those that are there, each
   in its buffer. */
typedef struct {
    PyObject_HEAD
    int64_t num_runs;
    int64_t *edges;     /* num_runs + 1: where each run begins on the axis, and where the last ends */
    int64_t equal;      /* tokens of every run but the last; 0 if they differ */
    int width;          /* bytes of a token; 0: one bit */
    int is_signed;
    Py_buffer **views;  /* of each run; NULL: not there */
    const char **tokens; /* the first one of each run; NULL: not there */
    uint8_t *skipped;   /* bits of the first byte of each run that come before its first token */
    int in_use;         /* calls that copy just now, without the lock of the interpreter */
} Maps;

enum { MAX_COLUMNS = 16, MAX_WIDTH = 8192 }; /* width in bytes */

/* Tokens may begin at any byte of a file. */
#define ANY __attribute__((aligned(1), may_alias))
typedef int8_t ANY any_i8;
typedef uint8_t ANY any_u8;
typedef int16_t ANY any_i16;
typedef uint16_t ANY any_u16;
typedef int32_t ANY any_i32;
typedef uint32_t ANY any_u32;
typedef int64_t ANY any_i64;
typedef uint64_t ANY any_u64;

typedef void (*Copy)(void *to, const void *from, int64_t count);

#define COPY(FROM, TO)                                                                   \
    static void copy_##FROM##_##TO(void *to, const void *from, int64_t count) {          \
        const any_##FROM *source = from;                                                 \
        any_##TO *out = to;                                                              \
        if (sizeof *out == sizeof *source)                                               \
            memmove(out, source, (size_t)count * sizeof *out);                           \
        else                                                                             \
            for (int64_t i = 0; i < count; i++) out[i] = (any_##TO)source[i];            \
    }
#define COPIES(FROM) COPY(FROM, u8) COPY(FROM, u16) COPY(FROM, u32) COPY(FROM, u64)
COPIES(i8) COPIES(u8) COPIES(i16) COPIES(u16) COPIES(i32) COPIES(u32) COPIES(i64) COPIES(u64)

#define ROW(FROM) {copy_##FROM##_u8, copy_##FROM##_u16, copy_##FROM##_u32, copy_##FROM##_u64}
/* By bytes of a stored token and its sign, then by bytes of a token of the batch. */
static const Copy COPY_OF[8][4] = {ROW(u8), ROW(i8), ROW(u16), ROW(i16), ROW(u32), ROW(i32), ROW(u64), ROW(i64)};

#define LARGEST(FROM)                                                                    \
    static uint64_t largest_##FROM(const void *from, int64_t count) {                    \
        const any_##FROM *source = from;                                                 \
        any_##FROM largest = 0;                                                          \
        for (int64_t i = 0; i < count; i++) largest = source[i] > largest ? source[i] : largest; \
        return largest;                                                                  \
    }
LARGEST(u8) LARGEST(u16) LARGEST(u32) LARGEST(u64)
static uint64_t (*const LARGEST_OF[4])(const void *, int64_t) = {largest_u8, largest_u16, largest_u32, largest_u64};

/* Clears the flag of each token that is the mark. */
#define UNMARK(FROM)                                                                     \
    static void unmark_##FROM(uint8_t *flags, const void *from, int64_t count, uint64_t mark) { \
        const any_##FROM *source = from;                                                 \
        for (int64_t i = 0; i < count; i++) flags[i] &= source[i] != (any_##FROM)mark;   \
    }
UNMARK(u8) UNMARK(u16) UNMARK(u32) UNMARK(u64)
static void (*const UNMARK_OF[4])(uint8_t *, const void *, int64_t, uint64_t) = {unmark_u8, unmark_u16, unmark_u32,
                                                                                 unmark_u64};

static uint8_t BITS_OF[256][8]; /* each byte as eight, its lowest bit first */

#ifdef HAS_AVX512
/* Writes 64 bits at a time as bytes; returns how many of `count` are done. */
WIDE static int64_t copy_bits_wide(char *out, const uint8_t *bytes, int64_t count) {
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) {
        uint64_t bits;
        memcpy(&bits, bytes + i / 8, sizeof bits);
        _mm512_storeu_si512(out + i, _mm512_maskz_set1_epi8(bits, 1));
    }
    return i;
}
#endif

/* Writes each bit, from number `bit` on, as a byte. */
static void copy_bits(char *out, const char *from, int64_t bit, int64_t count) {
    const uint8_t *bytes = (const uint8_t *)from;
    int64_t i = 0;
    for (; i < count && (bit + i) % 8; i++) out[i] = bytes[(bit + i) / 8] >> (bit + i) % 8 & 1;
#ifdef HAS_AVX512
    if (has_wide) i += copy_bits_wide(out + i, bytes + (bit + i) / 8, count - i);
#endif
    for (; i + 8 <= count; i += 8) memcpy(out + i, BITS_OF[bytes[(bit + i) / 8]], 8);
    for (; i < count; i++) out[i] = bytes[(bit + i) / 8] >> (bit + i) % 8 & 1;
}

/* 0, 1, 2, 3 for 1, 2, 4, 8 bytes; else -1. */
static int power_of(Py_ssize_t width) {
    return width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : width == 8 ? 3 : -1;
}

/* The run that holds a token of the axis. */
static inline int64_t run_of(const Maps *self, int64_t token) {
    if (self->equal) return token / self->equal;
    int64_t low = 0, high = self->num_runs; /* edges[low] <= token < edges[high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (self->edges[middle] <= token)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void release(Maps *self, int64_t run) {
    if (!self->views[run]) return;
    PyBuffer_Release(self->views[run]);
    free(self->views[run]);
    self->views[run] = NULL;
    self->tokens[run] = NULL;
}

static void maps_dealloc(PyObject *object) {
    Maps *self = (Maps *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int64_t run = 0; self->tokens && run < self->num_runs; run++) release(self, run);
    free(self->views);
    free(self->tokens);
    free(self->skipped);
    free(self->edges);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(object);
    Py_DECREF(type);
}

/* Maps(edges, width, is_signed): `edges` are int64, rise from 0, and hold one run at least. Tokens have 1, 2, 4
   or 8 bytes; the values of a column may have any number, or 0: one bit each. */
static PyObject *maps_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    Py_buffer edges;
    int width, is_signed;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "y*ip", &edges, &width, &is_signed)) return NULL;
    const int64_t *given = edges.buf;
    int64_t num_runs = edges.len / (Py_ssize_t)sizeof *given - 1;
    int sound = edges.len % (Py_ssize_t)sizeof *given == 0 && num_runs > 0 && width >= 0 && width <= MAX_WIDTH;
    for (int64_t run = 0; sound && run < num_runs; run++) sound = given[run] <= given[run + 1];
    /* So that no position in bytes is beyond what 64 bits hold. */
    sound = sound && given[0] == 0 && given[num_runs] <= INT64_MAX / MAX_WIDTH / 2;
    Maps *self = NULL;
    if (sound) {
        allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
        self = (Maps *)allocate(type, 0); /* zeroed */
    } else {
        PyErr_SetString(PyExc_ValueError, "the edges of runs must rise from 0, and values have at most 8192 bytes");
    }
    if (self) {
        self->num_runs = num_runs;
        self->width = width;
        self->is_signed = is_signed;
        self->edges = malloc((size_t)edges.len);
        self->views = calloc((size_t)num_runs, sizeof *self->views);
        self->tokens = calloc((size_t)num_runs, sizeof *self->tokens);
        self->skipped = calloc((size_t)num_runs, sizeof *self->skipped);
        if (!self->edges || !self->views || !self->tokens || !self->skipped) {
            PyErr_NoMemory();
            Py_DECREF((PyObject *)self);
            self = NULL;
        }
    }
    if (self) {
        for (int64_t edge = 0; edge <= num_runs; edge++) self->edges[edge] = given[edge];
        self->equal = given[1];
        for (int64_t run = 1; run < num_runs; run++) {
            int64_t size = given[run + 1] - given[run];
            if (run + 1 < num_runs ? size != self->equal : size > self->equal || !size) self->equal = 0;
        }
    }
    PyBuffer_Release(&edges);
    return (PyObject *)self;
}

/* Both `put` and `drop` change what other threads may be copying from. */
static int may_change(Maps *self, Py_ssize_t run) {
    if (self->in_use) {
        PyErr_SetString(PyExc_RuntimeError, "another thread copies from these maps");
        return 0;
    }
    if (run < 0 || run >= self->num_runs) {
        PyErr_SetString(PyExc_IndexError, "there is no such run");
        return 0;
    }
    return 1;
}

/* put(run, tokens, skipped = 0): the tokens of a run, in a buffer that is kept until it is dropped. Of bits, the
   first `skipped` of the buffer are not of this run. */
static PyObject *maps_put(PyObject *object, PyObject *arguments) {
    Maps *self = (Maps *)object;
    Py_ssize_t run;
    PyObject *tokens;
    unsigned char skipped = 0;
    if (!PyArg_ParseTuple(arguments, "nO|b", &run, &tokens, &skipped) || !may_change(self, run)) return NULL;
    Py_buffer *view = malloc(sizeof *view);
    if (!view) return PyErr_NoMemory();
    if (PyObject_GetBuffer(tokens, view, PyBUF_SIMPLE)) {
        free(view);
        return NULL;
    }
    int64_t count = self->edges[run + 1] - self->edges[run];
    if (view->len != (self->width ? count * self->width : (count + skipped + 7) / 8)) {
        PyBuffer_Release(view);
        free(view);
        PyErr_SetString(PyExc_ValueError, "the buffer is not as long as its run");
        return NULL;
    }
    release(self, run);
    self->views[run] = view;
    self->tokens[run] = view->buf;
    self->skipped[run] = skipped;
    Py_RETURN_NONE;
}

/* drop(run): let its buffer go. */
static PyObject *maps_drop(PyObject *object, PyObject *arguments) {
    Maps *self = (Maps *)object;
    Py_ssize_t run;
    if (!PyArg_ParseTuple(arguments, "n", &run) || !may_change(self, run)) return NULL;
    release(self, run);
    Py_RETURN_NONE;
}

/* A column of the tokens, and the rows that its values go to. */
typedef struct {
    Maps *maps;
    Py_buffer out;
} Column;

/* The spans of a call, and the rows that they go to. */
typedef struct {
    const int64_t *row, *column, *start, *length;
    Py_ssize_t num_spans;
    char *out;
    int64_t num_rows, row_length, width;
    uint8_t *flags; /* as many as tokens of the rows, or NULL */
    uint64_t mark;  /* clears a flag: that of its own token, or that of the token after it */
    int marks_next;
    Column columns[MAX_COLUMNS];
    int num_columns;
} Spans;

static inline int is_inside(const Maps *self, const Spans *spans, Py_ssize_t span) {
    int64_t row = spans->row[span], column = spans->column[span];
    int64_t start = spans->start[span], length = spans->length[span];
    return row >= 0 && row < spans->num_rows && column >= 0 && length >= 0 && length <= spans->row_length &&
           column <= spans->row_length - length && start >= 0 &&
           start <= self->edges[self->num_runs] - length;
}

enum { AHEAD = 8192, LINE = 64 }; /* bytes */

/* Ask for the bytes of a later span: to wait for memory is most of what a copy costs. Returns how many
   they are. Inline, or gcc leaves the call out: to it, asking for memory has no effect. */
static inline __attribute__((always_inline)) int64_t fetch(const Maps *self, const Spans *spans, Py_ssize_t span) {
    if (!is_inside(self, spans, span) || !spans->length[span]) return 0;
    int64_t start = spans->start[span], run = run_of(self, start);
    int64_t tokens = self->edges[run + 1] - start;
    if (tokens > spans->length[span]) tokens = spans->length[span];
    int64_t bytes = tokens * self->width;
    if (!self->tokens[run]) return bytes;
    const char *from = self->tokens[run] + (start - self->edges[run]) * self->width;
    int64_t asked = bytes < AHEAD ? bytes : AHEAD; /* the processor sees by itself what follows */
    for (int64_t i = 0; i < asked; i += LINE) __builtin_prefetch(from + i);
    __builtin_prefetch(from + asked - 1);
    return bytes;
}

/* The byte of the first value of a column at a token, which is in this run. */
static inline const char *value_at(const Maps *column, int64_t run, int64_t token) {
    int64_t inside = token - column->edges[run];
    return column->tokens[run] + (column->width ? inside * column->width : (inside + column->skipped[run]) / 8);
}

/* Asks for the values of a later span. */
static inline __attribute__((always_inline)) void fetch_values(const Spans *spans, Py_ssize_t span) {
    for (int i = 0; i < spans->num_columns; i++) {
        const Maps *column = spans->columns[i].maps;
        int64_t start = spans->start[span];
        if (start < 0 || start >= column->edges[column->num_runs]) continue;
        int64_t run = run_of(column, start);
        if (!column->tokens[run]) continue;
        int64_t tokens = column->edges[run + 1] - start;
        if (tokens > spans->length[span]) tokens = spans->length[span];
        int64_t bytes = column->width ? tokens * column->width : tokens / 8;
        const char *from = value_at(column, run, start);
        for (int64_t i = 0; i < bytes && i < AHEAD; i += LINE) __builtin_prefetch(from + i);
    }
}

/* Copies the values of tokens of one run to the cells of the rows from number `cell` on. Returns 0 if some
   column does not have all of them there. */
static int copy_values(const Spans *spans, int64_t run, int64_t start, int64_t count, int64_t cell) {
    for (int i = 0; i < spans->num_columns; i++) {
        const Maps *column = spans->columns[i].maps;
        char *out = spans->columns[i].out.buf;
        if (run >= column->num_runs || start < column->edges[run] || start + count > column->edges[run + 1] ||
            !column->tokens[run])
            return 0;
        if (column->width)
            memcpy(out + cell * column->width, value_at(column, run, start), (size_t)(count * column->width));
        else
            copy_bits(out + cell, column->tokens[run], start - column->edges[run] + column->skipped[run], count);
    }
    return 1;
}

/* Copies spans from `first` on. Returns the number of those before which all are done; if that is not
   all of them, `*missing` is the run that is not there, -1 for an id above `largest`, -2 for a span
   that is outside of the axis or of the rows. */
static Py_ssize_t copy_spans(const Maps *self, const Spans *spans, uint64_t largest, Py_ssize_t first,
                             int64_t *missing) {
    int power = power_of(self->width);
    Copy copy = COPY_OF[2 * power + self->is_signed][power_of(spans->width)];
    uint64_t (*largest_of)(const void *, int64_t) = LARGEST_OF[power];
    uint64_t most = UINT64_MAX >> (64 - 8 * self->width); /* the largest of all ids */
    int checks = largest < most, marks = spans->flags && spans->mark <= most >> self->is_signed;
    Py_ssize_t next = first; /* span to ask for */
    int64_t asked = 0, copied = 0; /* bytes */
    for (Py_ssize_t span = first; span < spans->num_spans; span++) {
        if (!is_inside(self, spans, span)) {
            *missing = -2;
            return span;
        }
        for (; next < spans->num_spans && asked - copied <= AHEAD; next++) {
            asked += fetch(self, spans, next);
            fetch_values(spans, next);
        }
        int64_t start = spans->start[span], left = spans->length[span];
        int64_t column = spans->column[span], row_begin = spans->row[span] * spans->row_length;
        char *to = spans->out + (row_begin + column) * spans->width;
        for (int64_t run = left ? run_of(self, start) : 0; left; run++) {
            int64_t here = self->edges[run + 1] - start;
            if (here > left) here = left;
            if (!here) continue; /* an empty run */
            if (!self->tokens[run] || !copy_values(spans, run, start, here, row_begin + column)) {
                *missing = run;
                return span;
            }
            const char *from = self->tokens[run] + (start - self->edges[run]) * self->width;
            copy(to, from, here);
            if (checks && largest_of(from, here) > largest) {
                *missing = -1;
                return span;
            }
            if (marks) {
                int64_t flag = column + spans->marks_next, room = spans->row_length - flag;
                UNMARK_OF[power](spans->flags + row_begin + flag, from, here < room ? here : room, spans->mark);
            }
            to += here * spans->width;
            column += here;
            start += here;
            left -= here;
            copied += here * self->width;
        }
    }
    return spans->num_spans;
}

/* One column of spans: int64, as many as the others. */
static int get_numbers(PyObject *object, Py_buffer *view, Py_ssize_t count) {
    if (PyObject_GetBuffer(object, view, PyBUF_ND)) return 0;
    if (view->ndim == 1 && view->itemsize == (Py_ssize_t)sizeof(int64_t) && (count < 0 || view->shape[0] == count))
        return 1;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "spans are arrays of int64, all of one length");
    return 0;
}

/* Takes (maps, rows) of each column: as many cells as the rows of tokens have, each as wide as a value. */
static int get_columns(PyObject *pairs, PyTypeObject *type, Spans *spans) {
    Py_ssize_t count = PyTuple_Size(pairs);
    if (count < 0) return 0;
    for (Py_ssize_t i = 0; i < count && i < MAX_COLUMNS; i++) {
        PyObject *maps, *rows;
        Column *column = &spans->columns[i];
        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "O!O", type, &maps, &rows)) return 0;
        if (PyObject_GetBuffer(rows, &column->out, PyBUF_ND | PyBUF_WRITABLE)) return 0;
        column->maps = (Maps *)maps;
        spans->num_columns++;
        int64_t width = column->maps->width ? column->maps->width : 1;
        if (column->out.len != spans->num_rows * spans->row_length * width) {
            PyErr_SetString(PyExc_ValueError, "there must be one value of a column for each token of the rows");
            return 0;
        }
    }
    if (count > MAX_COLUMNS) PyErr_SetString(PyExc_ValueError, "a dataset has at most 16 columns");
    return count <= MAX_COLUMNS;
}

/* gather(out, row, column, start, length, largest, first, flags, mark, marks_next, columns = ()) -> (done, missing): the
   spans from number `first` on go to `out`, a contiguous (rows, columns) array. When done is less than the
   number of spans, span `done` needs the run `missing`; or it holds an id above `largest`, seen as
   unsigned, and `missing` is -1. If `flags` are given, a byte for each token of the rows, the flag of each
   token that is the mark is cleared; with `marks_next`, that of the token after it in its row. `columns` is a
   tuple of (maps, rows), with the runs of these maps: their values go to the same cells. */
static PyObject *maps_gather(PyObject *object, PyObject *arguments) {
    Maps *self = (Maps *)object;
    PyObject *rows, *given[4], *columns = NULL;
    unsigned long long largest, mark;
    Py_ssize_t first;
    int marks_next;
    Py_buffer out, views[4], flags;
    if (!PyArg_ParseTuple(arguments, "OOOOOKnz*Kp|O!", &rows, &given[0], &given[1], &given[2], &given[3], &largest,
                          &first, &flags, &mark, &marks_next, &PyTuple_Type, &columns))
        return NULL;
    PyObject *result = NULL;
    int held = 0;
    Spans spans = {0};
    if (PyObject_GetBuffer(rows, &out, PyBUF_ND | PyBUF_WRITABLE)) {
        PyBuffer_Release(&flags);
        return NULL;
    }
    if (out.ndim != 2 || power_of(out.itemsize) < 0 || power_of(self->width) < 0) {
        PyErr_SetString(PyExc_ValueError, "rows are a contiguous 2-D array of integers");
        goto finish;
    }
    if (flags.buf && (flags.readonly || flags.len != out.shape[0] * out.shape[1])) {
        PyErr_SetString(PyExc_ValueError, "there must be one flag for each token of the rows");
        goto finish;
    }
    for (; held < 4; held++)
        if (!get_numbers(given[held], &views[held], held ? views[0].shape[0] : -1)) goto finish;
    spans = (Spans){
        views[0].buf,  views[1].buf, views[2].buf, views[3].buf, views[0].shape[0],
        out.buf, out.shape[0], out.shape[1], out.itemsize, flags.buf, mark, marks_next, {{0}}, 0,
    };
    if (columns && !get_columns(columns, Py_TYPE(object), &spans)) goto finish;
    if (first < 0) first = 0;
    int64_t missing = -1;
    Py_ssize_t done;
    self->in_use++;
    for (int i = 0; i < spans.num_columns; i++) spans.columns[i].maps->in_use++;
    Py_BEGIN_ALLOW_THREADS;
    done = copy_spans(self, &spans, largest, first, &missing);
    Py_END_ALLOW_THREADS;
    self->in_use--;
    for (int i = 0; i < spans.num_columns; i++) spans.columns[i].maps->in_use--;
    if (missing == -2)
        PyErr_SetString(PyExc_IndexError, "a span is outside of the axis or of the rows");
    else
        result = Py_BuildValue("nL", done, (long long)missing);
finish:
    for (int i = 0; i < spans.num_columns; i++) PyBuffer_Release(&spans.columns[i].out);
    while (held) PyBuffer_Release(&views[--held]);
    PyBuffer_Release(&out);
    PyBuffer_Release(&flags);
    return result;
}

static PyMethodDef MAPS_METHODS[] = {
    {"put", maps_put, METH_VARARGS, NULL},
    {"drop", maps_drop, METH_VARARGS, NULL},
    {"gather", maps_gather, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot MAPS_SLOTS[] = {
    {Py_tp_new, maps_new},
    {Py_tp_dealloc, maps_dealloc},
    {Py_tp_methods, MAPS_METHODS},
    {0, NULL},
};

static PyType_Spec MAPS_SPEC = {"tokenmill.kernel.loops.Maps", sizeof(Maps), 0, Py_TPFLAGS_DEFAULT, MAPS_SLOTS};

/* Adds the type to the module; -1 if that fails. */
int add_maps(PyObject *module) {
    for (int byte = 0; byte < 256; byte++)
        for (int bit = 0; bit < 8; bit++) BITS_OF[byte][bit] = byte >> bit & 1;
    PyObject *type = PyType_FromSpec(&MAPS_SPEC);
    if (!type) return -1;
    int failed = PyModule_AddObject(module, "Maps", type);
    if (failed) Py_DECREF(type);
    return failed;
}
